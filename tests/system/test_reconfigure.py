"""The guide's commands about positions on a ring, under traffic: nothing is lost, doubled or late."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.overlay import eventually
from tests.system.reconfigured import SLOW_S, Traffic, a_ring, planes
from tests.system.test_pubctl import Pubctl


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_brokers_change_places_under_traffic(tmp_path: Path) -> None:
    with a_ring(tmp_path, 5) as daemons:
        pubctl = Pubctl(daemons[0].keys, daemons[1].address)
        traffic = Traffic(daemons)
        eventually(lambda: traffic.total > 200, SLOW_S)
        planned = eventually(lambda: pubctl.json("reconfigure", "plan"), SLOW_S)
        assert planned["topics"] > 0 and planned["rows"], planned
        pubctl.json("reconfigure", "apply", "--anyway", "--dry-run")
        assert set(planes(pubctl)) == {0}
        pubctl.json("reconfigure", "apply", "--anyway", "--yes")
        eventually(lambda: set(planes(pubctl)) == {1}, SLOW_S)
        before = traffic.total
        eventually(lambda: traffic.total > before + 200, SLOW_S)
        traffic.end()
        assert not traffic.mistakes()
        events = pubctl.json("events")["rows"]
        assert any(row["kind"] == "reconfiguration" for row in events)
