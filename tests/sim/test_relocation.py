"""Publishers move under churn, cuts, pauses and crashes: a share of the seeds of `make proof`, and the five
mistakes that must be seen within fifty of them."""

from __future__ import annotations

import pytest

from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


@pytest.mark.parametrize("seed", range(4))
def test_publishers_move_and_nothing_else_happens(seed: int) -> None:
    result = simulate(find("relocation-calm"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.faults["relocation"] > 0


@pytest.mark.parametrize("seed", range(8))
def test_publishers_move_while_everything_fails(seed: int) -> None:
    result = simulate(find("relocation"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0


@pytest.mark.parametrize("algorithm", ["pop", "grape"])
@pytest.mark.parametrize("seed", range(2))
def test_the_algorithms_move_publishers_by_themselves(algorithm: str, seed: int) -> None:
    result = simulate(find(f"relocation-{algorithm}"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]


@pytest.mark.parametrize("scenario", ["relocation-softlinks", "relocation-softlinks-unordered"])
@pytest.mark.parametrize("seed", range(2))
def test_publishers_move_while_soft_links_come_and_go(scenario: str, seed: int) -> None:
    result = simulate(find(scenario), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.faults["algorithm"] > 0


# What a seed once found: the word of a neighbour that has never said SyncDone stood against a synced one's.
FOUND = (6057,)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once(seed: int) -> None:
    result = simulate(find("relocation"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]


@pytest.mark.parametrize("seed", range(4))
def test_publishers_move_on_while_an_update_is_late(seed: int) -> None:
    result = simulate(find("relocation-late"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.faults["late update"] > 0


# Where each was last seen; when the code changes, so may the seed, and the others are tried.
SEEN_AT = {
    "complete-before-settled": ("relocation", 2),
    "mark-not-handed-over": ("relocation", 0),
    "operation-2-skipped": ("relocation", 0),
    "operation-3-skipped": ("relocation", 1),
}


@pytest.mark.parametrize("name", SEEN_AT)
def test_mutant_is_caught(name: str) -> None:
    scenario, pinned = SEEN_AT[name]
    seeds = [pinned, *(seed for seed in range(50) if seed != pinned)]
    assert any(not simulate(find(scenario), name, None, seed).ok for seed in seeds), name
