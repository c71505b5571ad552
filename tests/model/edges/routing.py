"""Publications: where a copy goes, by which table, what is held, when it is settled (P1, P2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.edges.state import LOCAL, Broker, Change, Held, Retained, Settle, Stamp, side
from tests.model.edges.telling import known
from tests.model.explorer import Violation

if TYPE_CHECKING:
    from tests.model.edges.world import World


def publish(world: World) -> None:
    world.sequence += 1
    world.unsettled.append(world.sequence)
    world.owed[world.sequence] = world.subscribers - world.ended
    accept(world, world.sequence)


def send_again(world: World, one: int) -> None:
    """The publisher's broker has started again: the client sends what is unsettled, oldest first."""
    if one == world.publisher:
        for sequence in list(world.unsettled):
            accept(world, sequence)


def accept(world: World, sequence: int) -> None:
    take(world, world.publisher, Settle(LOCAL, None, sequence), world.stamp(world.publisher))


def take(world: World, one: int, settle: Settle, stamp: Stamp) -> None:
    broker = world.brokers[one]
    broker.settle_count += 1
    broker.settles[broker.settle_count] = settle
    _route(world, one, broker.settle_count, settle, stamp)
    release(world, one, broker.settle_count)


def _route(world: World, one: int, record: int, settle: Settle, stamp: Stamp) -> None:
    broker = world.brokers[one]
    keys = known(world, one)
    moved = {key for key in keys if _goes_the_old_way(world, one, key, settle.source, stamp)}
    onward: dict[int, list[int]] = {}
    for key in sorted(keys - moved):
        its = side(broker.view, one, key)
        if its == LOCAL:
            _deliver(world, one, settle.sequence)
        elif not leads_on(broker, its):
            hold(world, one, settle.sequence, key, record)
        elif its != settle.source:
            onward.setdefault(its, []).append(key)  # type: ignore[arg-type]
    for its, wanting in sorted(onward.items()):
        if must_wait(world, one, its):
            for key in wanting:
                hold(world, one, settle.sequence, key, record)
        else:
            put(world, one, its, settle.sequence, record, stamp if moved else world.stamp(one))


def leads_on(broker: Broker, its: int | None) -> bool:
    return its in broker.links and not broker.links[its].gone  # type: ignore[index]


def must_wait(world: World, one: int, its: int) -> bool:
    """Somebody wants it there, and has not been told of by this neighbour; or older ones wait for it."""
    if not world.on("untold-is-held"):
        return False
    broker = world.brokers[one]
    untold = known(world, one) - broker.links[its].heard
    behind = untold | {entry.key for entry in broker.held}
    return any(side(broker.view, one, key) == its for key in behind)


def hold(world: World, one: int, sequence: int, key: int, record: int) -> None:
    broker = world.brokers[one]
    broker.settles[record].pending += 1
    broker.held.append(Held(sequence, key, record))


def _goes_the_old_way(world: World, one: int, key: int, source: int, stamp: Stamp) -> bool:
    """As before the change: it went another way then, and comes again from there."""
    changes = world.brokers[one].changes.get(key, ())
    if not world.on("stamped"):
        return False
    if not world.on("all-generations"):
        changes = changes[-1:]
    return any(change.side == source and _older(world, stamp, change) for change in changes)


def _older(world: World, stamp: Stamp, change: Change) -> bool:
    if world.on("stamp-names-edges"):
        return stamp[change.child] < change.number
    return sum(stamp) < change.count


def _deliver(world: World, one: int, sequence: int) -> None:
    broker = world.brokers[one]
    if sequence > broker.last:
        broker.last = sequence
        broker.delivered.add(sequence)
    elif sequence not in broker.delivered and one not in world.ended:
        raise Violation(f"P2 {sequence} comes to {one} after {broker.last}: a duplicate of nothing")


def put(world: World, one: int, other: int, sequence: int, record: int, stamp: Stamp) -> None:
    broker = world.brokers[one]
    link = broker.links[other]
    broker.settles[record].pending += 1
    sent = link.up and link.sync_heard and not link.gone
    link.retained.append(Retained(link.next, sequence, record, sent, stamp))
    if sent:
        world.send(one, other, "publication", link.next, sequence, stamp)
    link.next += 1


def release(world: World, one: int, record: int) -> None:
    broker = world.brokers[one]
    settle = broker.settles[record]
    settle.pending -= 1
    if settle.pending:
        return
    del broker.settles[record]
    if settle.source == LOCAL:
        _acknowledge(world, settle.sequence)
    elif settle.position is not None:
        link = broker.links[settle.source]
        link.done.add(settle.position)
        world.send(one, settle.source, "settled", settle.position)


def _acknowledge(world: World, sequence: int) -> None:
    if sequence not in world.unsettled:
        return
    world.unsettled.remove(sequence)
    for key in world.owed[sequence] - world.ended:
        if sequence not in world.brokers[key].delivered:
            raise Violation(f"P1 {sequence} settled, not delivered to {key}")


def release_held(world: World, one: int) -> None:
    """There may be a way now for what was held, oldest first."""
    broker = world.brokers[one]
    if not broker.held:
        return
    keys = known(world, one)
    held, broker.held = sorted(broker.held), []
    gone: set[tuple[int, int, int]] = set()
    waiting = {its for its in broker.links if must_wait(world, one, its)}
    for entry in held:
        its = side(broker.view, one, entry.key)
        if world.on("untold-is-held") and entry.key not in keys:
            release(world, one, entry.record)
        elif not leads_on(broker, its) or its in waiting:
            broker.held.append(entry)
        else:
            copy = (its, entry.sequence, entry.record)
            if copy not in gone and its != broker.settles[entry.record].source:
                gone.add(copy)
                put(world, one, its, entry.sequence, entry.record, world.stamp(one))  # type: ignore[arg-type]
            release(world, one, entry.record)
