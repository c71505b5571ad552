"""The rules of edge changes: those that are missed when they are left out, and that nothing breaks with all.

`python -m tests.model edges` and `crashes` explore a million states each (make proof); here is a share.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.counterexamples import read
from tests.model.edges.events import WEIGHTS
from tests.model.edges.rules import NOT_SHOWN, RULES
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


def test_every_rule_has_its_counterexample_or_is_known_to_have_none() -> None:
    shown = {rule for rules in FOUND for rule in rules}
    assert shown | NOT_SHOWN == set(RULES) and not shown & NOT_SHOWN


@pytest.mark.parametrize(("crashes", "states"), [(0, 2_000), (1, 2_000)])
def test_nothing_breaks_with_all_rules(crashes: int, states: int) -> None:
    limits = Limits(changes=2, breaks=2, crashes=crashes)
    found = walk(lambda: make((), limits), WEIGHTS, states=states, steps=110)
    assert found.violation is None, found.sentence()
