"""What may happen next, changes and faults within the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model.edges import faults, granting, routing
from tests.model.edges.receiving import receive
from tests.model.edges.state import side
from tests.model.explorer import Event

if TYPE_CHECKING:
    from tests.model.edges.world import Limits, World

WEIGHTS = {
    "receive": 6.0,
    "publish": 3.0,
    "down": 1.0,
    "up": 1.5,
    "redial": 1.5,
    "crash": 0.7,
    "restart": 2.0,
    "ask": 1.5,
    "climb": 4.0,
    "use": 4.0,
    "expire": 0.3,
    "lapse": 2.0,
}


def possible(world: World, limits: Limits) -> list[Event]:
    found: list[Event] = [("receive", to, of) for (of, to), messages in world.channels.items() if messages]
    for one, other in world.channels:
        if one < other:
            found += _of_link(world, limits, one, other)
        if _may_redial(world, one, other):
            found.append(("redial", one, other))
    for one, broker in enumerate(world.brokers):
        if not broker.up:
            found.append(("restart", one))
            continue
        if world.crashes < limits.crashes:
            found.append(("crash", one))
        found += _of_question(world, limits, one)
        if broker.grant is not None and not _may_be_used(world, one, *broker.grant):
            found.append(("lapse", one))
    if world.sequence < limits.publications and world.brokers[world.publisher].ready:
        if world.brokers[world.publisher].up:
            found.append(("publish",))
    return found


def _of_link(world: World, limits: Limits, one: int, other: int) -> list[Event]:
    link, back = world.brokers[one].links.get(other), world.brokers[other].links.get(one)
    if link is None or back is None or link.gone or back.gone:
        return []
    if link.up and back.up:
        return [("down", one, other)] if world.breaks < limits.breaks else []
    if world.brokers[one].up and world.brokers[other].up:
        return [("up", one, other)]
    return []


def _may_redial(world: World, one: int, other: int) -> bool:
    """Our parent has no link to us any more, or never knew that it is our parent."""
    link, back = world.brokers[one].links.get(other), world.brokers[other].links.get(one)
    if not world.brokers[one].up or not world.brokers[other].up or link is None or link.up or link.gone:
        return False
    return world.brokers[one].view[one].parent == other and (back is None or back.gone)


def _may_be_used(world: World, root: int, asker: int, number: int) -> bool:
    """Or is being used: the lease is longer than a change takes, unless the new link breaks again."""
    question = world.brokers[asker].question
    holds = question is not None and question.granted and question.at == root
    edge = world.disks[asker][0]
    used = edge.number == number + 1 and edge.parent is not None and not edge.done
    return holds or (used and world.brokers[asker].up and world.parent_reached(asker) is not None)


def _of_question(world: World, limits: Limits, one: int) -> list[Event]:
    broker = world.brokers[one]
    question = broker.question
    if question is None:
        if world.changes >= limits.changes or not granting.is_root(world, one) or not broker.ready:
            return []
        if (world.on("lock") and broker.grant is not None) or not granting.all_done(world, one, one):
            return []
        return [("ask", one, other) for other in range(world.count) if _may_be_asked(world, one, other)]
    if not question.granted:
        return [("climb", one)]
    found: list[Event] = [("expire", one)]
    still = granting.is_root(world, one) or not world.on("resume-ends-question")
    still = still and granting.all_done(world, one, one)
    if world.changes < limits.changes and still and _may_be_asked(world, one, question.target):
        found.append(("use", one))
    return found


def _may_be_asked(world: World, one: int, other: int) -> bool:
    """Somebody who is up and to whom we have no link, nor a way as far as we know."""
    broker = world.brokers[one]
    if one == other or not world.brokers[other].up or broker.view[one].parent == other:
        return False
    links = [broker.links.get(hop) for hop in (other, side(broker.view, one, other))]  # type: ignore[arg-type]
    return (links[0] is None or links[0].gone) and (links[1] is None or links[1].gone or not links[1].up)


def do(world: World, event: Event) -> None:
    HANDLERS[event[0]](world, *event[1:])


def _down(world: World, one: int, other: int) -> None:
    world.breaks += 1
    faults.link_down(world, one, other)


def _crash(world: World, one: int) -> None:
    world.crashes += 1
    faults.crash(world, one)


def _lapse(world: World, one: int) -> None:
    world.brokers[one].grant = None


HANDLERS: dict[str, Any] = {
    "receive": receive,
    "publish": routing.publish,
    "down": _down,
    "up": faults.link_up,
    "redial": faults.redial,
    "crash": _crash,
    "restart": faults.restart,
    "ask": granting.ask,
    "climb": granting.climb,
    "use": granting.use,
    "expire": granting.withdraw_question,
    "lapse": _lapse,
}
