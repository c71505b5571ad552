"""Settled publications arrive exactly once and in order at exactly the clients of the oracle, through real
daemons, while subscriptions and clients come and go and a broker is killed and restarted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.exactness import Scene


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1])
def test_fifteen_daemons_under_churn_and_a_crash(tmp_path: Path, seed: int) -> None:
    with Scene(tmp_path, seed, brokers=15, publishers=6, subscribers=14) as scene:
        scene.publish(60, seed)
        scene.change(60)
        scene.publish(60, seed + 1)
        scene.at_once(lambda: scene.publish(100, seed + 2), lambda: scene.change(60))
        scene.at_once(lambda: scene.publish(300, seed + 3), lambda: scene.kill_and_restart(0.1, 0.5))
        scene.change(30)
        scene.publish(60, seed + 4)
        verdict = scene.judge()
    assert not verdict.wrong, "\n".join(verdict.wrong[:20])
    assert verdict.owed > 1000, "too little was owed to mean anything"
