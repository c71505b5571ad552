"""What a one-hop cluster promises, one story each: members that come and go, segments that change hands."""

from __future__ import annotations

from typing import Any

import pytest

from grapevine.wire.onehop import LEFT, Span
from overlay.administration.census import Census
from overlay.administration.reports import Ask, Reports
from overlay.onehop.cluster import Cluster
from overlay.onehop.placing import Placing
from overlay.settings import OneHopSettings
from tests.sim.cluster_stories import ClusterStory
from tools.simulator.tables import behaviour

TWO = ("x", "y")


def test_who_has_left_and_waits_to_be_heard_still_answers() -> None:
    """It was asked for its state, had no word for it, and the broker fell."""
    story = ClusterStory(2, 1).begin()
    story.network.clog(story.link(1, 2), story.world.now + 2.0)
    story.brokers[1].leave()
    core = story.core(1)
    story.wait(lambda: behaviour(core, Cluster).own.state == LEFT)
    assert not core.finished, "the dispatcher has not heard of it"
    report = behaviour(core, Census).reporters["onehop"](b"")
    assert report is not None and report["state"] == "left"
    assert behaviour(core, Reports).broker(Ask())["member_state"] == "left"
    story.wait(lambda: story.brokers[1].left)


def test_subscriptions_of_a_dispatcher_are_counted() -> None:
    """They are in no index there, and status said that there were none."""
    story = ClusterStory(1, 1).begin()
    reader = story.client("reader", 1)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    row = behaviour(story.core(1), Reports).broker(Ask())
    assert row["subscriptions"] == row["subscriptions_known"] == 1
    assert row["onehop"]["members"] == 2 and row["onehop"]["broad"] == 1
    assert behaviour(story.core(0), Reports).broker(Ask())["onehop"]["copies"] == 1


@pytest.mark.parametrize("placement", ["first", "replicate"])
def test_one_dimension_is_used_where_the_others_do_not_count(placement: str) -> None:
    """The first matcher owned all the others, and was a candidate of everything."""
    story = ClusterStory(2, 1, onehop=OneHopSettings(dimensions=TWO, placement=placement)).begin()
    reader = story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    table = behaviour(story.core(2), Cluster).table
    assert {candidate.dimension for candidate in table.candidates((1, 1))} == {0}, placement
    assert [story.matching(0).sets.sizes()[1], story.matching(1).sets.sizes()[1]] == [0, 0]
    publisher = story.publisher("publisher", 2)
    publisher.publish({"x": 1})
    story.wait(lambda: publisher.idle)
    assert story.received(reader) == [1] and not story.judged()


def test_who_leaves_while_it_takes_a_part_hands_that_on_too() -> None:
    """It had nothing of its own, was gone at once, and what it took then had no owner."""
    story = ClusterStory(2, 1).begin()
    story.network.clog(story.link(1, 2), story.world.now + 0.8)  # the home fills it later
    story.hand_over(0, 1, 0, Span(5, None))
    story.wait(lambda: bool(story.matching(1).growths))
    story.brokers[1].leave()
    story.run_for(0.3)
    assert story.matching(1).growths and not story.handover(1).gone
    story.wait(lambda: story.brokers[1].left)
    assert story.matching(0).entry.segments == ((Span(),), (Span(),)), "it has all of it again"
    assert not story.judged()


def test_a_part_that_takes_long_to_fill_is_given_all_the_same() -> None:
    """The offer was forgotten after half a minute; a newcomer with a higher id gave the part back then, and
    asked for it again, for ever."""
    story = ClusterStory(2, 1).begin()
    taker = story.matching(1)
    grow = taker.grow
    slow: list[tuple[Any, ...]] = []
    taker.grow = lambda *asked: slow.append(asked)  # type: ignore[method-assign, assignment]
    story.hand_over(0, 1, 0, Span(5, None))
    story.wait(lambda: bool(slow))
    story.run_for(60.0)
    taker.grow = grow  # type: ignore[method-assign]
    grow(*slow[0][:-1], story.core(1).now)
    story.brokers[1].wake()
    story.wait(lambda: story.handover(0).moves == 1)
    story.run_for(5.0)
    assert story.matching(0).entry.segments[0] == (Span(None, 5),)
    assert taker.entry.segments[0] == (Span(5, None),)
    kinds = [event.kind for event in story.core(1).events.since(0)]
    assert "segment.taken" in kinds and "serving" in kinds
    assert [event.kind for event in story.core(0).events.since(0)].count("segment.given") == 1


def test_spares_lie_beside_the_only_holder_and_are_never_asked() -> None:
    """III-A. Whoever takes the segment has them already, and nothing waits for them."""
    story = ClusterStory(2, 1, onehop=OneHopSettings(dimensions=TWO, spares=True)).begin()
    for dimension in (0, 1):
        story.hand_over(0, 1, dimension, Span(5, None))
        story.wait(lambda: bool(story.matching(1).entry.segments[dimension]))  # noqa: B023
    reader = story.client("reader", 2)
    low = story.subscribe(reader, "x > 0 and x < 3 and y > 0 and y < 3")
    wide = story.subscribe(reader, "x > 0 and y > 0 and y < 3")
    story.wait(lambda: low.confirmed and wide.confirmed)
    story.run_for(0.1)
    beside = story.matching(1).sets
    assert beside.spares == 1 and beside.sizes() == [1, 0], "the wide one is a copy, the spare is in no set"
    assert [len(mine.holders) for mine in behaviour(story.core(2), Placing).subscriptions.values()] == [2, 2]
    publisher = story.publisher("publisher", 2)
    story.crash(story.brokers[0])
    publisher.publish({"x": 1, "y": 1})
    story.wait(lambda: publisher.idle)
    assert story.received(reader) == [1] and beside.sizes() == [2, 2], "it has its neighbour's part now"
    reader.unsubscribe(low)  # type: ignore[arg-type]
    story.run_for(1.0)
    assert len(beside.homes[story.core(2).id].copies) == 1 and not story.judged()


def test_what_is_spare_no_longer_is_taken_back() -> None:
    story = ClusterStory(2, 1, onehop=OneHopSettings(dimensions=TWO, spares=True)).begin()
    for dimension in (0, 1):
        story.hand_over(0, 1, dimension, Span(5, None))
        story.wait(lambda: bool(story.matching(1).entry.segments[dimension]))  # noqa: B023
    reader = story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0 and x < 3 and y > 0 and y < 3")
    story.wait(lambda: subscription.confirmed and story.matching(1).sets.spares == 1)
    story.brokers[1].leave()
    story.wait(lambda: story.brokers[1].left)
    story.run_for(10.0)
    placed = behaviour(story.core(2), Placing)
    assert [mine.holders for mine in placed.subscriptions.values()] == [{story.core(0).id}]
    assert placed.status()["copies_each"] == 1.0


def test_who_restarts_among_members_that_hold_the_others_dead_waits_for_them() -> None:
    """b1 was cut off and holds all others dead. b3 starts again beside it, and believed that nobody else was
    there, while b2 still held its session: what b2 confirmed meanwhile counted there (seed 97 of faults)."""
    story = ClusterStory(2, 2).begin()
    reader, publisher = story.client("reader", 2), story.publisher("publisher", 3)
    story.wait(lambda: reader.idle)
    story.wall(story.brokers[1], seconds=8.5)
    story.run_for(8.0)
    story.crash(story.brokers[3])
    story.wall(story.brokers[1], story.brokers[3], publisher, seconds=20.0)
    story.brokers[3].start()
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed, 4.0)
    story.wait(lambda: story.core(3).ready and publisher.idle, 15.0)
    publisher.publish({"x": 1})
    story.wait(lambda: publisher.idle)
    story.run_for(20.0)
    publisher.publish({"x": 2})
    story.wait(lambda: publisher.idle)
    assert story.received(reader) == [2] and not story.judged()
