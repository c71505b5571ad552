"""docs/filters.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grapevine.filters import FilterError, identity, limits, parse, to_text

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "filters.md").read_text()


@pytest.mark.parametrize("text", re.findall(r"```filter\n(.*?)\n```", GUIDE, re.DOTALL))
def test_examples_are_read(text: str) -> None:
    assert parse(text).conjunctions


@pytest.mark.parametrize(
    ("written", "read_as"), re.findall(r"^\| `(not .*)` \| `(.*)` \|$", GUIDE, re.MULTILINE)
)
def test_the_table_of_not(written: str, read_as: str) -> None:
    assert identity(parse(written)) == identity(parse(read_as))


def test_the_table_of_limits() -> None:
    told = {name: int(value) for name, value in re.findall(r"^\| ([A-Z_]+) \| (\d+) \|", GUIDE, re.MULTILINE)}
    assert told == {
        name: value for name, value in vars(limits).items() if name.isupper() and "INT_" not in name
    }


def test_the_error_shown() -> None:
    with pytest.raises(FilterError) as caught:
        parse("class = STOCK and volume > 5")
    assert f"FilterError: {caught.value}\n" in GUIDE


def test_the_code_shown() -> None:
    assert to_text(parse("volume > 5 and not (volume > 9 or halted)")) in GUIDE


def test_every_bracket_operator_is_told() -> None:
    from grapevine.filters.building import BRACKET_OPERATORS

    told = {
        word.lower() for word in re.findall(r"`([^`\s]+)`", GUIDE.split("## PADRES")[1].split("## Errors")[0])
    }
    assert set(BRACKET_OPERATORS) <= told
