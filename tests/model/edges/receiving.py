"""What a broker does with a message from a neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model.edges import changes, routing
from tests.model.edges.state import Edge, Link, Settle, Stamp
from tests.model.edges.telling import look_at_syncs, tell

if TYPE_CHECKING:
    from tests.model.edges.world import World


def receive(world: World, one: int, side: int) -> None:
    kind, *content = world.channels[side, one].pop(0)
    if not world.brokers[one].links[side].gone:
        HANDLERS[kind](world, one, side, *content)
        routing.release_held(world, one)


def _on_tell(world: World, one: int, side: int, key: int) -> None:
    link = world.brokers[one].links[side]
    link.heard.add(key)
    link.stale.discard(key)
    tell(world, one)


def _on_withdraw(world: World, one: int, side: int, key: int) -> None:
    broker = world.brokers[one]
    broker.links[side].heard.discard(key)
    if world.on("keep-until-sync"):
        broker.kept.add(key)
        changes.prune_kept(world, one)
    tell(world, one)


def _on_edge(world: World, one: int, side: int, child: int, edge: Edge) -> None:
    changes.learn(world, one, child, edge, side)


def _on_confirm(world: World, one: int, side: int, child: int, number: int) -> None:
    world.brokers[one].confirmed.add((side, child, number))
    edge = world.brokers[one].view[child]
    if edge.number == number and not edge.done:
        changes.note_asked(world, one, side)
    changes.confirm(world, one)


def _on_tables(world: World, one: int, side: int) -> None:
    world.brokers[one].links[side].tables_in = True
    look_at_syncs(world, one)


def _on_sync(world: World, one: int, side: int) -> None:
    broker = world.brokers[one]
    link = broker.links[side]
    link.sync_heard = link.sync_ever = True
    if world.on("keep-until-sync"):
        broker.kept |= link.heard & link.stale
    link.heard -= link.stale
    link.stale = set()
    changes.note_asked(world, one, side)
    changes.prune_kept(world, one)
    tell(world, one)
    _order_unsent(world, link)
    link.retained = [entry._replace(sent=True) for entry in link.retained]
    for entry in link.retained:
        world.send(one, side, "publication", entry.position, entry.sequence, entry.stamp)
    look_at_syncs(world, one)


def _order_unsent(world: World, link: Link) -> None:
    """What is new to the neighbour in this session, oldest first."""
    if world.on("older-first"):
        sent = [entry for entry in link.retained if entry.sent]
        unsent = [entry for entry in link.retained if not entry.sent]
        ordered = sorted(unsent, key=lambda entry: entry.sequence)
        places = [entry.position for entry in unsent]
        link.retained = sent + [
            entry._replace(position=place) for place, entry in zip(places, ordered, strict=True)
        ]


def _on_publication(world: World, one: int, side: int, position: int, sequence: int, stamp: Stamp) -> None:
    link = world.brokers[one].links[side]
    if position <= link.received:
        if position in link.done:
            world.send(one, side, "settled", position)
        return
    link.received = position
    routing.take(world, one, Settle(side, position, sequence), stamp)


def _on_settled(world: World, one: int, side: int, position: int) -> None:
    link = world.brokers[one].links[side]
    for entry in link.retained:
        if entry.position == position:
            link.retained.remove(entry)
            routing.release(world, one, entry.record)
            return


HANDLERS: dict[str, Any] = {
    "tell": _on_tell,
    "withdraw": _on_withdraw,
    "edge": _on_edge,
    "confirm": _on_confirm,
    "tables": _on_tables,
    "sync": _on_sync,
    "publication": _on_publication,
    "settled": _on_settled,
}
