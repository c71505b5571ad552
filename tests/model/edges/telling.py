"""What is told on a link: subscriptions towards the publisher, by the view of the edges; and SyncDone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.edges.state import View, side

if TYPE_CHECKING:
    from tests.model.edges.world import World


def known(world: World, one: int) -> set[int]:
    broker = world.brokers[one]
    keys = set(broker.kept)
    for link in broker.links.values():
        if not link.gone:
            keys |= link.heard
    if not world.on("known-by-any"):
        keys = {key for key in keys if _heard_from_its_side(world, one, key)}
    return keys | {one} if broker.subscribed else keys


def _heard_from_its_side(world: World, one: int, key: int) -> bool:
    broker = world.brokers[one]
    its = side(broker.view, one, key)
    return its in broker.links and key in broker.links[its].heard  # type: ignore[index]


def tell(world: World, one: int, *views: View, only: int | None = None, withdraw: bool = True) -> None:
    """What these views call for, or the broker's own."""
    broker = world.brokers[one]
    keys = known(world, one)
    for other, link in sorted(broker.links.items()):
        if link.gone or not link.up or only not in (None, other):
            continue
        wanted = {
            key
            for view in (views or (broker.view,))
            for key in keys
            if _is_told(world, side(view, one, world.publisher), other) and side(view, one, key) != other
        }
        for key in sorted(wanted - link.announced):
            link.announced.add(key)
            world.send(one, other, "tell", key)
        if withdraw:
            for key in sorted(link.announced - wanted):
                link.announced.discard(key)
                world.send(one, other, "withdraw", key)


def _is_told(world: World, towards: int | None, other: int) -> bool:
    return towards == other or (towards is None and world.on("unreachable-is-told-to-all"))


def introduce(world: World, one: int, other: int) -> None:
    """All that is known, on a link that came up; then that it is all."""
    link = world.brokers[one].links[other]
    link.announced, link.stale = set(), set(link.heard)
    tell(world, one, only=other)
    for child, edge in sorted(world.brokers[one].view.items()):
        world.send(one, other, "edge", child, edge)
    world.send(one, other, "tables")


def look_at_syncs(world: World, one: int) -> None:
    from tests.model.edges import changes, routing

    broker = world.brokers[one]
    for other, link in sorted(broker.links.items()):
        if (
            link.up
            and not link.gone
            and link.tables_in
            and not link.sync_said
            and _may_sync(world, one, other)
        ):
            link.sync_said = True
            world.send(one, other, "sync")
        own = broker.view[one]
        if other == own.parent and not own.done and link.sync_said and link.sync_heard:
            changes.finish(world, one)
    if not broker.ready and _all_told(world, one, None):
        broker.ready, broker.awaited = True, set()
        routing.send_again(world, one)


def _may_sync(world: World, one: int, other: int) -> bool:
    from tests.model.edges import changes

    broker = world.brokers[one]
    edge, own = broker.view.get(other), broker.view[one]
    if world.on("edge-gather") and edge is not None and edge.parent == one and not edge.done:
        if not changes.known_behind(world, one, other, other, edge.number):
            return False
    if world.on("gather-both-ways") and own.parent == other and not own.done:
        if not changes.known_behind(world, one, other, one, own.number):
            return False
    if broker.ready or not world.on("sync-waits-others"):
        return True
    return _all_told(world, one, other)


def _all_told(world: World, one: int, but: int | None) -> bool:
    """Whether all others, and those behind whom a former neighbour is by now, have told what they know."""
    broker = world.brokers[one]
    if not all(link.sync_ever for hop, link in broker.links.items() if hop != but and not link.gone):
        return False
    hops = [side(broker.view, one, former) for former in broker.awaited]
    return all(hop in broker.links and (hop == but or broker.links[hop].sync_ever) for hop in hops)
