"""Durable publications and streams under crashes and broken disks; mistakes that must be seen. `make proof`
runs more seeds."""

from __future__ import annotations

import pytest

from tools.simulator.disk_mutants import DISK_MUTANTS
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


# 17 found streams whose record was not in their publishers' order, 63 what a full disk refused and called
# persisted; in 43 and 62 brokers came back elsewhere, and newer publications before what was stranded.
@pytest.mark.parametrize("seed", [0, 1, 3, 17, 43, 62, 63])
def test_durable(seed: int) -> None:
    result = simulate(find("durable"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]


# Where each was last seen; when the code changes, so may the seed, and the others are tried. A tail that is
# not rewritten is seen by tests/unit/test_journal_recovery.py; by stories (test_durable_stories.py): who is
# awaited and not missed, a restarted broker that is believed, newer ones before what is stranded. In a run
# the last is told, as overtaken, by what recognises numbers below the first (overlay/data/skipped.py).
SEEN_AT = {
    "ack-before-sync": 0,
    "failed-sync-retried": 14,
    "cut-at-first-checksum": 1,
    "custody-freed-at-persisted": 0,
    "replay-newest-first": 22,
    "persisted-when-received": 5,
    "sources-not-kept": 1,
    "given-before-on-disk": 0,
    "settled-before-in-stream": 24,
}


@pytest.mark.parametrize("name", SEEN_AT)
def test_mutant_is_caught(name: str) -> None:
    pinned = SEEN_AT[name]
    seeds = [pinned, *(seed for seed in range(50) if seed != pinned)]
    assert any(_shows(name, seed) for seed in seeds), name


def _shows(mutant: str, seed: int) -> bool:
    """A seed that is bad without the mutant shows nothing."""
    scenario = find("durable")
    return not simulate(scenario, mutant, None, seed).ok and simulate(scenario, "", None, seed).ok


def test_every_mutant_of_the_disk_has_a_seed() -> None:
    elsewhere = {"tail-not-rewritten", "heard-counts-at-once"}
    elsewhere |= {"restarted-broker-believed", "newer-before-stranded"}
    assert DISK_MUTANTS.keys() - SEEN_AT.keys() == elsewhere
