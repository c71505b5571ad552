"""P3 and P4: when the faults are over there is one tree, all is settled, and every table is right."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.model.edges import events, faults
from tests.model.edges.state import Edge, path, side
from tests.model.edges.telling import known
from tests.model.explorer import Event, Violation

if TYPE_CHECKING:
    from tests.model.edges.world import World

STEPS = 4000
PATIENCE = 200  # steps in which somebody must be granted a parent
ROUNDS = 40  # of questions, until there is one tree


def real_edges(world: World) -> dict[int, Edge]:
    """As their children have them on disk."""
    return {one: edge for one, (edge, _) in enumerate(world.disks)}


def check_cycle(world: World) -> None:
    parents = [world.parent_reached(one) if world.brokers[one].up else None for one in range(world.count)]
    for start in range(world.count):
        here: int | None = start
        for _ in range(world.count + 1):
            if here is None:
                break
            here = parents[here]
        else:
            raise Violation(f"P4 a cycle at {start}: {parents}")


def _peaceful(world: World, questions: int) -> list[Event]:
    limits = replace(
        world.limits, changes=world.changes + questions, breaks=-9, crashes=-9, publications=world.sequence
    )
    found = events.possible(world, limits)
    usable = {event[1] for event in found if event[0] == "use"}
    return [event for event in found if event[0] != "expire" or event[1] not in usable]


def check_at_rest(world: World, random: Random | None, done: list[Event]) -> None:
    """Who waits for a neighbour that cannot come gives it up in the end, as by a timer, and nothing earlier:
    what is unsettled then is told as cut."""
    for _ in range(ROUNDS):
        _come_to_rest(world, random, 0, done)
        if _one_tree(world):
            break
        if not _come_to_rest(world, random, 1, done):
            faults.give_up_one(world)
    _must(_one_tree(world), f"not one tree: {real_edges(world)}")
    _must(not world.unsettled, f"never settled: {world.unsettled}")
    edges = real_edges(world)
    for one, broker in enumerate(world.brokers):
        _must(broker.ready, f"{one} is never ready")
        _must(not broker.held, f"{one} still holds {broker.held}")
        _must(
            {c: e.number for c, e in broker.view.items()} == {c: e.number for c, e in edges.items()},
            f"{one} has not all edges",
        )
        _must(
            all(edge.done for edge in broker.view.values()), f"a change is not done at {one}: {broker.view}"
        )
        wanted = {
            key: side(edges, one, key)
            for key in world.subscribers
            if one in (path(edges, key, world.publisher) or ())
        }
        has = {key: side(broker.view, one, key) for key in known(world, one)}
        _must(has == wanted, f"{one} has {has} where {wanted} is right")


def _come_to_rest(world: World, random: Random | None, questions: int, done: list[Event]) -> bool:
    """Until nothing is left to happen, or this many edges have changed; False: nobody is granted anything."""
    until = world.changes + questions
    for step in range(STEPS if not questions else PATIENCE):
        found = _peaceful(world, max(0, until - world.changes))
        others = [event for event in found if event[0] != "ask"]
        if not others and (not found or not questions):
            return world.changes == until
        found = others or found
        event = random.choice(found) if random is not None else found[step % len(found)]
        done.append(event)
        events.do(world, event)
        check_cycle(world)
    if not questions:
        raise Violation("P3 does not come to rest")
    return world.changes == until


def _one_tree(world: World) -> bool:
    edges = real_edges(world)
    if sum(edge.parent is None for edge in edges.values()) != 1:
        return False
    return all(
        edge.parent is None or world.parent_reached(one) is not None for one, edge in edges.items()
    ) and all(path(edges, 0, one) is not None for one in edges)


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(f"P3 {otherwise}")
