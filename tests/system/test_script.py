"""One scenario on fifteen real daemons, in the simulator and by brute force: the same sets everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.script import Script, play_in_simulator, play_on_daemons


@pytest.mark.timeout(240)
def test_daemons_and_simulator_deliver_the_same(tmp_path: Path) -> None:
    script = Script.draw(seed=1)
    expected = script.expected()
    assert sum(map(len, expected.values())) > 1000, "too little to mean anything"
    assert play_in_simulator(script, seed=1) == expected
    assert play_on_daemons(script, tmp_path) == expected
