"""Links that break and come back, brokers that crash and start again.

A broker has its own edge and its neighbours' names on disk, nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.edges import changes, granting
from tests.model.edges.state import Broker, Link
from tests.model.edges.telling import introduce, look_at_syncs

if TYPE_CHECKING:
    from tests.model.edges.world import World


def link_down(world: World, one: int, other: int) -> None:
    for here, there in ((one, other), (other, one)):
        changes.hear_end(world, here, there)


def link_up(world: World, one: int, other: int) -> None:
    ends = ((one, other), (other, one))
    sessions = {world.brokers[here].links[there].session for here, there in ends}
    if len(sessions) > 1 or 0 in sessions:
        world.sessions += 1
        for here, there in ends:
            world.new_session(here, there)
    for here, there in ends:
        world.brokers[here].links[there].up = True
        world.disks[here][1].add(there)
    for here, there in ends:
        introduce(world, here, there)
        if world.on("resume-ends-question") and world.brokers[here].view[here].parent == there:
            granting.withdraw_question(world, here)


def redial(world: World, one: int, parent: int) -> None:
    world.connect(one, parent)
    for here, there in ((one, parent), (parent, one)):
        introduce(world, here, there)
    if world.on("resume-ends-question"):
        granting.withdraw_question(world, one)


def crash(world: World, one: int) -> None:
    broker = world.brokers[one]
    broker.up = False
    for other in list(broker.links):
        if broker.links[other].up and not broker.links[other].gone:
            link_down(world, one, other)
    for other in broker.links:
        world.channels[one, other] = []
    granting.withdraw_question(world, one)
    edge, names = world.disks[one]
    fresh = Broker({one: edge}, {name: Link(up=False) for name in sorted(names)}, up=False, ready=False)
    world.brokers[one] = fresh
    if one in world.subscribers:
        world.ended.add(one)


def restart(world: World, one: int) -> None:
    broker = world.brokers[one]
    broker.up = True
    broker.subscribed = one in world.subscribers
    look_at_syncs(world, one)


def give_up_one(world: World) -> None:
    """Somebody who waits for a neighbour in vain waits no longer: who has started again, and who has a child
    that has another place and that nobody tells of."""
    for one, broker in enumerate(world.brokers):
        if broker.awaited:
            world.owed = {sequence: frozenset() for sequence in world.owed}
            broker.awaited = set()
            look_at_syncs(world, one)
            return
        for other, link in broker.links.items():
            if link.gone or link.up:
                continue
            if not (broker.ready or link.sync_ever):
                world.owed = {sequence: frozenset() for sequence in world.owed}
                changes.end_link(world, one, other, link)
                broker.awaited.discard(other)
                look_at_syncs(world, one)
                return
            if world.on("child-is-lost") and _has_gone(world, one, other):
                world.owed = {sequence: frozenset() for sequence in world.owed}
                changes.lose_child(world, one, other)
                return


def _has_gone(world: World, one: int, other: int) -> bool:
    back = world.brokers[other].links.get(one)
    return (back is None or back.gone) and world.brokers[one].view[one].parent != other
