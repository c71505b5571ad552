"""docs/PROTOCOL.md says what the code does: its tables, its limits, and every frame that it prints.

`pytest tests/unit/test_protocol_doc.py --rewrite` fills in fields, protocol and role of the rows of messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grapevine.filters.normal import Filter, Op, Predicate
from grapevine.wire import decode, encode, limits
from grapevine.wire import messages as wire
from grapevine.wire.gates import ANYBODY
from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import (
    BROKERS_OLDEST,
    KINDS,
    OUTCOMES,
    PROTOCOL,
    PROTOCOL_OLDEST,
    REFUSALS,
    RESERVED,
)

PATH = Path(__file__).resolve().parents[2] / "docs" / "PROTOCOL.md"
PAGE = PATH.read_text()
STRUCTURES: tuple[type[Any], ...] = (
    wire.Publication,
    wire.Cut,
    wire.Resume,
    wire.Advertisement,
    wire.Subscription,
    Exclusion,
    Filter,
    Predicate,
)


def rows(heading: str) -> Iterator[list[str]]:
    """The rows of the table whose head begins like this."""
    assert PAGE.count(heading) == 1, heading
    for line in PAGE.partition(heading)[2].splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def fields(cls: type[Any]) -> str:
    return ", ".join(cls.__struct_fields__)


def roles(names: frozenset[str]) -> str:
    return "any" if names == ANYBODY else " or ".join(sorted(names))


def test_protocols() -> None:
    assert f"This is protocol {PROTOCOL}; brokers speak {BROKERS_OLDEST} and {PROTOCOL}," in PAGE
    assert f"and take clients from {PROTOCOL_OLDEST} on." in PAGE


def written_anew(page: str) -> str:
    """With `since` and `role` of every row as the gates have them; a new row needs only the rest."""
    lines = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) in (5, 7) and (cls := _class(cells)) is not None:
            kind, name, _, *rest = cells
            sender, when = (rest[1], rest[3]) if len(rest) == 4 else rest
            gate = cls.gate
            row = (kind, name, fields(cls), str(gate.since), sender, roles(gate.roles), when)
            line = f"| {' | '.join(row)} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _class(cells: list[str]) -> type[Any] | None:
    found = KINDS.get(int(cells[0])) if cells[0].isdigit() else None
    return found if found is not None and found.__name__ == cells[1] else None


def test_every_message_has_its_row(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        PATH.write_text(written_anew(PAGE))
        return
    told = {
        (int(kind), name, of, int(since), role)
        for kind, name, of, since, _, role, _ in rows("| kind | name | fields |")
    }
    right = {
        (kind, cls.__name__, fields(cls), cls.gate.since, roles(cls.gate.roles))
        for kind, cls in KINDS.items()
    }
    assert told == right, f"wrong: {sorted(told - right)}; missing: {sorted(right - told)}"
    assert all(
        set(senders.split()) <= set("CBPAR") and when for *_, senders, _, when in rows("| kind | name | f")
    )


def test_promised_kinds_are_named() -> None:
    (promise,) = re.findall(r"Promised to later parts: (.*?)\n\n", PAGE, re.DOTALL)
    told: set[int] = set()
    for first, last in re.findall(r"\b(\d+)(?:-(\d+))?", promise):
        told.update(range(int(first), int(last or first) + 1))
    assert told == set(RESERVED)


def test_structures() -> None:
    assert dict(rows("| structure | fields |")) == {cls.__name__: fields(cls) for cls in STRUCTURES}


def test_operators() -> None:
    assert [(int(op), name) for op, name, _ in rows("| op | name | operand |")] == [
        (op, op.name) for op in Op
    ]


def test_words() -> None:
    assert f"`Refuse.reason`: {', '.join(REFUSALS)}." in PAGE
    words = " ".join(PAGE.split())
    assert f"`Done.outcome`: {', '.join(OUTCOMES)}." in words


def test_limits() -> None:
    right = {name: str(int(value)) for name, value in vars(limits).items() if name.isupper()}
    assert {name: value for name, value, _ in rows("| limit | value | of |")} == right


def test_frames_are_what_they_are_said_to_be() -> None:
    frames = re.findall(r"^([CB]) ([0-9a-f]+)\n  (.*)$", PAGE, re.MULTILINE)
    assert len(frames) > 10
    senders = {name: senders.split() for _, name, _, _, senders, *_ in rows("| kind | name | fields |")}
    for sender, frame, said in frames:
        message = decode(bytes.fromhex(frame))
        assert repr(message) == said
        assert sender in senders[type(message).__name__]
        assert decode(encode(message)) == message
