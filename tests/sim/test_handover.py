"""Clients are handed over while everything else goes on, and fails: a share of the seeds of `make proof`."""

from __future__ import annotations

import pytest

from tools.simulator.handover_mutants import HANDOVER_MUTANTS
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


@pytest.mark.parametrize("seed", [1, 7])
def test_clients_are_handed_over_and_nothing_fails(seed: int) -> None:
    result = simulate(find("handover-calm"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.faults["handover: moved"] > 0 and result.owed > 0 and not result.cut


# 6 found a subscription that its client had ended while its second link was down.
@pytest.mark.parametrize("seed", [4, 6])
def test_clients_are_handed_over_while_everything_fails(seed: int) -> None:
    result = simulate(find("handover"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]


def test_one_seed_with_every_frame_encoded() -> None:
    result = simulate(find("handover"), "", True, 14)
    assert result.ok, [result.replay(), *result.violations]


@pytest.mark.parametrize("name", HANDOVER_MUTANTS)
def test_mutant_is_caught(name: str) -> None:
    assert any(not simulate(find("handover-calm"), name, None, seed).ok for seed in (15, *range(50))), name
