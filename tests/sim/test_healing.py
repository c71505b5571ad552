"""SPEC T6: brokers die beside each other, parts are cut off and come back; more seeds in make proof."""

from __future__ import annotations

import pytest

from tools.simulator.digests import small
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate

HEALING = small(find("healing"))


@pytest.mark.parametrize("seed", [0, 4, 6])
def test_one_tree_without_a_cycle_and_nothing_lost(seed: int) -> None:
    result = simulate(HEALING, "", None, seed)
    assert result.ok and result.owed > 0 and result.faults["death"] > 0, [result.replay(), *result.violations]


def test_what_is_held_must_not_be_forgotten() -> None:
    assert any(not simulate(HEALING, "healing-held-forgotten", None, seed).ok for seed in (4, 6, 8))
