"""Asks for topics that cannot be answered yet."""

from __future__ import annotations

from grapevine.wire.chord import ArcAsk
from grapevine.wire.identity import identify
from overlay.chord.ring import owns
from overlay.chord.topics import key_of
from tests.sim.test_ring_leaving import LeavingStory, core_of


def test_who_said_long_ago_that_it_is_a_root_is_not_believed_now() -> None:
    """It leaves, and gives its topics to the newcomer, which takes them and dies before it has said so. Who
    has the newcomer's copy is the root then, and tells a subscriber so. The leaver is next before it again,
    and what it had asked before the newcomer came was answered: the topics were the leaver's, as it had
    known them."""
    story = LeavingStory()
    leaver, root = story.roots(story.before), story.roots(story.behind)
    begin = leaver.begin
    assert begin is not None
    topic = next(f"t{n}" for n in range(1000) if owns(begin, leaver.here, key_of(f"'t{n}'")))
    story.newcomer.start()
    story.wait(lambda: leaver.membership.successors[0].name == story.newcomer.name)
    story.wait(lambda: core_of(story.newcomer).ready)
    session = core_of(story.behind).peers[identify(story.before.name)]
    root.on_ask(session, ArcAsk(leaver.membership.me, True), story.behind.clock())
    story.before.leave()
    story.wait(lambda: story.roots(story.newcomer).begin == begin)
    story.crash(story.newcomer)
    story.wait(lambda: root.begin == begin)
    reader = story.client("reader", story.behind.index)
    wanted = story.subscribe(reader, f"topic = '{topic}'")
    story.wait(lambda: wanted.confirmed, 2.0)
    story.wait(lambda: story.before.left, 20.0)
    home = next(one for one in story.brokers if one.core is not None and one is not story.behind)
    sender = story.publisher("sender", home.index, filter="exists topic")
    sender.publish({"topic": topic, "x": 1})
    story.wait(lambda: sender.idle)
    assert story.received(reader) == [1]
