"""One version of the ring: positions, pointers, roots, members, and what is on its way by them.

A reconfiguration makes a second one beside the first (docs/adr/0011). The behaviours of a plane know
nothing of that: they are handed a core and contacts that speak for their plane. What plane 0 says travels as
it is, what others say in an envelope with the plane's number; publications of a plane have lanes of their own
(lane = 8 x slot + lane), and there are two slots, since there are never more than two planes.

When a plane goes, its timers fall silent with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from grapevine.wire.chord import RingNode
from grapevine.wire.codec import encode
from grapevine.wire.messages import Message
from grapevine.wire.reconfiguration import OnPlane
from overlay.assembly import Slot
from overlay.behaviour import Behaviour
from overlay.chord.contacts import RingContacts
from overlay.chord.membership import Membership
from overlay.chord.path import PLANE_LANES, ChordPath
from overlay.chord.roots import Roots
from overlay.chord.wants import Wants
from overlay.core import Core
from overlay.links.lane import Lane
from overlay.links.session import Session
from overlay.timers import Timer

if TYPE_CHECKING:
    from overlay.chord.router import ChordRouter
    from overlay.data.local import LocalSubscriptions
    from overlay.settings import ChordSettings

SLOTS = 2
Handler = Callable[[Any, Any, float], None]


class PlaneTimers:
    """The core's, until the plane is gone."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def at(self, when: float, call: Callable[[float], None]) -> Timer:
        def due(now: float) -> None:
            if self._plane.live:
                call(now)

        return self._plane.core.timers.at(when, due)


class PlaneCore:
    """The core, but for what is said and heard: that is the plane's."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self.timers = PlaneTimers(plane)
        self.forward: Slot[Any] = Slot("forward")
        self.accept: Slot[Any] = Slot("accept")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plane.core, name)

    @property
    def dirty(self) -> dict[Lane, None]:
        return self._plane.core.dirty

    @dirty.setter
    def dirty(self, lanes: dict[Lane, None]) -> None:
        self._plane.core.dirty = lanes

    def on(self, message: type[Message], handler: Handler) -> None:
        self._plane.handlers[message.kind] = handler

    def tell(self, message: Message, *sessions: Session) -> None:
        self._plane.core.tell(self._plane.wrap(message), *sessions)


class PlaneContacts:
    """The ring's sessions, which all planes share."""

    def __init__(self, plane: Plane, contacts: RingContacts) -> None:
        self._plane = plane
        self._contacts = contacts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._contacts, name)

    def tell(self, node: RingNode, message: Message) -> bool:
        return self._contacts.tell(node, self._plane.wrap(message))


class Plane:
    def __init__(
        self,
        number: int,
        settings: ChordSettings,
        addresses: tuple[str, ...],
        contacts: RingContacts,
        local: LocalSubscriptions,
        router: ChordRouter,
    ) -> None:
        self.number = number
        self.live = True
        self.begun = False  # what subscribers want is said in it
        self.core: Core
        self.handlers: dict[int, Handler] = {}
        ours = cast(RingContacts, PlaneContacts(self, contacts))
        self.membership = Membership(settings, addresses, ours)
        self.roots = Roots(self.membership)
        self.wants = Wants(self.membership, self.roots)
        self.path = ChordPath(router, local, ours, self.membership, self.roots, self.wants)
        self.path.first_lane = PLANE_LANES * self.slot

    @property
    def slot(self) -> int:
        return self.number % SLOTS

    @property
    def tables(self) -> tuple[Behaviour, ...]:
        return (self.membership, self.roots, self.wants)

    @property
    def behaviours(self) -> tuple[Behaviour, ...]:
        return (*self.tables, self.path)

    def attach(self, core: Core) -> None:
        self.core = core
        ours = cast(Core, PlaneCore(self))
        for behaviour in self.behaviours:
            behaviour.attach(ours)

    def wrap(self, message: Message) -> Message:
        return OnPlane(self.number, encode(message)) if self.number else message

    def receive(self, session: Session, message: Message, now: float) -> None:
        if (handler := self.handlers.get(message.kind)) is not None:
            handler(session, message, now)

    def died(self, node: RingNode, now: float) -> None:
        self.membership.died(node, now)
        self.roots.died(node, now)

    def needed(self) -> Iterator[RingNode]:
        yield from self.membership.nodes()
        yield from self.roots.nodes()
        yield from self.path.direct.nodes()

    def lanes(self) -> Iterator[Lane]:
        """Of all sessions, those that carry publications of this plane."""
        for peer in self.core.peers.values():
            for lane in peer.every_lane():
                if lane.lane_number // PLANE_LANES == self.slot:
                    yield lane

    @property
    def idle(self) -> bool:
        """Whether no publication is on its way here by this plane."""
        return not self.path.waits and not any(
            lane.out.unsettled or lane.incoming.records for lane in self.lanes()
        )
