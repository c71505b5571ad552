"""Links that come up, break and are given up; brokers that crash and start again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.ownership import clients, routing
from tests.model.ownership.receiving import bury
from tests.model.ownership.state import (
    ADOPTED_KEYS,
    ADVERTISEMENT,
    GONE,
    SUBSCRIPTION,
    TOMBSTONE,
    Broker,
    Item,
    Tombstone,
    adopted_only,
    nobody_knows,
)
from tests.model.ownership.telling import settle_down

if TYPE_CHECKING:
    from tests.model.ownership.world import World


def link_up(world: World, one: int, other: int) -> None:
    world.connected[one, other] = True
    ends = ((one, other), (other, one))
    first, second = (world.brokers[here].links[there] for here, there in ends)
    shared = first.session and first.session == second.session
    if not (shared and first.state == second.state == "suspended"):
        world.sessions += 1
        for here, there in ends:
            _new_session(world, here, there)
    for here, there in ends:
        broker, link = world.brokers[here], world.brokers[here].links[there]
        link.state = "up"
        link.break_off()
        link.fence_said = link.stamp = 0
        broker.names.add(there)
        link.stale = _told_by(broker, there)
    for here, there in ends:
        settle_down(world, here)
        world.send(here, there, "tables")
        settle_down(world, here)


def _new_session(world: World, one: int, side: int) -> None:
    """One of the two has forgotten the other: everything unsettled again, under new positions."""
    broker = world.brokers[one]
    link = broker.links[side]
    link.session, link.received, link.done, link.next = world.sessions, 0, {}, 1
    for settle in broker.settles.values():
        if settle.source == side:
            settle.source = GONE
    link.retained = [
        entry._replace(position=position) for position, entry in enumerate(link.retained, link.next)
    ]
    link.next += len(link.retained)


def _told_by(broker: Broker, side: int) -> set[Item]:
    told: set[Item] = {
        (ADVERTISEMENT, version) for version, word in broker.words.items() if word.side == side
    }
    told |= {(SUBSCRIPTION, key) for key, its in broker.subscriptions.items() if its == side}
    for key, tombstone in broker.tombstones.items():
        if tombstone.side == side and (not tombstone.own or key >= ADOPTED_KEYS):
            told.add((TOMBSTONE, key))
    return told


def link_down(world: World, one: int, other: int) -> None:
    world.connected[one, other] = False
    for here, there in ((one, other), (other, one)):
        world.channels[here, there] = []
        if world.brokers[here].up:
            link = world.brokers[here].links[there]
            link.state = "suspended"
            link.break_off()
            settle_down(world, here)


def lose(world: World, one: int, side: int) -> None:
    """Broker `one` gives the side up."""
    world.losses += 1
    broker = world.brokers[one]
    link = broker.links[side]
    link.state = "lost"
    for key, subscriber in world.subscribers.items():
        if world.path(key, one)[-2:-1] == [side]:
            subscriber.behind.add((one, side))
    versions = [version for version, word in broker.words.items() if word.side != side]
    asked = not world.on("unasked-is-unknown") or all(version in link.asked for version in versions)
    _raise_tombstones(world, one, side, unknown=not (link.sync_ever and asked))
    link.sync_ever = link.tables_ever = False
    link.asked = set()
    broker.names.discard(side)
    if not world.on("word-stays-until-fence"):
        broker.words = {version: word for version, word in broker.words.items() if word.side != side}
    for key in [key for key, its in broker.subscriptions.items() if its == side]:
        bury(world, one, key, side, "tombstone")
    for key, tombstone in list(broker.tombstones.items()):
        if tombstone.side == side:
            broker.tombstones[key] = tombstone._replace(own=True)
    retained, link.retained = link.retained, []
    for entry in retained:
        broker.settles[entry.record].cut = True
    for entry in retained:
        routing.release(world, one, entry.record)
    settle_down(world, one)


def _raise_tombstones(world: World, one: int, side: int, unknown: bool) -> None:
    tombstones, mark = world.brokers[one].tombstones, world.publisher.sequence
    if unknown and world.on("tombstone-all"):
        tombstones[nobody_knows(one, side)] = Tombstone(side, True, mark)
    if world.on("tombstone-adopted"):
        tombstones[adopted_only(one, side)] = Tombstone(side, True, mark)


def crash(world: World, one: int) -> None:
    """Only the neighbours' names and the incarnation are on disk."""
    before = world.brokers[one]
    before.up = False
    for edge in world.edges:
        if one in edge and world.connected[edge]:
            link_down(world, *edge)
    broker = world.brokers[one] = world.fresh_broker(one)
    broker.up, broker.incarnation, broker.names = False, before.incarnation, before.names
    for side in world.neighbours[one] - before.names:
        broker.links[side].state = "lost"
        _raise_tombstones(world, one, side, unknown=True)
    _end_clients(world, one)


def _end_clients(world: World, one: int) -> None:
    publisher, subscriber = world.publisher, world.subscribers.get(one)
    if subscriber is not None:
        world.losses += 1
        subscriber.confirmed, subscriber.got = False, []
        for owed in world.owed.values():
            owed.discard(one)
    if publisher.target == one:
        publisher.target, publisher.target_confirmed = None, False
    if publisher.home == one:
        publisher.home, publisher.confirmed = None, False
        clients.switch(world)


def restart(world: World, one: int) -> None:
    world.brokers[one].up = True
    world.brokers[one].incarnation += 1
    settle_down(world, one)
