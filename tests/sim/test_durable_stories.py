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
