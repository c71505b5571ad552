"""A host whose link is down for a while: the short form; `make proof` has ten seconds and an upgrade."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.lab import why_no_namespaces
from tests.system.outage import play

pytestmark = pytest.mark.slow

QUICK = {"ping_s": 0.5, "greet_s": 1.0, "redial_s": 0.1}
CUT_S = 4.0


@pytest.fixture(autouse=True)
def namespaces() -> None:
    pytest.importorskip("asyncssh")
    if missing := why_no_namespaces():
        pytest.skip(missing)


def test_a_host_is_cut_off_and_comes_back_and_nothing_settled_is_lost(tmp_path: Path) -> None:
    outcome = play(tmp_path, CUT_S, upgrade=False, links=QUICK)
    assert outcome["wrong"] == []
    assert outcome["owed"] > 1_000
    assert outcome["while_cut"] > 100
    assert outcome["left"] == []
