"""The planes of a broker: the one that the ring is, and during a reconfiguration the next one beside it.

Everybody else asks here for "the" ring: `membership`, `roots`, `path` and `wants` are those of the current
plane. What subscribers want is said in both planes and confirmed when both roots know; publications enter the
next one from `switch` on, each client's when its older ones are settled (DECISIONS 19).

A plane can be dropped at any time without a loss: what was under way in it, or comes by it later, is routed
anew in the other one. Who speaks of a plane that is gone is told which one the ring is now; a broker that is
on no ring follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from grapevine.wire import WireError
from grapevine.wire.chord import CHORD, ArcAsk, RingAsk, RingIdle, RingNode, RingNotify
from grapevine.wire.codec import decode
from grapevine.wire.messages import Batch, Message, Publication, Publish
from grapevine.wire.reconfiguration import OnPlane, PlaneIs, RingPlace
from overlay.behaviour import Quiet
from overlay.chord.contacts import RingContacts
from overlay.chord.membership import Membership
from overlay.chord.moving import adopt, evacuate
from overlay.chord.path import PLANE_LANES, ChordPath
from overlay.chord.plane import SLOTS, Plane
from overlay.chord.roots import Roots
from overlay.chord.router import ChordRouter
from overlay.chord.wants import Wants
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.duplicates import Source
from overlay.data.local import LocalSubscriptions
from overlay.data.path import Keep
from overlay.links.incoming import Incoming
from overlay.links.lane import Lane
from overlay.links.session import Session
from overlay.links.settling import Settling
from overlay.settings import ChordSettings

CLOSED = (RingAsk, RingNotify, ArcAsk)  # how somebody comes onto a ring


class Planes(Quiet):
    keeps = "ring"
    after = ("RingContacts",)

    def __init__(
        self,
        settings: ChordSettings,
        addresses: tuple[str, ...],
        contacts: RingContacts,
        local: LocalSubscriptions,
    ) -> None:
        self.settings, self.addresses, self.contacts, self.local = settings, addresses, contacts, local
        self.router: ChordRouter
        self.current: Plane
        self.next: Plane | None = None
        self.switched = False  # publications enter the next plane
        self.closed: Callable[[Session], bool] = lambda session: False  # nobody new comes onto the ring
        self.on_current: list[Callable[[float], None]] = []  # another plane is the ring
        self.on_rejoin: list[Callable[[float], None]] = []
        self.keep: Keep | None = None  # what clients publish durably (journal/holding.py)
        self._marks: dict[Client, tuple[int, int]] = {}  # epoch, and what must be settled before it switches

    def fill(self, router: ChordRouter) -> None:
        self.router = router
        self.current = self._make(0)
        self.current.begun = True

    def _make(self, number: int) -> Plane:
        plane = Plane(number, self.settings, self.addresses, self.contacts, self.local, self.router)
        plane.membership.on_rejoin.append(self._rejoined)
        return plane

    def attach(self, core: Core) -> None:
        self.core = core
        for message in (*CHORD, RingPlace):
            if message is not RingIdle:  # of a link, and not of a plane
                core.on(message, self.on_bare)
        core.on(OnPlane, self.on_plane)
        core.on(PlaneIs, self.on_plane_is)
        core.forward.fill(self, self.forward)
        core.accept.fill(self, self.accept)
        self.contacts.on_died.append(self._died)
        self._add(self.current)

    def restore(self, rows: Mapping[str, bytes]) -> None:
        if "position" in rows:
            self.membership.lives -= 1  # nobody has heard of us yet
            self.membership.move_to(int(msgspec.json.decode(rows["position"], type=str), 16))

    # --- the ring ---------------------------------------------------------------------------------------

    @property
    def membership(self) -> Membership:
        return self.current.membership

    @property
    def roots(self) -> Roots:
        return self.current.roots

    @property
    def wants(self) -> Wants:
        return self.current.wants

    @property
    def path(self) -> ChordPath:
        return self.current.path

    @property
    def all(self) -> tuple[Plane, ...]:
        return (self.current,) if self.next is None else (self.current, self.next)

    @property
    def at_rest(self) -> bool:
        return self.next is None and self.membership.member and not self.core.leaving

    def needed(self) -> list[RingNode]:
        """To whom this broker must have a session."""
        return [node for plane in self.all for node in plane.needed()]

    def _died(self, node: RingNode, now: float) -> None:
        for plane in self.all:
            plane.died(node, now)

    def _rejoined(self, now: float) -> None:
        for call in self.on_rejoin:
            call(now)

    # --- planes come and go -----------------------------------------------------------------------------

    def _add(self, plane: Plane) -> None:
        """Sessions are heard of by planes in the order of their age."""
        plane.attach(self.core)
        behaviours = self.core.behaviours
        place = behaviours.index(self) + 1
        while place < len(behaviours) and behaviours[place] in self.current.behaviours:
            place += 1
        self.core.behaviours = [*behaviours[:place], *plane.behaviours, *behaviours[place:]]

    def prepare(self, number: int) -> Plane:
        assert self.next is None
        plane = self._make(number)
        for behaviour in plane.behaviours:
            behaviour.name = ""  # status shows the ring as it is
        plane.path.last_seen = self.path.last_seen
        plane.path.entrance.may_enter = self._may_enter
        self.next = plane
        self._add(plane)
        return plane

    def begin(self, now: float) -> None:
        """Everybody has the next plane: what is wanted is said there too."""
        assert self.next is not None
        self.next.begun = True
        self.next.wants.subscribed = dict(self.wants.subscribed)
        self.next.wants.lasting = dict(self.wants.lasting)
        for behaviour in self.next.behaviours:
            behaviour.start(now)
        self.next.membership.begin(now)

    def switch(self, now: float) -> None:
        if self.next is not None and not self.switched:
            self.switched = True
            position = self.next.membership.me.position
            self.core.keep(self.keeps, "position", f"{position:016x}")  # decided: we come back to it
            clients = [one for one in self.core.numbered.values() if one.incoming.records]
            self._marks = {client: (client.epoch, client.incoming.received) for client in clients}

    def _may_enter(self, client: Client) -> bool:
        """Or if its session was given up meanwhile: then nobody waits for its marks, and whoever publishes in
        its name sends all again that is not settled."""
        epoch, mark = self._marks.get(client, (0, 0))
        if mark and not client.lost and client.epoch == epoch and _under_way(client.incoming, mark):
            return False
        self._marks.pop(client, None)
        return True

    @property
    def left_behind(self) -> bool:
        """Whether nothing that entered here is unsettled in the old plane."""
        settled = all(self._may_enter(client) for client in list(self._marks))
        return self.switched and settled and self.current.idle

    def drop_next(self, now: float) -> None:
        if self.next is not None and not self.switched:
            plane, self.next = self.next, None
            self._drop(plane, now)

    def drop_current(self, now: float) -> None:
        """The next plane is the ring from now on."""
        assert self.next is not None
        old, new = self.current, self.next
        self.switch(now)
        for behaviour in new.behaviours:
            behaviour.name = type(behaviour).name
        self.current, self.next, self.switched = new, None, False
        self._marks.clear()
        new.path.accepted += old.path.accepted
        new.path.duplicates += old.path.duplicates
        self._drop(old, now)
        for call in self.on_current:
            call(now)

    def _drop(self, plane: Plane, now: float) -> None:
        plane.live = False
        gone = plane.behaviours
        self.core.behaviours = [one for one in self.core.behaviours if one not in gone]
        self.path.behind.take_over(plane.path.behind)
        evacuate(plane.path, self.path, now)
        plane.wants.abandon(now)

    def follow(self, number: int, now: float) -> None:
        """We are on no ring, or alone on one that is gone: seek this one."""
        before = self.current
        plane = self._make(number)
        plane.path.last_seen = before.path.last_seen
        plane.path.accepted, plane.path.duplicates = before.path.accepted, before.path.duplicates
        self._add(plane)
        plane.membership.lives = before.membership.lives
        plane.membership.move_to(before.membership.me.position)
        plane.wants.take_over(before.wants)
        plane.begun = True
        self.current = plane
        self._drop(before, now)
        for behaviour in plane.behaviours:
            behaviour.start(now)
        for call in self.on_current:
            call(now)

    # --- what is said -----------------------------------------------------------------------------------

    def on_bare(self, session: Session, message: Message, now: float) -> None:
        self._receive(0, session, message, now)

    def on_plane(self, session: Session, envelope: OnPlane, now: float) -> None:
        try:
            message = decode(envelope.frame)
        except WireError:
            self.core.refuse("frame")
            return
        self._receive(envelope.plane, session, message, now)

    def _receive(self, number: int, session: Session, message: Message, now: float) -> None:
        plane = next((plane for plane in self.all if plane.number == number), None)
        if plane is None:
            if number < self.current.number or not self.membership.member:
                self.core.tell(PlaneIs(self.current.number), session)
        elif not (isinstance(message, CLOSED) and self.closed(session)):
            plane.receive(session, message, now)

    def on_plane_is(self, session: Session, message: PlaneIs, now: float) -> None:
        """Only who has dropped the plane before it says so: it was decided."""
        number = message.plane
        if self.next is not None and self.next.number == number:
            self.core.note(now, f"{session.name} says that the ring is plane {number}")
            self.drop_current(now)
        elif self.next is None and number != self.current.number:
            if number > self.current.number or not self.membership.member:
                self.follow(number, now)

    # --- publications -----------------------------------------------------------------------------------

    @property
    def entered(self) -> ChordPath:
        """By which publications enter the ring."""
        plane = self.next if self.switched and self.next is not None else self.current
        plane.path.keep = self.keep
        return plane.path

    def accept(self, client: Session, batch: Publish, repeated: int, now: float) -> None:
        self.entered.accept(client, batch, repeated, now)

    def send_again(
        self, side: Client, run: list[Publication], source: Source, record: Settling, now: float
    ) -> None:
        """What is in custody here, once more."""
        self.entered.send_again(side, run, source, record, now)

    def forward(self, lane: Lane, batch: Batch, repeated: int, now: float) -> None:
        slot = lane.lane_number // PLANE_LANES
        plane = next((plane for plane in self.all if plane.slot == slot % SLOTS), None)
        if plane is not None:
            plane.path.forward(lane, batch, repeated, now)
        else:
            self.core.tell(PlaneIs(self.current.number), lane.session)
            adopt(self.path, lane, batch, repeated, now)

    # --- what subscribers want --------------------------------------------------------------------------

    @property
    def subscribed(self) -> dict[int, int]:
        return self.wants.subscribed

    @property
    def known(self) -> dict[int, bool]:
        return self.wants.known

    def _begun(self) -> list[Plane]:
        return [plane for plane in self.all if plane.begun]

    def subscribe(
        self, topics: Iterable[int], confirmed: Callable[[float], None], now: float, lasting: bool = False
    ) -> None:
        planes = self._begun()
        each = _after(len(planes), confirmed)
        for plane in planes:
            plane.wants.subscribe(topics, each(), now, lasting)

    def await_known(self, topics: Iterable[int], confirmed: Callable[[float], None], now: float) -> None:
        planes = self._begun()
        each = _after(len(planes), confirmed)
        for plane in planes:
            plane.wants.await_known(topics, each(), now)

    def unsubscribe(self, topics: Iterable[int], now: float, lasting: bool = False) -> None:
        for plane in self._begun():
            plane.wants.unsubscribe(topics, now, lasting)


def _under_way(incoming: Incoming, mark: int) -> bool:
    """Whether some of what came up to there is. What is kept until somebody is back is not: that one may have
    to wait for the end of the reconfiguration."""
    if incoming.settled >= mark:
        return False
    for record in incoming.records:
        if record.pending and not record.parked:
            return True
        if record.last >= mark:
            break
    return False


def _after(count: int, call: Callable[[float], None]) -> Callable[[], Callable[[float], None]]:
    """Makes calls of which the last one made is passed on."""
    waiting = [count]

    def make() -> Callable[[float], None]:
        def one(now: float) -> None:
            waiting[0] -= 1
            if not waiting[0]:
                call(now)

        return one

    return make
