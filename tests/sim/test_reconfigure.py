"""A share of the seeds of chord-reconfigure: brokers of a ring change places under traffic and crashes."""

from __future__ import annotations

import pytest

from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


@pytest.mark.parametrize("seed", [1, 3])
def test_brokers_change_places_and_fail_while_they_do(seed: int) -> None:
    result = simulate(find("chord-reconfigure"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0 and result.faults["reconfiguration"] > 0


def test_an_old_plane_that_goes_too_early_is_missed() -> None:
    seeds = (7, 13, *range(4))  # where it was last seen, then others
    assert any(
        not simulate(find("chord-reconfigure"), "reconfiguration-dropped-early", None, seed).ok
        for seed in seeds
    )
