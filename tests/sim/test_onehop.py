"""A share of the seeds of a one-hop cluster, and its mutants, which must be seen."""

from __future__ import annotations

import pytest

from tools.simulator.onehop_mutants import ONEHOP_MUTANTS
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


@pytest.mark.parametrize("seed", range(4))
def test_without_faults(seed: int) -> None:
    result = simulate(find("onehop"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0


# 45 and 51 found publications that waited while their subscriber's dispatcher was held dead, and matches for
# clients of a dispatcher's earlier life.
@pytest.mark.parametrize("seed", [*range(6), 45, 51])
def test_every_fault_at_once(seed: int) -> None:
    result = simulate(find("onehop-faults"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]


def test_one_seed_with_every_frame_encoded() -> None:
    result = simulate(find("onehop-faults"), "", True, 3)
    assert result.ok, [result.replay(), *result.violations]


@pytest.mark.parametrize("name", ONEHOP_MUTANTS)
def test_mutant_is_caught(name: str) -> None:
    assert any(not simulate(find("onehop-faults"), name, None, seed).ok for seed in range(50)), name
