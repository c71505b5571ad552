"""SPEC T6 on real daemons: a broker in the middle is killed and stays away. `make proof` plays more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.healed import BARS_S, run


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_tree_goes_round_a_broker_that_was_killed(tmp_path: Path) -> None:
    line = run(tmp_path, "killed")
    assert not line["wrong"], line
    assert line["settled"] > 100 and line["whole_s"] <= 3 * BARS_S["killed"], line  # type: ignore[operator]
