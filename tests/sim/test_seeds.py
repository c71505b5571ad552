"""A share of the seeds that `make proof` runs in full: faults judged by the oracle, and mutants that must
be seen. A seed that fails here prints its own command line."""

from __future__ import annotations

import pytest

from tools.simulator.mutants import MUTANTS
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


@pytest.mark.parametrize("seed", range(14))
def test_quick(seed: int) -> None:
    result = simulate(find("quick"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0 and sum(result.faults.values()) > 0


# The last found something; 41 neighbours that waited for each other's SyncDone round a broker that had moved;
# 90 an heir's withdrawn word that came back to it as the leaver's; 122 a subscription that was told for an
# advertisement and stayed when that came from elsewhere; 7 what was cut on its way to a broker that came back
# elsewhere, and was sent again there after newer ones.
@pytest.mark.parametrize("seed", [*range(6), 7, 31, 41, 90, 122, 156, 192])
def test_every_fault_at_once(seed: int) -> None:
    result = simulate(find("faults"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]


# Where each was last seen; when the code changes, so may the seed, and the others are tried.
SEEN_AT = {
    "no-reannouncement": 0,
    "early-confirmation": 2,
    "tables-kept": 0,
    "resync-never-removes": 0,
    "covering-per-link": 0,
    "settle-on-received": 5,
    "incarnation-kept": 9,
    "retention-dropped": 0,
}


@pytest.mark.parametrize("name", SEEN_AT)
def test_mutant_is_caught(name: str) -> None:
    pinned = SEEN_AT[name]
    seeds = [pinned, *(seed for seed in range(50) if seed != pinned)]
    assert any(not simulate(find("quick"), name, None, seed).ok for seed in seeds), name


def test_every_core_mutant_has_a_seed() -> None:
    assert SEEN_AT.keys() <= MUTANTS.keys()
