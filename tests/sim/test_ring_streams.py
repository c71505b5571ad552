"""Durable subscriptions on a ring whose brokers go away and come back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from grapevine.wire.identity import identify
from overlay.chord.planes import Planes
from overlay.chord.ring import owns
from overlay.chord.topics import key_of
from overlay.journal.streams import Streams
from tests.sim.stories import Story
from tests.sim.test_ring_leaving import core_of
from tools.simulator.broker import BrokerHost
from tools.simulator.mutants import mutated
from tools.simulator.ring import part
from tools.simulator.scenario import Brokers, Clients, Durable, Faults, find
from tools.simulator.simulation import Simulation

HOME, SENDERS, OTHER = 2, 5, 6


class RingStory(Story):
    """Seven brokers on a ring; a stream at b2, a durable publisher at b5, an ordinary subscriber at b6."""

    def __init__(
        self,
        wanted: str = "topic = 'a'",
        count: int = 7,
        home: int = HOME,
        senders: int = SENDERS,
        other: int = OTHER,
    ) -> None:
        calm = find("chord-calm")
        scenario = replace(
            calm,
            brokers=Brokers(overlay="chord", count=count, seeds=4),
            clients=Clients(publishers=0, subscribers=0),
            faults=Faults(),
            durable=Durable(),
            chord=replace(calm.chord, lost_after_s=2.0, refresh_s=2.0),
            links=replace(calm.links, lost_after_s=3.0),
        )
        Simulation.__init__(self, scenario, 0)
        for broker in self.brokers:
            broker.start()
        self.wait(lambda: all(core.ready for core in self.cores()))
        self.sender = self.publisher("sender", senders, filter="exists topic")
        self.sender.durable = True
        self.client("reader", home, stream=wanted)
        self.other = self.client("other", other)
        confirmed = self.subscribe(self.other, wanted)
        self.wait(lambda: confirmed.confirmed and bool(self.oracle.streams.counted()))

    def publish(self, numbers: range, topics: str = "a", every_s: float = 0.0) -> None:
        for x in numbers:
            self.sender.publish({"topic": topics[x % len(topics)], "x": x})
            if every_s:
                self.run_for(every_s)

    def restart_home(self, after_s: float) -> None:
        home = self.brokers[HOME]
        self.crash(home)
        self.world.after(after_s, lambda _: home.start(), None)


def test_a_stream_is_owed_what_is_published_while_its_broker_is_away() -> None:
    """Longer than roots wait for any other member; the others go on meanwhile."""
    story = RingStory()
    story.publish(range(1, 6))
    story.wait(lambda: story.sender.idle)
    story.restart_home(15.0)
    story.run_for(6.0)
    story.publish(range(6, 11))
    story.wait(lambda: story.received(story.other) == list(range(1, 11)), 6.0)
    story.run_for(4.0)
    assert not story.sender.idle
    story.wait(lambda: story.sender.idle)
    assert story.in_stream() == list(range(1, 11))
    assert not story.judged()


def test_if_its_root_forgets_it_it_misses_them() -> None:
    with mutated("ring-stream-forgotten"), pytest.raises(AssertionError):
        test_a_stream_is_owed_what_is_published_while_its_broker_is_away()


@pytest.mark.parametrize("away_s", [1.0, 4.0, 6.0])
def test_what_was_on_its_way_when_an_older_one_was_cut_comes_after_it(away_s: float) -> None:
    """A publication is cut because its stream's broker is away; newer ones find it back."""
    story = RingStory()
    story.publish(range(1, 41), every_s=0.05)
    story.restart_home(away_s)
    story.publish(range(41, 401), every_s=0.03)
    story.wait(lambda: story.sender.idle)
    assert story.in_stream() == list(range(1, 401))
    assert story.received(story.other) == list(range(1, 401))
    assert not story.judged()


def test_if_they_come_first_it_is_taken_for_a_duplicate() -> None:
    with mutated("ring-newer-first"), pytest.raises(AssertionError):
        test_what_was_on_its_way_when_an_older_one_was_cut_comes_after_it(4.0)


def test_who_is_gone_for_good_is_waited_for_by_nobody() -> None:
    """After ten times links.lost_after_s, as on a tree."""
    story = RingStory()
    story.crash(story.brokers[HOME])
    story.run_for(6.0)
    story.publish(range(1, 6))
    story.run_for(20.0)
    assert not story.sender.idle
    story.wait(lambda: story.sender.idle, 60.0)
    assert story.received(story.other) == [1, 2, 3, 4, 5]


def test_a_stream_of_two_topics_takes_each_in_its_order() -> None:
    """Two topics of a publisher have two roots: a later one of the first may come before an earlier one of
    the second."""
    story = RingStory("topic in ('a', 'b', 'c', 'd')")
    story.publish(range(1, 81), "abcd", every_s=0.005)
    story.wait(lambda: story.sender.idle)
    assert sorted(story.in_stream()) == list(range(1, 81))
    assert not story.judged()


class AgainStory(RingStory):
    """A publication of before a stream is sent again behind a later one that the stream has: the broker of
    `other` has not settled it, and the publisher's restarts. The root of their `topic` is neither."""

    def __init__(self) -> None:
        super().__init__("topic = 'unused'")
        root = next(b for b in self.brokers if b.index not in (HOME, SENDERS, OTHER) and self.tells(b))
        arc = part(core_of(root), Planes).roots
        assert arc.begin is not None
        begin, here = arc.begin, arc.here
        self.topic = next(t for t in map(str, range(1000)) if owns(begin, here, key_of(f"'{t}'")))
        wanted = self.subscribe(self.other, f"topic = '{self.topic}'")
        self.wait(lambda: wanted.confirmed)

    def tells(self, root: BrokerHost) -> bool:
        """Without the other one."""
        planes = part(core_of(root), Planes)
        hops = [planes.membership.hop_to(identify(f"b{number}")) for number in (HOME, SENDERS)]
        near = [node.name for node in (*hops, *planes.roots.holders.nodes) if node is not None]
        return f"b{OTHER}" not in near

    def restart(self, number: int) -> None:
        self.crash(self.brokers[number])
        self.brokers[number].start()

    @property
    def streams(self) -> Streams:
        return part(core_of(self.brokers[HOME]), Streams)

    def begin(self) -> None:  # type: ignore[override]
        """1 is under way to the other one, 2 is in the new stream."""
        self.brokers[OTHER].pause(1.5)
        self.sender.publish({"topic": self.topic, "x": 1})
        self.client("late", HOME, stream=f"topic = '{self.topic}'")
        self.wait(lambda: len(self.oracle.streams.counted()) == 2, 1.0)
        self.sender.publish({"topic": self.topic, "x": 2})
        self.wait(lambda: self.in_stream(2) == [2], 0.5)
        self.run_for(0.1)  # nobody has 2 under way to it any more


def test_what_is_older_than_what_a_stream_has_does_not_come_into_it_after_a_restart() -> None:
    """Its broker had forgotten which number of each topic is the last in the log."""
    story = AgainStory()
    story.begin()
    story.restart(HOME)
    story.restart(SENDERS)
    story.wait(lambda: story.sender.idle)
    assert story.received(story.other) == [1, 2] and story.in_stream(2) == [2]
    assert not story.judged()


def test_nor_does_it_if_its_reader_has_acknowledged_that() -> None:
    """And the log has let go of it: both came into it, the later one for the second time."""
    story = AgainStory()
    story.begin()
    (stream,) = [one for one in story.streams.journal.contents.streams.values() if len(one.log)]
    for _, cursor in stream.cursors.values():
        cursor.acknowledge_to(1)
    story.streams.trim(stream, 0.0)
    story.streams.journal._seal()
    story.run_for(0.1)
    story.restart(HOME)
    story.restart(SENDERS)
    story.wait(lambda: story.sender.idle)
    assert story.received(story.other) == [1, 2]
    assert [len(one.log) for one in story.streams.journal.contents.streams.values()] == [0, 0]


@pytest.mark.parametrize(
    "story",
    [
        test_what_is_older_than_what_a_stream_has_does_not_come_into_it_after_a_restart,
        test_nor_does_it_if_its_reader_has_acknowledged_that,
    ],
)
def test_if_nobody_knows_what_is_in_the_log_it_does(story: Callable[[], None]) -> None:
    with mutated("sources-not-kept"), pytest.raises(AssertionError):
        story()


def test_by_the_last_number_of_the_publisher_some_would_be_duplicates() -> None:
    with mutated("ring-stream-by-publisher"), pytest.raises(AssertionError):
        test_a_stream_of_two_topics_takes_each_in_its_order()


def test_on_a_ring_that_begins_again_roots_wait_for_what_is_wanted() -> None:
    """All but the publisher's broker restart. It founds a ring with them, and what it has for a stream is at
    the new root, b3, before that one has been told of the stream."""
    story = RingStory("topic in ('h', 'v')", count=4, home=0, senders=2, other=2)
    story.publish(range(1, 9), "hv")
    story.wait(lambda: story.sender.idle)
    for number in (0, 1, 3):
        story.crash(story.brokers[number])
        story.world.after(0.3, lambda broker: broker.start(), story.brokers[number])
    story.publish(range(9, 41), "hv")
    story.wait(lambda: story.sender.idle)
    assert sorted(story.in_stream()) == sorted(story.received(story.other)) == list(range(1, 41))
    assert not story.judged()


def test_so_they_do_when_all_brokers_restart_and_the_publisher_is_gone() -> None:
    """What a broker has on its disk is sent as soon as it is on the ring."""
    story = RingStory("topic in ('h', 'v')", count=4, home=0, senders=2, other=1)
    story.crash(story.brokers[0])
    story.publish(range(1, 41), "hv")
    story.run_for(0.3)
    story.sender.crash()
    for broker in story.brokers:
        story.crash(broker)
        story.world.after(0.3, lambda broker: broker.start(), broker)
    story.run_for(30.0)
    assert sorted(story.in_stream()) == list(range(1, 41))
    assert not story.judged()


@pytest.mark.parametrize(
    "story",
    [
        test_on_a_ring_that_begins_again_roots_wait_for_what_is_wanted,
        test_so_they_do_when_all_brokers_restart_and_the_publisher_is_gone,
    ],
)
def test_if_they_take_it_for_what_nobody_wants_it_is_lost(story: Callable[[], None]) -> None:
    with mutated("ring-begins-empty"), pytest.raises(AssertionError):
        story()


def test_a_broker_with_streams_does_not_leave() -> None:
    story = RingStory()
    home = story.brokers[HOME]
    home.leave()
    story.run_for(5.0)
    assert home.core is not None and not home.core.leaving
    story.publish(range(1, 4))
    story.wait(lambda: story.sender.idle)
    assert story.in_stream() == [1, 2, 3]


def test_a_durable_subscription_that_names_no_topics_is_refused() -> None:
    story = RingStory()
    host = story.client("wrong", OTHER, stream="x > 5")
    story.wait(lambda: host.reader is not None and host.reader.error is not None)
    assert host.reader is not None and "routes by topic" in str(host.reader.error)
