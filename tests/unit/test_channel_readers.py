"""What `subscribe_channel` returns, over a town instead of a socket."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, cast

import pytest

from grapevine.client.channel_readers import ChannelSubscription
from grapevine.client.session.channels import WINDOW_BYTES
from grapevine.errors import ChannelError
from tests.town import Town, founded, publish, subscribe


class Client:
    """As much of a blocking client as a reader needs."""

    _sleeping = True

    def __init__(self, town: Town, name: str) -> None:
        self.town = town
        self._session = town.sessions[name][0]
        self._lock = Lock()

    def _wake(self) -> None: ...

    def _await(self, goal: Callable[[], bool], timeout: float | None) -> bool:
        for _ in range(30):
            if goal():
                return True
            self.town.run(0.1)
        return False


@pytest.fixture
def town() -> Town:
    found = founded()
    found.validates = False
    found.attach("ann", "edge")
    return found


def reader(town: Town, low: int = 0) -> ChannelSubscription:
    state = subscribe(town, "ann", low)
    return ChannelSubscription(cast(Any, Client(town, "ann")), state)


def test_a_loop_that_is_left_leaves_the_rest(town: Town) -> None:
    results = reader(town)
    publish(town, 1, 2, 3)
    town.drive()
    town.run(0.1)
    for result in results:
        assert result.row == {"id": 1}
        break
    second = results.next(0)
    assert second is not None and second.row == {"id": 2}
    assert next(iter(results)).row == {"id": 3}


def test_an_execution_that_is_more_than_the_window_comes_whole(town: Town) -> None:
    results = reader(town)
    publish(town, 1)
    town.drive()
    assert [each.row["id"] for each in results.next_execution(1)] == [1]
    publish(town, *range(1, 51))
    town.drive(rows=4_000)
    found = results.next_execution(1)
    assert len(found) == 50 * 4_000
    assert sum(each.size for each in found) > 2 * WINDOW_BYTES
    positions = [each.position for each in found]
    assert positions == sorted(set(positions))


def test_what_it_waits_for_is_not_taken_before_it_has_it(town: Town) -> None:
    results = reader(town)
    publish(town, *range(1, 51))
    town.drive(rows=2_500)
    assert results._client._await(lambda: results._whole(), None)
    assert results._state.acknowledged < results._state.queue[0].position


def test_what_is_there_of_an_execution_comes_when_its_channel_ends(town: Town) -> None:
    results = reader(town)
    publish(town, *range(1, 51))
    town.drive(rows=2_500)
    town.run(0.1)
    results._state.error = ChannelError("channel Near was dropped")
    assert results.next_execution(1)
    with pytest.raises(ChannelError):
        results.next_execution(1)
