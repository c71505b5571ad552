"""Durable publications where brokers come back elsewhere, or have forgotten who was behind them."""

from __future__ import annotations

import pytest

from tests.sim.stories import Story
from tools.simulator.mutants import mutated


def test_a_restarted_broker_does_not_settle_for_one_that_it_has_forgotten() -> None:
    """b4 is below b2, and has a stream; sent to b2 for it, publications of b1's publisher wait there. b0, in
    the middle, dies before b2 gives b4 up; back again it waits for b3, until b2 says nothing of b4 any more.
    b4 is below b1 by now: what b1 sends b0 again is for nobody there."""
    story = Story(5, fanout=3, durable=True)
    story._addresses[4] = ("sim://b2",)
    story.begin()
    middle, away, moves = story.brokers[0], story.brokers[3], story.brokers[4]
    sender = story.publisher("sender", 1)
    sender.durable = True
    story.client("reader", 4, stream="x > 0")
    story.wait(lambda: bool(story.oracle.streams.counted()))
    story.crash(moves)
    story.run_for(3.5)
    sender.publish(*({"x": x} for x in range(1, 6)))
    story.run_for(1.5)
    for broker in (middle, away):
        story.crash(broker)
    story.run_for(0.5)
    story._addresses[4] = ("sim://b1",)
    moves.start()
    story.run_for(2.0)
    middle.start()
    story.run_for(4.6)
    away.start()
    story.wait(lambda: sender.idle)
    assert story.in_stream() == [1, 2, 3, 4, 5]
    assert not story.judged()


def test_one_that_is_believed_loses_what_the_other_was_owed() -> None:
    with mutated("restarted-broker-believed"), pytest.raises(AssertionError):
        test_a_restarted_broker_does_not_settle_for_one_that_it_has_forgotten()


def test_what_is_behind_a_broker_that_was_given_up_and_has_restarted_is_missing() -> None:
    """b2, with a stream, is below b1; both die, and b0, above b1, gives it up and restarts. b4, which was
    below b1 as well, is below b3 by now and misses it. When b1 is back it waits for b2: nobody but b1 knows
    that there is one, and what b3 replays must not be settled without it."""
    story = Story(5, fanout=2, durable=True)
    story._addresses[2:] = [("sim://b1",), ("sim://b0",), ("sim://b1", "sim://b3")]
    story.begin()
    top, given_up, behind = story.brokers[:3]
    sender = story.publisher("sender", 3)
    sender.durable = True
    story.client("reader", 2, stream="x > 0")
    story.wait(lambda: bool(story.oracle.streams.counted()))
    for broker in (behind, given_up):
        story.crash(broker)
    sender.publish(*({"x": x} for x in range(1, 6)))
    story.wait(lambda: not any(peer.name == "b1" for peer in (*story.peers(0), *story.peers(4))))
    story.crash(top)
    story.run_for(0.5)
    top.start()
    story.run_for(4.0)
    given_up.start()
    story.run_for(3.0)
    behind.start()
    story.wait(lambda: sender.idle)
    assert story.in_stream() == [1, 2, 3, 4, 5]
    assert not story.judged()


def test_if_it_is_not_named_what_it_was_owed_is_settled_and_lost() -> None:
    with mutated("heard-counts-at-once"), pytest.raises(AssertionError):
        test_what_is_behind_a_broker_that_was_given_up_and_has_restarted_is_missing()


def test_what_is_not_durable_in_a_batch_with_durable_ones_is_told_as_cut() -> None:
    """b1 is given up with both on their way to it. The durable one follows when b1 is back; of the other the
    publisher heard nothing, and it was settled."""
    story = Story(2, durable=True).begin()
    sender = story.publisher("sender", 0)
    story.client("reader", 1, stream="x > 0")
    story.wait(lambda: bool(story.oracle.streams.counted()))
    story.crash(story.brokers[1])
    for x, durable in ((1, True), (2, False)):  # in one batch
        payload = story.oracle.published(sender, sender.session.next_sequence, {"x": x})
        sender.session.publish({"x": x}, payload, durable)
    sender.pump()
    story.wait(lambda: not story.peers(0))
    story.brokers[1].start()
    story.wait(lambda: sender.idle)
    assert story.in_stream() == [1]
    assert not story.judged()
    assert story.oracle.cut_count == 1
