"""What may happen next, faults within the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model.explorer import Event
from tests.model.ownership import clients, faults, routing
from tests.model.ownership.receiving import receive
from tests.model.ownership.state import LOCAL
from tests.model.ownership.telling import settle_down

if TYPE_CHECKING:
    from tests.model.ownership.world import Limits, World

WEIGHTS = {
    "receive": 8.0,
    "up": 4.0,
    "restart": 3.0,
    "down": 1.0,
    "crash": 0.6,
    "lose": 5.0,
    "publish": 2.0,
    "subscribe": 4.0,
    "attach": 4.0,
    "relocate": 1.5,
    "abandon": 0.5,
    "abort": 3.0,
}


def possible(world: World, limits: Limits) -> list[Event]:
    found: list[Event] = [("receive", to, of) for (of, to), messages in world.channels.items() if messages]
    may_fail = world.faults < limits.faults
    for (one, other), connected in world.connected.items():
        if not connected and world.brokers[one].up and world.brokers[other].up:
            found.append(("up", one, other))
        elif connected and may_fail:
            found.append(("down", one, other))
    for one, broker in enumerate(world.brokers):
        if not broker.up:
            found.append(("restart", one))
            continue
        if may_fail:
            found.append(("crash", one))
        if world.faults and world.faults <= limits.faults:  # the last fault may end in a loss, too
            found += [("lose", one, side) for side, link in broker.links.items() if link.state == "suspended"]
        if one in world.subscribers and broker.ready and one not in broker.subscriptions:
            found.append(("subscribe", one))
    return found + _of_publisher(world, limits)


def _of_publisher(world: World, limits: Limits) -> list[Event]:
    publisher = world.publisher
    ready = [one for one, broker in enumerate(world.brokers) if broker.up and broker.ready]
    if publisher.home is None:
        if publisher.target is not None:
            return []
        anywhere = publisher.version and limits.relocations
        return [("attach", one) for one in ready if one == publisher.start or anywhere]
    found: list[Event] = []
    if world.relocations < limits.relocations:
        found.append(("abandon",))
    if not publisher.confirmed:
        return found
    if publisher.sequence < limits.publications and not publisher.target_confirmed:
        found.append(("publish",))
    if publisher.target is None and publisher.target_version > publisher.version:
        found.append(("abort",))
    elif publisher.target is None and world.relocations < limits.relocations:
        found += [("relocate", one) for one in ready if one != publisher.home]
    return found


def do(world: World, event: Event) -> None:
    HANDLERS[event[0]](world, *event[1:])
    clients.see_returns(world)


def _down(world: World, one: int, other: int) -> None:
    world.faults += 1
    faults.link_down(world, one, other)


def _crash(world: World, one: int) -> None:
    world.faults += 1
    faults.crash(world, one)


def _subscribe(world: World, one: int) -> None:
    world.brokers[one].subscriptions[one] = LOCAL
    settle_down(world, one)


def _attach(world: World, one: int) -> None:
    publisher = world.publisher
    publisher.home, publisher.version, publisher.confirmed = one, publisher.next_version(), False
    clients.announce(world, one, publisher.version)


def _abandon(world: World) -> None:
    """The client cannot reach its broker any more, which lives on."""
    world.relocations += 1
    world.publisher.home, world.publisher.confirmed = None, False
    clients.switch(world)


def _abort(world: World) -> None:
    """The target died: the old home issues a version above the one that it may have told."""
    _aim(world, world.publisher.home)


def _relocate(world: World, one: int) -> None:
    world.relocations += 1
    _aim(world, one)


def _aim(world: World, one: int | None) -> None:
    assert one is not None
    publisher = world.publisher
    publisher.target, publisher.target_version = one, publisher.next_version()
    publisher.target_confirmed = False
    clients.announce(world, one, publisher.target_version)


def _publish(world: World) -> None:
    home = world.publisher.home
    assert home is not None
    routing.publish(world)
    settle_down(world, home)


HANDLERS: dict[str, Any] = {
    "receive": receive,
    "up": faults.link_up,
    "down": _down,
    "lose": faults.lose,
    "crash": _crash,
    "restart": faults.restart,
    "subscribe": _subscribe,
    "attach": _attach,
    "abandon": _abandon,
    "abort": _abort,
    "relocate": _relocate,
    "publish": _publish,
}
