"""Where nobody can say what was wanted, or how far publishers had come: it is cut and told, not settled."""

from __future__ import annotations

from grapevine.wire.messages import PROTOCOL
from tests.sim.stories import Story


def test_what_waits_above_two_restarted_brokers_is_told_when_the_third_does_not_come_back() -> None:
    """b0 holds what is for b3. b1 and b2 restart and know nobody; b2 gives b3 up, whose wishes nobody has
    told it. What then flows from b0 through b1 meets b2's announcement of everything, and is cut there."""
    story = Story(4).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 3)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.wall(story.brokers[3], reader, seconds=60.0)
    story.crash(story.brokers[1])
    story.crash(story.brokers[2])
    sender.publish(*({"x": x} for x in range(1, 11)))
    story.run_for(1.0)
    story.brokers[1].start()
    story.brokers[2].start()
    story.wait(lambda: sender.idle)
    assert not story.received(reader)
    assert not story.judged()
    assert story.oracle.excused["cut"] == 10


def test_an_older_neighbour_that_cannot_be_asked_is_waited_for() -> None:
    """b1 speaks the last protocol, which has no Drain: what b0 held when b2 gave b3 up comes later."""
    story = Story(4)
    story.protocols[1] = PROTOCOL - 1
    story.begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 3)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.wall(story.brokers[3], reader, seconds=60.0)
    story.run_for(4.0)
    story.wall(story.brokers[0], sender, seconds=4.0)
    sender.publish(*({"x": x} for x in range(1, 11)))
    story.wait(lambda: sender.idle)
    assert story.oracle.reach.losses and not story.received(reader)
    assert not story.judged()
    assert story.oracle.excused["cut"] == 10
