"""What a broker tells, confirms and waits for: computed from its tables after every event.

An advertisement is told to all sides but its own; subscriptions and tombstones towards the advertisement.
What is new is told before anything is withdrawn. SyncDone is said when the neighbour's tables are in, all
others have said theirs or are lost, and everything told on the link either way is confirmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.ownership.state import (
    ADOPTED_KEYS,
    ADVERTISEMENT,
    LOCAL,
    SUBSCRIPTION,
    TOMBSTONE,
    Broker,
    Item,
    Link,
)

if TYPE_CHECKING:
    from tests.model.ownership.world import World


def settle_down(world: World, one: int) -> None:
    """Everything that broker `one` may say now."""
    from tests.model.ownership import clients

    broker = world.brokers[one]
    if not broker.up:
        return
    for key, tombstone in sorted(broker.tombstones.items()):
        if tombstone.own and confirmed(world, one, (TOMBSTONE, key), tombstone.side):
            del broker.tombstones[key]
    up = [(side, link) for side, link in sorted(broker.links.items()) if link.state == "up"]
    for side, link in up:
        _tell(world, one, side, link)
    for side, link in up:
        for item in sorted(link.unconfirmed):
            if confirmed(world, one, item, side):
                world.send(one, side, "confirm", item, link.unconfirmed.pop(item))
    for side, link in up:
        if not link.sync_said and link.tables_in and _may_sync(world, broker, side, link):
            link.sync_said = True
            world.send(one, side, "sync")
    if not broker.ready and all(link.sync_ever or link.state == "lost" for link in broker.links.values()):
        broker.ready = True
    clients.look(world, one)


def _tell(world: World, one: int, side: int, link: Link) -> None:
    broker = world.brokers[one]
    if link.fence_said < broker.fence:
        link.fence_said = broker.fence
        world.send(one, side, "fence", broker.fence)
    wanted = _to_tell(world, broker, side)
    for item in wanted:
        if item not in link.announced:
            link.stamp += 1
            link.announced[item] = link.stamp
            home = broker.words[item[1]].home if item[0] == ADVERTISEMENT else None
            world.send(one, side, "tell", item, home, link.stamp)
    for item in sorted(set(link.announced) - set(wanted)):
        del link.announced[item]
        world.send(one, side, "withdraw", item)


def _to_tell(world: World, broker: Broker, side: int) -> list[Item]:
    items = [(ADVERTISEMENT, version) for version, word in sorted(broker.words.items()) if word.side != side]
    if side in broker.sides():
        items += [(SUBSCRIPTION, key) for key, its in sorted(broker.subscriptions.items()) if its != side]
        if world.on("tombstone-travels"):
            tombstones = sorted(broker.tombstones.items())
            items += [(TOMBSTONE, key) for key, tombstone in tombstones if tombstone.side != side]
    return items


def _may_sync(world: World, broker: Broker, side: int, link: Link) -> bool:
    others = [other for neighbour, other in broker.links.items() if neighbour != side]
    if world.on("sync-waits-others") and not all(o.sync_ever or o.state == "lost" for o in others):
        return False
    if world.on("sync-waits-confirms"):
        for waiting in (link.unconfirmed, link.announced):
            for item, stamp in waiting.items():
                if stamp and (item[0] != TOMBSTONE or not world.on("sync-not-for-tombstones")):
                    return False
    elsewhere = any(other not in (side, LOCAL) for other in broker.sides())
    return world.on("sync-not-across") or side not in broker.sides() or not elsewhere


def confirmed(world: World, one: int, item: Item, side: int) -> bool:
    """Whether everybody behind broker `one`, seen from `side`, has confirmed the item."""
    broker = world.brokers[one]
    others = {other: link for other, link in broker.links.items() if other != side}
    if world.on("unknown-confirms-late") and not all(
        link.state == "lost"
        or (link.tables_ever if world.on("confirm-waits-tables-only") else link.sync_ever)
        for link in others.values()
    ):
        return False
    kind, key = item
    if kind == TOMBSTONE and (answer := _drained(world, one, key)) is not None:
        return answer
    if kind == ADVERTISEMENT:
        if key not in broker.words:
            return True
        others.pop(broker.words[key].side, None)
    else:
        others = {other: link for other, link in others.items() if other in broker.sides()}
    return all(_confirmed_by(world, item, link) for link in others.values())


def _confirmed_by(world: World, item: Item, link: Link) -> bool:
    if link.state == "lost":
        return item[0] != TOMBSTONE
    if link.state == "suspended":
        return not world.on("suspended-waits")
    return not link.announced.get(item, 1)


def _drained(world: World, one: int, key: int) -> bool | None:
    """Whether no publication that the tombstone is for can come any more; None: the neighbours decide."""
    broker, publisher = world.brokers[one], world.publisher
    tombstone = broker.tombstones.get(key)
    if tombstone is None:
        return True
    here = publisher.home == one and publisher.confirmed
    settled = here and not any(sequence <= tombstone.mark for sequence in publisher.unsettled)
    if not world.on("tombstone-travels"):
        return LOCAL not in broker.sides() or settled
    if key >= ADOPTED_KEYS or not broker.sides():
        return False  # until the side is back; a real broker has a timer, too
    if LOCAL in broker.sides() and not settled:
        return False
    return None
