"""An edge changes: it is flooded as a gather, sides change, what is retained goes the new way, links end."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.model.edges import routing
from tests.model.edges.state import Change, Edge, Link, adjacent, path, side, sides
from tests.model.edges.telling import known, look_at_syncs, tell

if TYPE_CHECKING:
    from tests.model.edges.world import World


def learn(world: World, one: int, child: int, edge: Edge, source: int | None = None) -> None:
    """From a neighbour, or from ourselves. Asked again from another side it is asked on."""
    broker = world.brokers[one]
    before = broker.view.get(child)
    if source is not None:
        broker.owes.add((source, child, edge.number))
    if before is None or edge.number > before.number:
        view = {**broker.view, child: edge}
        if world.on("tell-before-edge"):
            tell(world, one, broker.view, view, withdraw=False)
        _pass_on(world, one, child, edge, source)
        _turn(world, one, child, edge)
    elif edge.number == before.number:
        if edge.done and not before.done:
            if edge.parent != before.parent:
                _turn(world, one, child, edge)  # it was given up
            broker.view[child] = edge
            _pass_on(world, one, child, edge, source)
            prune_kept(world, one)
            tell(world, one)
            routing.release_held(world, one)
        elif not before.done and source is not None:
            _pass_on(world, one, child, before, source, unless_confirmed=True)
    if broker.grant is not None and broker.grant[0] == child and edge.number > broker.grant[1]:
        broker.grant = None  # it was used
    confirm(world, one)


def _pass_on(
    world: World, one: int, child: int, edge: Edge, source: int | None, unless_confirmed: bool = False
) -> None:
    broker = world.brokers[one]
    for other, link in sorted(broker.links.items()):
        if other != source and not link.gone:
            if not unless_confirmed or (other, child, edge.number) not in broker.confirmed:
                world.send(one, other, "edge", child, edge)


def known_behind(world: World, one: int, source: int, child: int, number: int) -> bool:
    """Whether everybody behind broker `one`, seen from `source`, has this edge and told what it calls for."""
    broker = world.brokers[one]
    return all(
        (other, child, number) in broker.confirmed or (not link.sync_heard and _skipped(world, link))
        for other, link in broker.links.items()
        if not link.gone and other not in (source, child)
    )


def _skipped(world: World, link: Link) -> bool:
    return world.on("gather-skips-suspended") and (link.asked or not world.on("skip-only-who-was-asked"))


def confirm(world: World, one: int) -> None:
    broker = world.brokers[one]
    for source, child, number in sorted(broker.owes):
        if broker.view[child].number > number or known_behind(world, one, source, child, number):
            broker.owes.discard((source, child, number))
            if source in broker.links:
                world.send(one, source, "confirm", child, number)
    look_at_syncs(world, one)


def finish(world: World, one: int) -> None:
    """We and the new parent have said SyncDone: our change is over."""
    edge = world.brokers[one].view[one]._replace(done=True)
    world.disks[one] = (edge, world.disks[one][1])
    learn(world, one, one, edge)


def _turn(world: World, one: int, child: int, edge: Edge) -> None:
    """From now on this broker goes by the new edge."""
    broker = world.brokers[one]
    keys = known(world, one)
    before = sides(broker.view, one, world.count)
    broker.view[child] = edge
    after = sides(broker.view, one, world.count)
    count = sum(world.stamp(one))
    moved = [other for other in range(world.count) if before[other] != after[other]]
    for other in moved:
        earlier = broker.changes.get(other, ())
        left = before[other]
        if left is None and earlier and world.on("nowhere-is-no-side"):
            left = earlier[-1].side
        broker.changes[other] = (*earlier, Change(left, child, edge.number, count))
    for old, new in sorted({(before[key], after[key]) for key in keys.intersection(moved)}, key=str):
        if old in broker.links:
            wanting = [key for key in sorted(keys) if (before[key], after[key]) == (old, new)]
            _reroute(world, one, broker.links[old], new, wanting)  # type: ignore[index]
    came_from, comes_from = before[world.publisher], after[world.publisher]
    if came_from != comes_from and came_from in broker.links:
        broker.links[came_from].asked = False  # type: ignore[index]
    end_links(world, one)
    routing.release_held(world, one)
    tell(world, one)
    look_at_syncs(world, one)


def _reroute(world: World, one: int, old: Link, new: int | None, keys: list[int]) -> None:
    """Everything retained for the old side goes to the new one, unless it came from there."""
    broker = world.brokers[one]
    retained = (
        sorted(old.retained, key=lambda entry: entry.sequence) if world.on("by-sequence") else old.retained
    )
    waits = new in broker.links and routing.must_wait(world, one, new)  # type: ignore[arg-type]
    for entry in list(retained):
        settle = broker.settles[entry.record]
        if routing.leads_on(broker, new) and not waits:
            if world.on("resend") and settle.source != new:
                routing.put(world, one, new, entry.sequence, entry.record, world.stamp(one))  # type: ignore[arg-type]
        elif world.on("unreachable-is-held"):
            for key in keys:
                routing.hold(world, one, entry.sequence, key, entry.record)


def end_links(world: World, one: int) -> None:
    """Of brokers that are no neighbours any more. A link that is not past SyncDone may be a new edge's."""
    broker = world.brokers[one]
    for other, link in broker.links.items():
        if not (link.gone or adjacent(broker.view, one, other) or (link.up and not link.sync_heard)):
            end_link(world, one, other, link)
    prune_kept(world, one)


def end_link(world: World, one: int, other: int, link: Link) -> None:
    broker = world.brokers[one]
    was_up, link.gone = link.up, True
    if not (broker.ready or link.sync_ever) and world.on("former-are-awaited"):
        broker.awaited.add(other)
    world.channels[one, other] = []
    world.disks[one][1].discard(other)
    if world.on("keep-until-sync"):
        broker.kept |= link.heard
    link.heard = set()
    broker.owes = {owed for owed in broker.owes if owed[0] != other}
    for settle in broker.settles.values():
        if settle.source == other:
            settle.position = None
    retained, link.retained = link.retained, []
    for entry in retained:
        routing.release(world, one, entry.record)
    if was_up:
        hear_end(world, other, one)


def lose_child(world: World, one: int, child: int) -> None:
    """It leads nowhere until its next edge is known, which only the child may tell."""
    broker = world.brokers[one]
    if child in broker.view:
        nowhere = broker.view[child]._replace(parent=None, done=True)
        _pass_on(world, one, child, nowhere, None)
        _turn(world, one, child, nowhere)
    if not broker.links[child].gone:
        end_link(world, one, child, broker.links[child])
    confirm(world, one)


def hear_end(world: World, one: int, other: int) -> None:
    """The other side has ended the link, or it broke."""
    broker = world.brokers[one]
    link = broker.links.get(other)
    world.channels[other, one] = []
    if link is None or link.gone:
        return
    link.break_off()
    broker.owes = {owed for owed in broker.owes if owed[0] != other}
    broker.confirmed = {known for known in broker.confirmed if known[0] != other}
    if broker.up:
        end_links(world, one)
        tell(world, one)
        confirm(world, one)


def prune_kept(world: World, one: int) -> None:
    """Who leads there now has told all that it knows; and so has everybody on the way."""
    broker = world.brokers[one]
    for key in list(broker.kept):
        link = broker.links.get(side(broker.view, one, key))  # type: ignore[arg-type]
        if link is not None and not link.gone and link.sync_heard and _way_is_done(world, one, key):
            broker.kept.discard(key)


def _way_is_done(world: World, one: int, key: int) -> bool:
    view = world.brokers[one].view
    way = path(view, one, key) or []
    return not world.on("keep-until-done") or all(
        view[child].done
        for pair in pairwise(way)
        for child, other in (pair, pair[::-1])
        if view[child].parent == other
    )


def note_asked(world: World, one: int, other: int) -> None:
    """The neighbour has everything that we have told by now."""
    broker = world.brokers[one]
    if side(broker.view, one, world.publisher) != other:
        broker.links[other].asked = True


def change_own(world: World, one: int, parent: int | None) -> None:
    """Only the child raises the number of its edge; on disk before it is said."""
    edge = Edge(world.brokers[one].view[one].number + 1, parent, parent is None)
    world.disks[one] = (edge, world.disks[one][1])
    learn(world, one, one, edge)


def side_of(world: World, one: int, other: int) -> int | None:
    return side(world.brokers[one].view, one, other)
