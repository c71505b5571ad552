"""What the protocol promises, one story each: confirmations, departures, cycles, names, restarts."""

from __future__ import annotations

import pytest

from grapevine.errors import Timeout
from grapevine.wire.identity import identify
from overlay.gather import Gather
from overlay.softlinks.move_commands import MoveCommands
from overlay.tree.subscriptions import Subscriptions
from tests.sim.stories import LINKS, Story
from tools.simulator.mutants import mutated
from tools.simulator.tables import behaviour


def test_a_publication_after_the_confirmation_arrives_from_anywhere() -> None:
    story = Story(4).begin()
    near, far = story.publisher("near", 3), story.publisher("far", 0)
    reader = story.client("reader", 3)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    near.publish({"x": 1})
    far.publish({"x": 2})
    story.wait(lambda: near.idle and far.idle)
    assert story.received(reader) == [1, 2]
    assert not story.judged()


def test_no_confirmation_before_the_last_broker_has_it() -> None:
    """The far link is slow: the answer waits for it."""
    story = Story(3).begin()
    story.publisher("far", 0)
    reader = story.client("reader", 2)
    story.wait(lambda: reader.idle)
    story.network.clog(story.link(0, 1), story.world.now + 0.8)
    began = story.world.now
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    assert story.world.now - began >= 0.8
    known = behaviour(story.cores()[0], Subscriptions).table
    assert len(known) == 1


def test_a_covered_subscription_waits_for_its_coverer() -> None:
    story = Story(3).begin()
    story.publisher("far", 0)
    wide, narrow = story.client("wide", 2), story.client("narrow", 2)
    story.wait(lambda: wide.idle and narrow.idle)
    story.network.clog(story.link(0, 1), story.world.now + 0.8)
    began = story.world.now
    coverer = story.subscribe(wide, "x > 0")
    story.run_for(0.1)
    covered = story.subscribe(narrow, "x > 5")
    story.wait(lambda: covered.confirmed)
    assert story.world.now - began >= 0.8
    assert coverer.confirmed


def test_a_partition_during_the_subscribe_is_a_timeout_or_the_truth() -> None:
    story = Story(3).begin()
    far = story.publisher("far", 0)
    reader = story.client("reader", 2)
    story.wait(lambda: reader.idle)
    story.wall(story.brokers[0], far, seconds=1.0)
    subscription = story.subscribe(reader, "x > 0", timeout_s=0.5)
    story.run_for(0.6)
    assert isinstance(subscription.request.error, Timeout)
    assert not subscription.confirmed
    story.wait(lambda: subscription.confirmed)  # it stays asked for
    far.publish({"x": 1})
    story.wait(lambda: far.idle)
    assert story.received(reader) == [1]
    assert not story.judged()


def test_a_confirmation_waits_for_a_side_whose_link_is_broken_until_it_is_back() -> None:
    story = Story(3).begin()
    far = story.publisher("far", 0)
    reader = story.client("reader", 2)
    story.wait(lambda: reader.idle)
    story.wall(story.brokers[0], far, seconds=3.0)
    walled_at = story.world.now
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    assert story.world.now - walled_at >= 3.0
    far.publish({"x": 1})
    story.wait(lambda: far.idle)
    assert story.received(reader) == [1]
    assert not story.judged()


def test_a_confirmation_goes_on_without_a_side_that_is_lost() -> None:
    story = Story(3).begin()
    story.publisher("far", 0)
    reader = story.client("reader", 2)
    story.wait(lambda: reader.idle)
    story.crash(story.brokers[0])
    began = story.world.now
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    assert story.world.now - began >= LINKS.lost_after_s


def test_what_the_other_side_had_confirmed_needs_no_second_word() -> None:
    """A link that breaks between does not stop those who ask for what is known behind it already."""
    story = Story(3).begin()
    far = story.publisher("far", 0)
    reader = story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.wall(story.brokers[0], far, seconds=3.0)
    story.run_for(2.0)
    core = story.cores()[2]
    key = next(iter(core.clients[reader.session.id].subscriptions.values()))  # type: ignore[union-attr]
    asked = Gather(lambda gather, now: None, patient=True)
    behaviour(core, Subscriptions).await_confirmation(key, asked)
    asked.start(0.0)
    assert not asked.open


@pytest.mark.parametrize("seconds", [1.0, 3.0, 4.5])
def test_a_publisher_that_fails_over_settles_nothing_behind_a_broken_link(seconds: float) -> None:
    """b1 dies; the publisher goes on at b2, which cannot ask b0 and must not speak for it (DECISIONS 22)."""
    story = Story(3).begin()
    reader = story.client("reader", 0)
    sender = story.publisher("sender", 1, 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.crash(story.brokers[1])
    story.world.after(seconds, lambda _: story.brokers[1].start())
    for x in range(1, 51):
        sender.publish({"x": x})
        story.run_for(0.1)
    story.wait(lambda: sender.idle)
    assert story.received(reader) == list(range(1, 51))
    assert not story.judged()


def test_what_was_upstream_of_a_lost_link_is_cut_and_told() -> None:
    """b0 cannot reach b1 for a while; meanwhile b1 gives b2 up. What b0 accepted before is not settled as if
    nobody had wanted it, and what it accepts afterwards is settled without a word (DECISIONS 23)."""
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.wall(story.brokers[2], reader, seconds=60.0)
    story.run_for(1.0)
    story.wall(story.brokers[0], sender, seconds=6.0)
    sender.publish(*({"x": x} for x in range(1, 21)))
    story.wait(lambda: sender.idle)
    assert story.oracle.reach.losses and not story.received(reader)
    assert not story.judged()
    assert story.oracle.excused["cut"] == 20
    sender.publish({"x": 21})
    story.wait(lambda: sender.idle)
    assert not story.oracle.publications[-1].cut


def test_without_tombstones_what_was_upstream_is_settled_and_lost() -> None:
    with mutated("lost-link-settles-silently"), pytest.raises(AssertionError):
        test_what_was_upstream_of_a_lost_link_is_cut_and_told()


def test_what_a_publisher_sends_again_where_a_side_was_lost_is_told() -> None:
    """Its first broker dies with what it had accepted; where it goes on, the reader's side is given up."""
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 1, 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.wall(story.brokers[2], reader, seconds=30.0)
    sender.publish({"x": 1})
    story.run_for(0.5)
    story.crash(story.brokers[1])
    story.wait(lambda: sender.idle)
    assert not story.judged()
    assert story.oracle.excused["cut"] == 1


@pytest.mark.parametrize("leaver", [0, 1, 2])
def test_a_broker_leaves_in_the_middle_of_a_stream(leaver: int) -> None:
    story = Story(4).begin()
    others = [number for number in (0, 3) if number != leaver]
    sender, reader = story.publisher("sender", others[0]), story.client("reader", others[-1])
    guest = story.client("guest", leaver, 3)
    subscriptions = [story.subscribe(reader, "x > 0"), story.subscribe(guest, "x > 0")]
    story.wait(lambda: all(subscription.confirmed for subscription in subscriptions))
    for x in range(1, 101):
        sender.publish({"x": x})
        story.run_for(0.01)
        if x == 30:
            story.brokers[leaver].leave()
    story.wait(lambda: story.brokers[leaver].left and sender.idle)
    assert story.received(reader) == list(range(1, 101))
    story.wait(lambda: story.oracle.reach.is_tree(3))
    assert not story.judged()
    assert not story.oracle.reach.losses, "a departure is not a loss"


def test_a_client_whose_only_broker_leaves_goes_where_it_is_sent() -> None:
    """As the client's engine does (client/grapevine/client/engine.py)."""
    story = Story(3).begin()
    sender, guest = story.publisher("sender", 0), story.client("guest", 2)
    story.wait(lambda: guest.idle)
    subscription = story.subscribe(guest, "x > 0")
    story.brokers[2].leave()
    assert "b2 is leaving" in story._unrest()
    story.wait(lambda: story.brokers[2].left and subscription.confirmed and guest.idle)
    sender.publish({"x": 1})
    story.wait(lambda: sender.idle)
    assert story.received(guest) == [1]
    assert not story.judged()


def test_a_client_that_is_sent_to_a_broker_that_leaves_as_well_is_sent_on() -> None:
    story = Story(4).begin()
    guest, slow = story.client("guest", 3), story.client("slow", 2)
    story.wait(lambda: guest.idle and slow.idle)
    slow.pause(3)  # so that its broker is there for a while
    for leaver in story.brokers[2:]:
        leaver.leave()
    story.wait(lambda: all(leaver.left for leaver in story.brokers[2:]) and guest.idle)
    assert guest.session is not None and guest.session.broker_name == "b1"


@pytest.mark.parametrize("restarts", [False, True])
def test_who_takes_the_place_of_a_broker_that_left_without_a_parent_looks_where_it_did(
    restarts: bool,
) -> None:
    """The only candidate of b2 and b3 has left; where b0 is, only that one knew."""
    story = Story(4)
    story._addresses[3] = story._addresses[2]
    root, leaver, *below = story.begin().brokers
    root.pause(30)
    story.wait(lambda: leaver.core is not None and len(leaver.core.peers) == 2)
    leaver.leave()
    story.wait(lambda: leaver.left)
    story.wait(lambda: story.oracle.reach.connected.get(2) == {3})
    if restarts:
        for broker in below:
            broker.crash()
            story.watcher.crashed(broker)
            broker.start()
    story.wait(lambda: story.oracle.reach.is_tree(3))
    assert all(core.ready for core in story.cores())


def test_an_heir_that_restarts_when_its_parent_has_left_finds_the_one_in_its_place() -> None:
    """It had been told before the leaver went, and its only candidate is that leaver."""
    story = Story(4).begin()
    *_, leaver, heir = story.brokers
    leaver.leave()
    story.wait(lambda: leaver.left)  # its last word is on the way
    heir.crash()
    story.watcher.crashed(heir)
    heir.start()
    story.wait(lambda: story.oracle.reach.is_tree(3), seconds=120)
    assert all(core.ready for core in story.cores())


@pytest.mark.parametrize("mutant", ["", "plane-dropped-early"])
def test_what_was_sent_to_a_broker_before_it_moved_comes_first(mutant: str) -> None:
    """b3 moves from b2 to b1, and its old link is slow; a mistake must be seen."""
    with mutated(mutant):
        story = Story(4, delta=4).begin()
        sender, reader = story.publisher("sender", 2), story.client("reader", 3)
        subscription = story.subscribe(reader, "x > 0")
        story.wait(lambda: subscription.confirmed)
        mover = story.brokers[3]
        assert mover.core is not None
        commands = behaviour(mover.core, MoveCommands)
        assert not commands.move(identify("b1"), mover.clock())
        mover.wake()
        story.wait(lambda: (state := commands.moves.state) is not None and state.turned)
        story.network.clog(story.link(2, 3), story.world.now + 0.5)
        for x in range(1, 201):
            sender.publish({"x": x})
            story.run_for(0.002)
        story.wait(lambda: sender.idle and commands.moves.moved == 1)
        assert (story.received(reader) == list(range(1, 201)) and not story.judged()) is not bool(mutant)


def test_a_reader_that_stopped_holds_a_publisher_for_stall_s_only() -> None:
    """DECISIONS 2: neither until its link is given up, nor until it is lost."""
    story = Story(2).begin()
    writer, reader = story.publisher("writer", 0), story.client("reader", 1)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    reader.pause(20.0)
    writer.publish({"x": 1})
    story.run_for(0.9)
    assert not writer.idle, "what is in flight holds it"
    story.wait(lambda: writer.idle, seconds=1.5)
    story.wait(lambda: story.received(reader) == [1])
    assert not story.judged()


def leaving(story: Story, leaver: int, seconds: float) -> None:
    """It leaves, and one neighbour that has a publication of it unsettled is slow to answer."""
    story.network.clog(story.link(leaver - 1, leaver), story.world.now + seconds)
    story.brokers[leaver].leave()
    following = next(core for core in story.cores() if core.name == f"b{leaver + 1}")
    story.wait(lambda: any(peer.paused for peer in following.peers.values()))


def test_a_link_that_comes_back_beside_a_leaver_is_told_what_lies_behind_it() -> None:
    """Only who takes the leaver's place hears it from somebody else. A neighbour that heard nothing forgot
    all that lies there, and settled what it should have sent that way."""
    story = Story(4).begin()
    sender, reader = story.publisher("sender", 3), story.client("reader", 0)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    leaving(story, 1, seconds=3.0)
    story.network.break_connection(story.link(2, 3), told=True, other_told=True)
    story.run_for(1.5)  # time to dial again and to exchange tables
    assert not story.brokers[1].left
    for x in range(1, 11):
        sender.publish({"x": x})
    story.wait(lambda: story.brokers[1].left and sender.idle)
    assert story.received(reader) == list(range(1, 11))
    assert not story.judged()


@pytest.mark.parametrize("other", [0, 2])
def test_a_link_that_breaks_while_its_broker_leaves_loses_nothing(other: int) -> None:
    """It comes back, and the broker asks its neighbours again before it goes."""
    story = Story(4).begin()
    sender, reader = story.publisher("sender", 3), story.client("reader", 0)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    for x in range(1, 6):
        sender.publish({"x": x})
    leaving(story, 1, seconds=1.0)
    story.network.break_connection(story.link(1, other), told=True, other_told=True)
    for x in range(6, 11):
        sender.publish({"x": x})
        story.run_for(0.1)
    story.wait(lambda: story.brokers[1].left and sender.idle)
    assert story.received(reader) == list(range(1, 11))
    assert not story.oracle.reach.losses
    assert not story.judged()


@pytest.mark.parametrize("ring", [2, 3, 5])
def test_brokers_configured_in_a_ring_become_a_tree(ring: int) -> None:
    story = Story(ring)
    story._addresses = [(f"sim://b{(number + 1) % ring}",) for number in range(ring)]
    story.begin()
    story.run_for(20.0)
    assert story.oracle.reach.is_tree(ring)
    sender, reader = story.publisher("sender", 0), story.client("reader", ring - 1)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    sender.publish({"x": 1})
    story.wait(lambda: sender.idle)
    assert story.received(reader) == [1]
    assert not story.judged()


@pytest.mark.parametrize("candidate", [0, 1, 2])
def test_a_second_broker_of_one_name_stops_and_says_why(candidate: int) -> None:
    story = Story(3).begin()
    story.run_for(2.0)  # another second, another incarnation
    twin, onlooker = story.twin("b2", candidate)
    twin.start()
    story.wait(lambda: not twin.up, 30.0)
    assert "b2" in onlooker.reasons[0]
    assert story.brokers[2].up
    story.run_for(10.0)
    assert story.oracle.reach.is_tree(3)


def test_other_settings_are_refused_naming_both() -> None:
    story = Story(2).begin()
    twin, onlooker = story.twin("stranger", 0, delta=4)
    twin.start()
    story.wait(lambda: not twin.up)
    assert onlooker.reasons[0].startswith("overlay.delta is 1 at b0 and 4 at stranger")


def test_a_middle_broker_crashes_and_nothing_settled_is_lost() -> None:
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    for x in range(1, 81):
        sender.publish({"x": x})
        story.run_for(0.02)
        if x == 20:
            story.brokers[1].crash()
            story.watcher.crashed(story.brokers[1])
        if x == 50:
            story.brokers[1].start()
    story.wait(lambda: sender.idle)
    assert story.received(reader) == list(range(1, 81))
    assert not story.judged()


def test_what_is_published_before_an_older_subscription_had_a_way_there_is_not_owed_to_it() -> None:
    """It was confirmed when nobody advertised, so only b3 has it; b2 fails before the advertisement comes,
    and when it is back b0 is cut off: the subscription hears of the advertisement, and b0 not of it."""
    story = Story(4).begin()
    reader, sender = story.client("reader", 3), story.client("sender", 0)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.crash(story.brokers[2])
    advertisement = sender.advertise(story.anything)
    story.wait(lambda: advertisement.confirmed)
    story.wall(story.brokers[0], sender, seconds=4.0)
    story.brokers[2].start()
    story.wait(lambda: story.oracle.reach.connected_to(1) == 0b1110)
    sender.publish({"x": 1})
    story.wait(lambda: sender.idle)
    story.wait(lambda: story.oracle.reach.is_tree(4))
    sender.publish({"x": 2})
    story.wait(lambda: sender.idle)
    assert story.received(reader)[-1:] == [2]
    assert not story.judged()


@pytest.mark.parametrize("with_its_broker", [False, True])
def test_what_is_settled_while_a_reader_is_cut_off_waits_for_it(with_its_broker: bool) -> None:
    """DECISIONS 2: silent for `stall_s` it holds nobody up, and gets everything when it is back."""
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    near = story.publisher("near", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    inside = (story.brokers[2], near) if with_its_broker else (reader,)
    story.wall(*inside, seconds=4.0)
    back = story.world.now + 4.0
    for x in range(1, 201):
        (sender, near)[x % 2].publish({"x": x})
        story.run_for(0.01)
    story.wait(lambda: near.idle and (with_its_broker or sender.idle))
    assert story.world.now < back, "settled before the reader was back"
    assert story.received(reader) == []
    story.wait(lambda: sender.idle and len(story.received(reader)) == 200)
    for one in (0, 1):
        assert [x for x in story.received(reader) if x % 2 == one] == [*range(2 - one, 201, 2)]
    assert not story.judged()


def test_a_publisher_that_restarts_under_its_name_is_heard() -> None:
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    sender.publish(*({"x": x} for x in range(1, 11)))
    story.wait(lambda: sender.idle)
    sender.crash()
    story.run_for(0.5)
    sender.start()
    advertisement = sender.advertise(story.anything)
    story.wait(lambda: advertisement.confirmed)
    sender.publish(*({"x": x} for x in range(11, 21)))
    story.wait(lambda: sender.idle)
    assert story.received(reader) == list(range(1, 21))
    assert not story.judged()


def test_more_is_cut_than_one_frame_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last broker is cut off for good with a window full of every second publication: each of them is
    reported, three at a time, over two links."""
    monkeypatch.setattr("overlay.links.incoming.CUTS_LISTED", 3)
    story = Story(4).begin()
    writer, reader = story.publisher("writer", 0), story.client("reader", 3)
    subscription = story.subscribe(reader, "even")
    story.wait(lambda: subscription.confirmed)
    story.wall(story.brokers[3], reader, seconds=60.0)
    for number in range(1, 41):
        writer.publish({"x": number, "even": number % 2 == 0})
    story.wait(lambda: writer.idle)
    cut = [publication.attributes["x"] for publication in story.oracle.publications if publication.cut]
    assert cut == list(range(2, 41, 2))
    assert not story.judged()
