"""What a broker does with a message from a neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model.ownership import clients, routing
from tests.model.ownership.state import (
    ADOPTED_KEYS,
    ADVERTISEMENT,
    SUBSCRIPTION,
    TOMBSTONE,
    Item,
    Settle,
    Tombstone,
    Word,
    adopted_only,
    nobody_knows,
)
from tests.model.ownership.telling import settle_down

if TYPE_CHECKING:
    from tests.model.ownership.world import World


def receive(world: World, one: int, side: int) -> None:
    """Broker `one` takes the next message from `side`."""
    kind, *content = world.channels[side, one].pop(0)
    HANDLERS[kind](world, one, side, *content)
    settle_down(world, one)


def _on_tell(world: World, one: int, side: int, item: Item, home: int, stamp: int) -> None:
    broker, (kind, key) = world.brokers[one], item
    link = broker.links[side]
    link.stale.discard(item)
    if kind == ADVERTISEMENT and key < broker.fence and world.on("fence"):
        if world.on("fence-answered"):
            world.send(one, side, "fence", broker.fence)
            world.send(one, side, "confirm", item, stamp)
        return
    link.unconfirmed[item] = stamp
    if kind == ADVERTISEMENT:
        if not world.on("versions-coexist"):
            broker.words = {version: word for version, word in broker.words.items() if version >= key}
        broker.words[key] = Word(home, side)
    elif kind == SUBSCRIPTION:
        broker.subscriptions[key] = side
        broker.tombstones.pop(key, None)
    elif broker.subscriptions.get(key, side) == side:
        broker.subscriptions.pop(key, None)
        broker.tombstones[key] = Tombstone(side, False, world.publisher.sequence)


def _on_withdraw(world: World, one: int, side: int, item: Item) -> None:
    broker, (kind, key) = world.brokers[one], item
    broker.links[side].unconfirmed.pop(item, None)
    broker.links[side].stale.discard(item)
    if kind == ADVERTISEMENT and key in broker.words and broker.words[key].side == side:
        del broker.words[key]
    elif kind == SUBSCRIPTION and broker.subscriptions.get(key) == side:
        del broker.subscriptions[key]
    elif kind == TOMBSTONE and key in broker.tombstones and broker.tombstones[key].side == side:
        del broker.tombstones[key]


def _on_confirm(world: World, one: int, side: int, item: Item, stamp: int) -> None:
    link = world.brokers[one].links[side]
    if item in link.announced and (link.announced[item] == stamp or not world.on("stamped-confirms")):
        link.announced[item] = 0
        if item[0] == ADVERTISEMENT:
            link.asked.add(item[1])


def _on_fence(world: World, one: int, side: int, fence: int) -> None:
    broker = world.brokers[one]
    broker.links[side].fence_said = max(broker.links[side].fence_said, fence)
    if fence > broker.fence:
        broker.fence = fence
        clients.drop_below_fence(world, one)


def _on_tables(world: World, one: int, side: int) -> None:
    link = world.brokers[one].links[side]
    link.tables_in = link.tables_ever = True


def _on_sync(world: World, one: int, side: int) -> None:
    broker = world.brokers[one]
    link = broker.links[side]
    link.sync_heard = link.sync_ever = True
    broker.tombstones.pop(nobody_knows(one, side), None)
    broker.tombstones.pop(adopted_only(one, side), None)
    for item in sorted(link.stale):
        _forget_stale(world, one, side, item)
    link.stale.clear()
    routing.send_retained(world, one, side, link)


def _forget_stale(world: World, one: int, side: int, item: Item) -> None:
    broker, (kind, key) = world.brokers[one], item
    if kind == ADVERTISEMENT:
        if key in broker.words and broker.words[key].side == side and not world.on("word-stays-until-fence"):
            del broker.words[key]
    elif kind == SUBSCRIPTION:
        if broker.subscriptions.get(key) == side:
            bury(world, one, key, side, "stale-is-tombstone")
    elif key in broker.tombstones and broker.tombstones[key].side == side:
        if key >= ADOPTED_KEYS:
            del broker.tombstones[key]
        else:
            broker.tombstones[key] = Tombstone(side, True, world.publisher.sequence)


def bury(world: World, one: int, key: int, side: int, rule: str) -> None:
    broker = world.brokers[one]
    del broker.subscriptions[key]
    if world.on(rule):
        broker.tombstones[key] = Tombstone(side, True, world.publisher.sequence)


def _on_publication(world: World, one: int, side: int, position: int, sequence: int, adopted: bool) -> None:
    link = world.brokers[one].links[side]
    if position <= link.received and world.on("older-first"):
        if position in link.done:
            world.send(one, side, "settled", position, link.done[position])
        return
    link.received = max(link.received, position)
    routing.take(world, one, Settle(side, position, sequence), adopted)


def _on_settled(world: World, one: int, side: int, position: int, cut: bool) -> None:
    broker = world.brokers[one]
    link = broker.links[side]
    for entry in link.retained:
        if entry.position == position:
            link.retained.remove(entry)
            broker.settles[entry.record].cut |= cut
            routing.release(world, one, entry.record)
            return


HANDLERS: dict[str, Any] = {
    "tell": _on_tell,
    "withdraw": _on_withdraw,
    "confirm": _on_confirm,
    "fence": _on_fence,
    "tables": _on_tables,
    "sync": _on_sync,
    "publication": _on_publication,
    "settled": _on_settled,
}
