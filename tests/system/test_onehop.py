"""Two dispatchers and four matchers, real daemons under load: what happens to a matcher costs no message.

How fast it is asked elsewhere is measured by `python -m tests.system.onehop kill` on a machine that is idle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.system.onehop import SCENES, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def exact(found: dict[str, Any]) -> bool:
    return found["delivered"] > 0 and not any(
        found[word] for word in ("lost", "wrong", "doubled", "out_of_order")
    )


def test_clients_of_a_killed_dispatcher_go_on_elsewhere(tmp_path: Path) -> None:
    """What was for them meanwhile is told as undelivered or a gap; then everything comes again."""
    found = play(tmp_path, SCENES["dispatcher"])
    assert found["delivered"] > 0 and not found["lost_later"] and not found["untold"], found
    assert not any(found[word] for word in ("wrong", "doubled", "out_of_order")), found


@pytest.mark.parametrize("scene", ["kill", "stop", "join", "leave"])
def test_nothing_is_lost_doubled_or_late_in_order(scene: str, tmp_path: Path) -> None:
    """BlueDove IV-E: the paper loses 5 % for 17.5 s when a matcher fails."""
    found = play(tmp_path, SCENES[scene])
    assert exact(found), found
