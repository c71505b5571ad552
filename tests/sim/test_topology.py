"""What seeds have found where the topology changes, told step by step: publishers that are relocated and
brokers that move while somebody on their way fails."""

from __future__ import annotations

import pytest

from grapevine.wire.identity import identify
from grapevine.wire.mesh import MoveSwitched, MoveTurn
from overlay.core import Core
from overlay.relocate.migration import Migration
from overlay.softlinks.move_commands import MoveCommands
from overlay.tree.advertisements import Advertisements
from overlay.tree.missing import MissingBrokers
from tests.sim.stories import Story
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.tables import behaviour
from tools.simulator.watcher import Aim


def core_of(broker: BrokerHost) -> Core:
    assert broker.core is not None
    return broker.core


def migration(broker: BrokerHost) -> Migration:
    return behaviour(core_of(broker), Migration)


def relocate(story: Story, publisher: ClientHost, source: int, target: int) -> None:
    """Asks the publisher to move; back when its target has taken it."""
    home, there = story.brokers[source], story.brokers[target]
    client = core_of(home).clients[identify(publisher.name)]
    path = tuple(identify(f"b{number}") for number in range(source, target + 1))
    refused = migration(home).offer(client, path, there.name, (there.address,), home.clock())  # type: ignore[arg-type]
    assert not refused
    home.wake()
    story.wait(lambda: bool(migration(there).hops))


def whole(story: Story) -> bool:
    """One tree, everything settled, and no move of a publisher under way."""
    if any(broker.core is None or migration(broker).hops for broker in story.brokers):
        return False
    return story.oracle.reach.is_tree(len(story.brokers)) and all(core.ready for core in story.cores())


def test_a_broker_given_up_while_its_publisher_moved_is_synchronised_again() -> None:
    """Two brokers knew of the publisher in two versions, and each waited for the other's to go."""
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.network.clog(story.link(0, 1), story.world.now + 5.0)
    sender.publish({"x": 1})  # its session at the source stays until this is settled
    relocate(story, sender, 0, 2)
    story.brokers[0].pause(9.0)
    story.run_for(9.5)
    story.wait(lambda: whole(story))
    sender.publish({"x": 2})
    story.wait(lambda: sender.idle)
    assert story.received(reader) == [1, 2] and not story.judged()


def test_an_update_that_is_repeated_does_not_bring_a_withdrawn_advertisement_back() -> None:
    """The publisher has gone from its target when the update comes to its source."""
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    link = story.link(0, 1)
    story.network.clog(link, story.world.now + 5.0)
    sender.publish({"x": 1})  # its session at the source stays until this is settled
    relocate(story, sender, 0, 2)
    story.run_for(0.02)
    sender.stop()
    story.run_for(0.1)
    story.network.break_connection(link, told=True, other_told=True)
    tables = [behaviour(core, Advertisements).table for core in story.cores()]
    story.wait(lambda: whole(story) and not any(tables), seconds=30.0)
    assert not story.judged()


def test_a_move_ends_whose_publisher_went_on_without_hearing_what_was_cut() -> None:
    """The broker between is given up by both sides: the target's side completes in its place, and what the
    source had sent is cut. When the update comes at last, the client does not listen there any more."""
    story = Story(3).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    stays = story.subscribe(sender, "x > 100")
    story.wait(lambda: subscription.confirmed and stays.confirmed)
    story.brokers[1].pause(9.0)
    sender.publish({"x": 1})
    story.run_for(0.05)
    relocate(story, sender, 0, 2)
    story.run_for(0.02)
    story.network.break_connection(story.link(1, 2), told=True, other_told=True)  # the target hears it first
    story.run_for(9.0)
    story.wait(lambda: whole(story) and sender.idle, seconds=40.0)
    assert not story.judged()


def test_what_waits_at_a_broker_that_moves_is_told_when_the_path_is_torn() -> None:
    """b4 moves from b3 to b1, and b2 dies when the turn comes to it: b3 never hears of the move, and what was
    published at b4 meanwhile has no way there any more."""
    story = Story(5, delta=4).begin()
    sender, reader = story.publisher("sender", 4), story.client("reader", 3)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.run_for(1.0)
    mover = story.brokers[4]
    commands = behaviour(core_of(mover), MoveCommands)
    story.watcher.aim = Aim(MoveTurn.kind, False, 2)

    def die(broker: BrokerHost, aim: Aim) -> bool:
        story.crash(broker)
        return True

    story.watcher.on_aim = die
    assert not commands.move(identify("b1"), mover.clock())
    mover.wake()
    story.wait(lambda: (state := commands.moves.state) is not None and state.turned)
    for x in range(1, 11):
        sender.publish({"x": x})
        story.run_for(0.02)
    assert not story.brokers[2].up
    story.wait(lambda: sender.idle and commands.moves.moved == 1, seconds=60.0)
    assert not story.judged()
    assert story.oracle.excused["cut"] == 10 - len(story.received(reader))


def test_what_is_published_behind_a_lost_path_is_not_owed_past_the_broker_that_moves() -> None:
    """b4 moves from b3 to b0, and b2 dies when all have switched. b1 gives it up first: b3 is in the other
    part from then on, although b4 has a link to either part until it hears of it."""
    story = Story(5, delta=5).begin()
    sender, reader = story.publisher("sender", 1), story.client("reader", 3)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    story.run_for(1.0)
    mover, middle = story.brokers[4], story.brokers[1]
    commands = behaviour(core_of(mover), MoveCommands)
    story.watcher.aim = Aim(MoveSwitched.kind, False, 1)

    def die(broker: BrokerHost, aim: Aim) -> bool:
        story.crash(broker)
        return True

    story.watcher.on_aim = die
    assert not commands.move(identify("b0"), mover.clock())
    mover.wake()
    story.wait(lambda: not story.brokers[2].up)
    story.run_for(3.5)
    sender.publish({"x": 1})
    story.brokers[3].pause(3.0)
    story.wait(lambda: identify("b2") not in core_of(middle).peers)
    assert behaviour(core_of(middle), MissingBrokers).brokers(), "its clients are told"
    sender.publish({"x": 2})
    story.run_for(0.012)
    assert story.oracle.publications[1].accepted_at is not None
    assert identify("b3") in core_of(mover).peers, "its former link is there"
    story.wait(lambda: sender.idle and commands.moves.moved == 1)
    assert not story.received(reader) and not story.judged()
    assert story.oracle.excused == {"cut": 1, "apart": 1}


def test_two_that_leave_at_once_do_not_wait_for_each_other_for_ever() -> None:
    """What each of them has sent is for somebody behind the other, and waits there for the other's heir."""
    story = Story(6).begin()
    senders = [story.publisher("left", 0), story.publisher("right", 5)]
    readers = [story.client("first", 0), story.client("last", 5)]
    subscriptions = [story.subscribe(reader, "x > 0") for reader in readers]
    story.wait(lambda: all(subscription.confirmed for subscription in subscriptions))
    story.network.clog(story.link(2, 3), story.world.now + 1.0)
    for value, sender in enumerate(senders, 1):
        sender.publish({"x": value})
    story.run_for(0.1)
    for leaver in (story.brokers[1], story.brokers[4]):
        leaver.leave()
    story.wait(lambda: story.brokers[1].left and story.brokers[4].left)
    story.wait(lambda: all(sender.idle for sender in senders))
    assert [sorted(story.received(reader)) for reader in readers] == [[1, 2], [1, 2]]
    assert not story.judged()


@pytest.mark.parametrize("ordered", [True, False])
def test_what_waits_for_a_leaver_when_a_side_beyond_it_is_given_up_is_told(ordered: bool) -> None:
    """The leaver is asked like anybody else how far publishers behind it have come: else the lost side is
    forgotten at once, and what is held for the leaver was for nobody."""
    story = Story(4, ordered=ordered).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 3)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    away = next(peer for peer in story.peers(2) if peer.name == "b3")
    story.wall(story.brokers[3], reader, seconds=40.0)
    story.run_for(0.1)
    sender.publish({"x": 1})  # it keeps the leaver from going until the side is given up
    story.wait(lambda: away.link is None)
    story.run_for(4.4)
    story.brokers[1].leave()
    story.run_for(0.1)
    sender.publish({"x": 2})
    assert not away.lost
    story.wait(lambda: story.brokers[1].left and sender.idle)
    assert not story.judged()
    assert story.oracle.excused["cut"] == 2


def test_who_comes_in_a_leavers_place_is_asked_what_the_leaver_was_asked() -> None:
    """The lost side is further away: who is beside the leaver asks it for others, and then its heir, which
    sends what it held by the way that the subscription still has."""
    story = Story(6).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 5)
    subscription = story.subscribe(reader, "x > 0")
    story.wait(lambda: subscription.confirmed)
    away = next(peer for peer in story.peers(4) if peer.name == "b5")
    story.wall(story.brokers[5], reader, seconds=60.0)
    story.wait(lambda: away.link is None)
    story.run_for(3.5)
    sender.publish({"x": 1})
    story.run_for(0.7)
    story.brokers[1].leave()
    story.run_for(0.1)
    sender.publish({"x": 2})
    assert not away.lost
    story.wait(lambda: story.brokers[1].left and sender.idle)
    assert not story.judged()
    assert story.oracle.excused["cut"] == 2


def test_a_broker_that_has_streams_stays() -> None:
    """It would never have settled what is for them, and its neighbours would pause for it again and again."""
    story = Story(3, durable=True).begin()
    sender, reader = story.publisher("sender", 0), story.client("reader", 2)
    subscription = story.subscribe(reader, "x > 0")
    story.client("keeper", 1, stream="x > 0")
    story.wait(lambda: subscription.confirmed)
    story.run_for(2.0)
    story.brokers[1].leave()
    story.run_for(8.0)
    sender.publish({"x": 1})
    story.run_for(1.0)
    core = story.brokers[1].core
    assert core is not None and not core.leaving
    assert not any(peer.paused for peer in story.peers(0))
    assert story.received(reader) == [1] and story.in_stream() == [1]
