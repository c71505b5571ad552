"""An overlay in parts: everybody hears who cannot be reached, and clients are told or sent away."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.sim.stories import LINKS, Story
from tools.simulator.clients import ClientHost
from tools.simulator.mutants import mutated


def test_both_parts_of_an_overlay_hear_who_is_missing_until_it_is_back() -> None:
    """b1 dies: the halves cannot reach each other, and each client is told whom its broker misses before it
    is told that anything is settled or confirmed (DECISIONS 25)."""
    story = Story(5).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 4)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    assert partial(sender) == partial(reader) == ()
    story.crash(story.brokers[1])
    sender.publish({"x": 1})
    story.wait(lambda: sender.idle)
    assert partial(sender) == ("b1",)
    story.wait(lambda: partial(reader) == ("b1",))  # b2 has lost it; b3 and b4 are told
    late = story.client("late", 3)
    story.wait(lambda: partial(late) == ("b1",))
    story.brokers[1].start()
    story.wait(lambda: not partial(sender) and not partial(reader) and not partial(late))
    assert not story.judged()


def test_a_broker_that_comes_back_elsewhere_is_not_missing() -> None:
    story = Story(4)
    story._addresses[3] = ("sim://b2", "sim://b0")
    story.begin()
    watcher = story.client("watcher", 2)
    story.wait(lambda: watcher.idle)
    story.wall(story.brokers[3], seconds=2.5 * LINKS.lost_after_s)
    story.wait(lambda: partial(watcher) == ("b3",))
    story.wait(lambda: partial(watcher) == ())


@pytest.mark.parametrize("slow_s", [0.0, 4.5])
def test_the_overlay_is_whole_only_when_what_is_wanted_is_known(slow_s: float) -> None:
    """b1 is back and is heard before it has told, or knows itself, what is wanted at b0, which may be slow.
    Until then what is published behind it reaches nobody, and its publisher must not believe that all are
    there."""
    story = Story(4).begin()
    reader = story.client("reader", 0)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    near, far = story.publisher("near", 2), story.publisher("far", 3)
    story.crash(story.brokers[1])
    story.wait(lambda: partial(near) == partial(far) == ("b1",))
    story.wall(story.brokers[0], seconds=slow_s)
    story.brokers[1].start()
    story.wait(lambda: not partial(near))
    near.publish({"x": 1})
    story.wait(lambda: not partial(far))
    far.publish({"x": 2})
    story.wait(lambda: near.idle and far.idle)
    assert story.received(reader) == [1, 2]
    assert not story.judged()


def test_what_is_settled_as_soon_as_one_is_heard_does_not_reach_those_behind_it() -> None:
    with mutated("heard-counts-at-once"), pytest.raises(AssertionError):
        test_the_overlay_is_whole_only_when_what_is_wanted_is_known(4.5)


def test_an_overlay_in_parts_may_refuse_clients() -> None:
    story = Story(3).begin()
    for core in story.cores():
        clients = replace(core.settings.clients, when_split="refuse")
        core.settings = replace(core.settings, clients=clients)
    guest = story.client("guest", 2)
    subscription = story.subscribe(guest, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.crash(story.brokers[1])
    story.wait(lambda: not story.cores()[-1].clients, seconds=20)
    story.run_for(3.0)
    assert not story.cores()[-1].clients and not guest.idle
    story.brokers[1].start()
    story.wait(lambda: guest.idle and subscription.confirmed)


def partial(client: ClientHost) -> tuple[str, ...]:
    return client.session.partial if client.session is not None else ()
