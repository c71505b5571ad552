"""Settled publications arrive exactly once and in order at exactly the clients of the oracle, through real
daemons, while subscriptions and clients come and go and a broker is killed and restarted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.exactness import play


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("seed", [1])
def test_fifteen_daemons_under_churn_and_a_crash(tmp_path: Path, seed: int) -> None:
    verdict = play(tmp_path, seed)
    assert not verdict.wrong, "\n".join(verdict.wrong[:20])
    assert verdict.owed > 1000, "too little was owed to mean anything"
