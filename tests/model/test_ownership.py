"""The rules of ownership: each is missed when it is left out, and with all of them nothing breaks.

`python -m tests.model loss` and `relocation` explore a million states each (make proof); here is a share.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.counterexamples import Counterexample, read
from tests.model.explorer import replay, walk
from tests.model.ownership.events import WEIGHTS
from tests.model.ownership.properties import come_to_rest
from tests.model.ownership.rules import NOT_SHOWN, RULES, TOGETHER
from tests.model.ownership.world import Limits, World

CHAIN = (None, 0, 1)
FOUND = read(Path(__file__).parent / "ownership" / "counterexamples.txt")


def make(without: tuple[str, ...], limits: Limits) -> World:
    return World(CHAIN, 0, (2,), limits, without)


def counterexample(rule: str) -> Counterexample:
    return FOUND[TOGETHER.get(rule, (rule,))]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in NOT_SHOWN])
def test_a_rule_is_missed(rule: str) -> None:
    found = counterexample(rule)
    limits = Limits(*found.limits)
    violation, _ = replay(lambda: make(found.without, limits), found.trace)
    assert violation is not None and violation.what == found.breaks
    violation, _ = replay(lambda: make((), limits), found.trace)
    assert violation is None, violation


def test_every_rule_has_its_counterexample_or_is_known_to_have_none() -> None:
    shown = {rule for rule in RULES if TOGETHER.get(rule, (rule,)) in FOUND}
    assert shown | NOT_SHOWN == set(RULES)
    assert {rule for rules in FOUND for rule in rules} <= set(RULES)


@pytest.mark.parametrize("relocations", [0, 2])
def test_nothing_breaks_with_all_rules(relocations: int) -> None:
    limits = Limits(faults=3, relocations=relocations, publications=2)
    start: list[tuple[object, ...]] = []
    come_to_rest(make((), Limits(0, 0, 0)), None, start)
    found = walk(lambda: make((), limits), WEIGHTS, states=15_000, start=start)
    assert found.violation is None, found.sentence()
