"""A second copy of what is persisted, under lost disks and forgotten brokers; `make proof` runs more."""

from __future__ import annotations

import pytest

from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


# Together they have each of the fates of a lost disk.
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_durable_copies(seed: int) -> None:
    result = simulate(find("durable-copies"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
