"""A coordinator places subscribers at the nearest broker and moves them: nobody misses a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.proof_balance import run


@pytest.mark.timeout(400)
def test_subscribers_are_placed_and_moved(tmp_path: Path) -> None:
    # All are nearest to one of three brokers: that many have to move until none has more than five.
    found = run(subscribers=12, wanted=7, directory=tmp_path, seed=3, edges=3)
    assert not found["wrong"], found
    assert found["cov_nearest"] > found["alpha"] >= found["cov_balanced"], found
    assert found["moved"] >= 7 and not found["failed"], found
