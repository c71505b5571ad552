"""Traces that show what a rule is for: read from a text file, one a line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.model.explorer import Event

EVENT = re.compile(r"(\w+)(?:\(([\d,]*)\))?$")


class Counterexample(NamedTuple):
    without: tuple[str, ...]
    limits: tuple[int, ...]
    breaks: str
    trace: list[Event]


def parse(word: str) -> Event:
    match = EVENT.match(word)
    assert match is not None, word
    numbers = match[2].split(",") if match[2] else []
    return (match[1], *map(int, numbers))


def read(path: Path) -> dict[tuple[str, ...], Counterexample]:
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            rules, limits, breaks, events = (part.strip() for part in line.split("|"))
            without = tuple(rules.split(","))
            numbers = tuple(map(int, limits.split()))
            found[without] = Counterexample(without, numbers, breaks, [parse(e) for e in events.split()])
    return found
