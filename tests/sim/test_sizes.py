"""The leak check itself: what it must see on a broker at rest, and what it must not excuse."""

from __future__ import annotations

from collections import deque

import pytest
from sortedcontainers import SortedList

from overlay.core import Core
from tests.sim.stories import Story
from tools.simulator import sizes
from tools.simulator.sizes import UnknownName, check_names, leftovers


@pytest.fixture
def core() -> Core:
    """The middle of three brokers at rest."""
    story = Story(3).begin()
    story.run_for(5.0)
    resting = story.brokers[1].core
    assert resting is not None
    assert leftovers(resting) == []
    return resting


def test_a_thousand_timers_left_are_seen(core: Core) -> None:
    for number in range(1000):
        core.timers.at(1e6 + number, lambda now: None)
    [(path, size)] = leftovers(core)
    assert path == "Timers._order" and 980 < size <= 1000


def test_one_table_that_is_not_empty_is_seen_whatever_its_type(core: Core) -> None:
    behaviour = core.behaviours[0]
    for container in (dict.fromkeys([1], 2), [1], {1}, deque([1]), SortedList([1])):
        behaviour.left = container  # type: ignore[attr-defined]
        assert leftovers(core) == [(f"{type(behaviour).__name__}.left", 1)]


@pytest.mark.parametrize("name", ["Timers._heap", "NoSuchClass.", "Sync.no_such_attribute"])
def test_an_exception_for_what_does_not_exist_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MAPS", (*sizes.MAPS, name))
    with pytest.raises(UnknownName, match=name):
        check_names.__wrapped__()
