"""The rules of edge changes: those that are missed at once when they are left out, and what is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.counterexamples import parse, read
from tests.model.edges.events import WEIGHTS
from tests.model.edges.rules import RULES
from tests.model.edges.world import Limits, World
from tests.model.explorer import replay, walk

FORK = (None, 0, 1, 1)
HERE = Path(__file__).parent / "edges"
FOUND = read(HERE / "counterexamples.txt")


def make(without: tuple[str, ...], limits: Limits) -> World:
    return World(FORK, 0, (2, 3), limits, without)


@pytest.mark.parametrize("without", FOUND, ids=",".join)
def test_a_rule_is_missed(without: tuple[str, ...]) -> None:
    found = FOUND[without]
    assert set(without) <= set(RULES)
    violation, _ = replay(lambda: make(without, Limits(*found.limits)), found.trace)
    assert violation is not None and violation.what == found.breaks
    violation, _ = replay(lambda: make((), Limits(*found.limits)), found.trace)
    assert violation is None, violation


def test_two_thousand_states_without_a_crash_are_clean() -> None:
    limits = Limits(changes=2, breaks=2, crashes=0)
    found = walk(lambda: make((), limits), WEIGHTS, states=2_000, steps=110)
    assert found.violation is None, found.sentence()


def test_what_is_open_is_still_open() -> None:
    """Whoever mends it will want to know, and to explore `python -m tests.model crashes` in full."""
    _, _, breaks, events = (part.strip() for part in (HERE / "open.txt").read_text().split("|"))
    limits = Limits(changes=2, breaks=1, crashes=1)
    violation, _ = replay(lambda: make((), limits), [parse(event) for event in events.split()])
    assert violation is not None and violation.what == breaks
