"""Publications: who gets a copy, what is held, and when a broker may say settled (P1, P2, P5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.explorer import Violation
from tests.model.ownership import clients
from tests.model.ownership.state import ADOPTED_KEYS, GONE, LOCAL, Link, Retained, Settle

if TYPE_CHECKING:
    from tests.model.ownership.world import World


def accept(world: World, one: int, sequence: int, adopted: bool = False) -> None:
    """The client's own, at its first broker."""
    take(world, one, Settle(LOCAL, world.publisher.version, sequence), adopted)


def take(world: World, one: int, settle: Settle, adopted: bool) -> None:
    broker = world.brokers[one]
    broker.settle_count += 1
    broker.settles[broker.settle_count] = settle
    _route(world, one, broker.settle_count, settle, adopted)
    release(world, one, broker.settle_count)


def _route(world: World, one: int, record: int, settle: Settle, adopted: bool) -> None:
    broker = world.brokers[one]
    for key, tombstone in broker.tombstones.items():
        if tombstone.side != settle.source and (key < ADOPTED_KEYS or adopted):
            settle.cut = True
    for side, link in sorted(broker.links.items()):
        if side != settle.source and link.state != "lost" and _wants(world, one, side, link):
            settle.pending += 1
            sent = link.state == "up" and link.sync_heard
            link.retained.append(Retained(link.next, settle.sequence, record, sent, adopted))
            if sent:
                world.send(one, side, "publication", link.next, settle.sequence, adopted)
            link.next += 1
    if broker.subscriptions.get(one) == LOCAL:
        _deliver(world, one, settle)


def _wants(world: World, one: int, side: int, link: Link) -> bool:
    if link.state == "suspended" and not world.on("suspended-holds"):
        return False
    if not link.sync_ever and world.on("unknown-holds"):
        return True
    return side in world.brokers[one].subscriptions.values()


def _deliver(world: World, one: int, settle: Settle) -> None:
    broker, sequence = world.brokers[one], settle.sequence
    if sequence > broker.last:
        got = world.subscribers[one].got
        if got and got[-1] >= sequence:
            raise Violation(f"P2 order or duplicate at {one}: {sequence} after {got}")
        got.append(sequence)
        broker.last = sequence
        broker.delivered.add(sequence)
    elif sequence not in broker.delivered and world.on("duplicate-not-delivered-is-cut"):
        settle.cut = True


def release(world: World, one: int, record: int) -> None:
    """One of the copies that this record waits for is settled."""
    broker = world.brokers[one]
    settle = broker.settles[record]
    settle.pending -= 1
    if settle.pending:
        return
    del broker.settles[record]
    if settle.source == LOCAL:
        _acknowledge(world, settle)
    elif settle.source != GONE:
        broker.links[settle.source].done[settle.place] = settle.cut
        world.send(one, settle.source, "settled", settle.place, settle.cut)


def _acknowledge(world: World, settle: Settle) -> None:
    publisher, sequence = world.publisher, settle.sequence
    former = settle.place != publisher.version or publisher.home is None
    if (former and world.on("old-acks-ignored")) or sequence not in publisher.unsettled:
        return
    publisher.unsettled.remove(sequence)
    publisher.settled[sequence] = settle.cut
    if settle.cut and not world.losses:
        raise Violation(f"P5 {sequence} is cut although no side was lost")
    if not settle.cut:
        for subscriber in world.owed[sequence]:
            if sequence not in world.subscribers[subscriber].got:
                raise Violation(f"P1 {sequence} settled, not delivered to {subscriber}")
    clients.switch(world)


def publish(world: World) -> None:
    publisher = world.publisher
    assert publisher.home is not None
    publisher.sequence += 1
    publisher.unsettled.append(publisher.sequence)
    world.owed[publisher.sequence] = {
        one
        for one, subscriber in world.subscribers.items()
        if subscriber.confirmed and clients.whole(world, publisher.home, one)
    }
    accept(world, publisher.home, publisher.sequence)


def send_retained(world: World, one: int, side: int, link: Link) -> None:
    """The side has said SyncDone: all that is retained for it leaves, oldest first."""
    matches = side in world.brokers[one].subscriptions.values()
    order = link.retained if world.on("older-first") else link.retained[::-1]
    dropped = []
    kept = []
    for entry in order:
        if not world.on("held-is-sent") and not matches and not entry.sent:
            dropped.append(entry)
            continue
        kept.append(entry._replace(sent=True))
        world.send(one, side, "publication", entry.position, entry.sequence, entry.adopted)
    link.retained = sorted(kept)
    for entry in dropped:
        release(world, one, entry.record)
