"""Brokers of a ring that are silent for longer than the others wait, and live."""

from __future__ import annotations

from grapevine.wire.identity import identify
from overlay.chord.ring import owns
from overlay.chord.topics import key_of
from tests.sim.test_ring_leaving import LeavingStory, core_of
from tools.simulator.ring import not_ideal


def test_a_root_that_was_only_silent_learns_what_the_next_one_knows() -> None:
    """Its machine stops for a while. Who has its copy takes its place, and confirms a subscriber. When it was
    back it took its topics again as it had known them, and the subscriber missed what was published then."""
    story = LeavingStory()
    before, silent, _ = story.in_order()[2:5]
    arc = identify(before.name), identify(silent.name)
    topic = next(f"t{n}" for n in range(1000) if owns(*arc, key_of(f"'t{n}'")))
    sender = story.publisher("sender", before.index, filter="exists topic")
    silent.pause(12.0)
    story.run_for(9.0)
    reader = story.client("reader", story.in_order()[5].index)
    wanted = story.subscribe(reader, f"topic = '{topic}'")
    story.wait(lambda: wanted.confirmed, 2.0)
    for x in range(30):
        sender.publish({"topic": topic, "x": x})
        story.run_for(0.2)
    story.wait(lambda: sender.idle and not not_ideal(story.cores()), 10.0)
    assert story.roots(silent).is_root(key_of(f"'{topic}'")) and core_of(silent).ready
    assert story.received(reader) == list(range(30))
