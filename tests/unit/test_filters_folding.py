"""Folding keeps the meaning: all pairs of conditions about one attribute, many triples, telling values."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest

from grapevine.filters import Value, check, identity, matches, parse, to_text
from grapevine.filters.expression import And, Expression, Not, Or, Test
from grapevine.filters.normalise import normalise
from tests.unit.test_filters_laws import truth

ORDERED: tuple[Value, ...] = (1, 2, "", "a", "ab", -math.inf, math.inf)
VALUES: tuple[Value, ...] = (
    *(True, False, 0, 1, 1.0, 1.5, 2, 3, math.inf, -math.inf),
    *("", "a", "aa", "ab", "abb", "aab", "b", "ba", "bab", "acb", "c"),
)
SUBJECTS: tuple[dict[str, Value], ...] = ({}, *({"a": value} for value in VALUES))


def conditions() -> list[Expression]:
    found = [Test("a", "exists"), Test("a", "in", (1, 2)), Test("a", "in", (2, "a", True))]
    found += [Test("a", "=", (value,)) for value in (*ORDERED, True, 1.5)]
    found += [Test("a", sign, (value,)) for sign in ("<", "<=") for value in ORDERED]
    found += [Test("a", "between", ends) for ends in ((1, 2), (2, 1), ("a", "b"), ("", "a"))]
    found += [
        Test("a", word, (part,)) for word in ("prefix", "suffix", "contains") for part in ("", "a", "b", "ab")
    ]
    return [*found, *(Not(condition) for condition in found)]


def keeps_its_meaning(node: Expression) -> None:
    form = normalise(node)
    for subject in SUBJECTS:
        assert matches(form, subject) == truth(node, subject), (node, subject, to_text(form))
    check(form)


def test_all_pairs() -> None:
    for left, right in itertools.combinations_with_replacement(conditions(), 2):
        keeps_its_meaning(And((left, right)))


def test_many_triples() -> None:
    rng, all_of_them = Random(11), conditions()
    for _ in range(4_000):
        one, two, three = rng.choices(all_of_them, k=3)
        keeps_its_meaning(And((one, two, three)))
        keeps_its_meaning(Or((And((one, two)), three)))


def test_strings_in_threes() -> None:
    """Where folding reasons about parts of strings, three conditions decide."""
    parts = [
        one
        for one in conditions()
        if isinstance(one, Test) and one.operator in ("prefix", "suffix", "contains")
    ]
    for one, two, three in itertools.product(parts, repeat=3):
        keeps_its_meaning(And((one, two, three)))
        keeps_its_meaning(And((one, two, Not(three))))


def test_folding_twice_is_folding_once() -> None:
    rng, all_of_them = Random(5), conditions()
    for _ in range(1_500):
        form = normalise(Or((And(tuple(rng.choices(all_of_them, k=3))), rng.choice(all_of_them))))
        assert identity(parse(to_text(form))) == identity(form)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("circle(0, 0, 5) and lat = 'x'", "false"),
        ("not circle(0, 0, 5) and lat = 'x'", "false"),
        ("not circle(0, 0, 5) and lon in ('x', 1)", "not circle(0, 0, 5) and lon = 1"),
        ("not circle(0, 0, 5) and lon prefix 'x'", "false"),
        ("not circle(0, 0, 5) and not exists lon", "false"),
        ("not circle(0, 0, 5) and exists lon", "not circle(0, 0, 5)"),
        ("not circle(0, 0, 5) and lat >= -1e999", "not circle(0, 0, 5)"),
        ("circle(0, 0, 5) and not circle(0, 0, 5)", "false"),
        ("circle(0, 0, 5) and lat < 90", "circle(0, 0, 5)"),
    ],
)
def test_the_attributes_of_a_circle_are_numbers(text: str, same: str) -> None:
    assert identity(parse(text)) == identity(parse(same))


@pytest.mark.parametrize(
    "position", [(91, 0), (0, 181), (-90.5, 0), (0, -180.5), (True, 0), ("0", 0), (0, math.inf)]
)
def test_what_is_no_position_is_neither_inside_nor_outside(position: tuple[Value, Value]) -> None:
    subject = {"lat": position[0], "lon": position[1]}
    assert not matches(parse("circle(0, 0, 30000)"), subject)
    assert not matches(parse("not circle(0, 0, 1)"), subject)
