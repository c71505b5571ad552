"""The broker as a deterministic object: messages, commands, measurements and the time go in, an outbox
comes out.

The core knows links, sessions, timers and who handles which message; it knows no overlay. Behaviours
own their tables and message kinds; `profiles` alone puts them together. One thread touches a core, and
nothing in it reads a clock, draws an unseeded number or opens anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from grapevine.filters.normal import Filter
from grapevine.wire.identity import identify
from grapevine.wire.messages import Batch, Command, Marks, Message, Publish, Reset
from overlay.behaviour import Behaviour, Status
from overlay.dispatch import Dispatch
from overlay.links.session import Kind, Link, Peer, Remote, Session
from overlay.links.soft import Soft
from overlay.outbox import Event, Outbox
from overlay.settings import CoreSettings
from overlay.timers import Timers

if TYPE_CHECKING:
    from overlay.clients.client import Client

Granted = Callable[[int], tuple[Filter, Filter]]  # by the number of the link


class Core:
    def __init__(self, name: str, incarnation: int, settings: CoreSettings, random: Random) -> None:
        self.name = name
        self.id = identify(name)
        self.incarnation = incarnation
        self.settings = settings
        self.random = random
        self.out = Outbox()
        self.timers = Timers()
        self.names: dict[int, str] = {self.id: name}  # of brokers; who publishes is in its advertisements
        self.links: dict[int, Link] = {}
        self.peers: dict[int, Peer] = {}
        self.soft_out: dict[int, Soft] = {}  # shortcuts that we dialled
        self.soft_in: dict[int, Soft] = {}  # and that others dialled to us
        self.clients: dict[int, Client] = {}  # by id
        self.numbered: dict[int, Client] = {}  # by session number, the ended ones too
        self.now = 0.0  # of the current burst, for what is called at its end
        self.dirty: dict[Session, None] = {}
        self.behaviours: list[Behaviour] = []
        self.ready = False  # synchronised with every neighbour known: clients are served
        self.report: dict[str, float] = {}  # the driver's last measurements
        self.refused: dict[str, int] = {}  # counters of what was not taken, by reason
        self.finished = False  # left the overlay: the driver may stop
        self.leave: Callable[[float], None] = self._stop
        self.drain: Callable[[float], None] = lambda now: None  # stop serving clients, before a restart
        self.granted: Granted | None = None  # what the key of a link may publish and ask; None: everything
        self.review: Callable[[float], None] = lambda now: None  # grants have changed
        self.forward: Callable[[Remote, Batch, int, float], None] | None = None
        self.accept: Callable[[Session, Publish, int, float], None] | None = None
        self.on_transport: Callable[[Link, float], None] | None = None
        self.on_untaken: Callable[[Link, float], None] | None = None  # a link ended before its greeting
        self.dispatch = Dispatch()
        self.on = self.dispatch.on
        self.on_greeting = self.dispatch.on_greeting
        self.on_command = self.dispatch.on_command
        self._work: deque[Callable[[float], bool]] = deque()
        self.session_numbers = count(1)
        self._serials = count((incarnation << 24) + 1)

    # --- put together -------------------------------------------------------------------------------

    def add(self, behaviour: Behaviour) -> None:
        self.behaviours.append(behaviour)
        behaviour.attach(self)

    def serial(self) -> int:
        """A number that this broker never gives twice, in no incarnation."""
        return next(self._serials)

    # --- inputs -------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        for behaviour in self.behaviours:
            behaviour.start(now)

    def reconfigure(self, settings: CoreSettings, now: float) -> None:
        """Other settings from now on. What brokers have told each other of themselves stays as it was."""
        assert settings.may_follow(self.settings)
        before, self.settings = self.settings, settings
        for behaviour in self.behaviours:
            behaviour.reconfigured(before, now)

    def link_up(self, number: int, peer: str, kind: Kind, now: float, dial: int = 0) -> None:
        link = self.links[number] = Link(number, peer, kind, dial, now)
        if self.on_transport is not None:
            self.on_transport(link, now)

    def link_down(self, number: int, now: float) -> None:
        if (link := self.links.pop(number, None)) is None:
            return
        if link.session is not None and link.session.link is link:
            self.suspend(link.session, now)
        elif link.session is None and self.on_untaken is not None:
            self.on_untaken(link, now)

    def publications(self, number: int, batch: Batch | Publish, now: float) -> None:
        if (link := self.links.get(number)) is None:
            return
        link.heard_at = now
        session = link.session
        if session is None or session.epoch != batch.epoch:
            self.send(Reset(), link)
        elif isinstance(batch, Batch) is not isinstance(session, Remote):
            self.refuse("kind")
        elif (repeated := session.incoming.take(batch.first, len(batch.publications))) < 0:
            self.refuse("position")
            self.send(Reset(), link)
        elif isinstance(batch, Batch) and isinstance(session, Remote):
            if not session.out.marked(batch.received, batch.settled, batch.credit):
                self.refuse("marks")
            session.touch()
            assert self.forward is not None
            self.forward(session, batch, repeated, now)
        else:
            assert self.accept is not None and isinstance(batch, Publish)
            self.accept(session, batch, repeated, now)

    def receive(self, number: int, message: Message, now: float) -> None:
        if (link := self.links.get(number)) is None:
            return
        link.heard_at = now
        kind = message.kind
        if (greeting := self.dispatch.greetings.get(kind)) is not None:
            greeting(link, message, now)
        elif isinstance(message, Command):
            self.dispatch.command(message.verb)(link, message, now)
        elif link.session is None:
            self.send(Reset(), link)
        elif kind == Marks.kind:
            link.session.take_marks(message)  # type: ignore[arg-type]
        elif (handler := self.dispatch.handler(kind, link.session.kind)) is not None:
            handler(link.session, message, now)
        else:
            self.refuse("kind")

    def writable(self, number: int, now: float) -> None:
        if (link := self.links.get(number)) is not None and link.session is not None:
            link.session.writable = True
            link.session.touch()

    def blocked(self, number: int) -> None:
        """The transport takes no more for this link until `writable`."""
        if (link := self.links.get(number)) is not None and link.session is not None:
            link.session.writable = False

    def measured(self, report: dict[str, float], now: float) -> None:
        self.report = report

    def tick(self, now: float) -> None:
        self.timers.run(now)

    def next_deadline(self) -> float | None:
        return self.timers.next()

    def work(self, now: float) -> bool:
        """One bounded piece of deferred work; True while some is left."""
        if self._work and not self._work[0](now):
            self._work.popleft()
        self._work.rotate(-1)
        return bool(self._work)

    def flush(self, now: float) -> Outbox:
        """End a burst: everything that is to leave is in the outbox. The driver clears it."""
        self.now = now
        while self.dirty:
            dirty, self.dirty = self.dirty, {}
            for session in dirty:
                session.flush()
                if session.link is None and isinstance(session, Peer) and not session.held:
                    # What is held for a leaver's heirs is not waiting for it: it is handed on soon.
                    if session.out.unsettled >= self.settings.links.window:
                        self.lose(session, now)
        return self.out

    # --- for behaviours -----------------------------------------------------------------------------

    def send(self, message: Message, *links: Link) -> None:
        self.out.sends.append((message, tuple(link.number for link in links)))

    def tell(self, message: Message, *sessions: Session) -> None:
        """Send to those of the sessions that have a link."""
        links = tuple(session.link.number for session in sessions if session.link is not None)
        if links:
            self.out.sends.append((message, links))

    def defer(self, piece: Callable[[float], bool]) -> None:
        """Have `piece(now)` called until it returns False, one bounded step at a time."""
        self._work.append(piece)

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def note(self, now: float, text: str) -> None:
        """A line for the broker's log."""
        self.out.logs.append(Event(now, "note", "", 0, "", (), 0, 0, False, text))

    def close(self, link: Link) -> None:
        """Give a link up; what remains of its session is the caller's business."""
        self.links.pop(link.number, None)
        self.out.closes.append(link.number)

    def suspend(self, session: Session, now: float) -> None:
        """The session's link is gone. Tables and retention stay; who waits for an answer goes on without."""
        session.link = None
        session.writable = True
        for gather in list(session.gathers):
            gather.lose(session, now)
        for behaviour in self.behaviours:
            behaviour.link_down(session, now)

    def lose(self, session: Session, now: float) -> None:
        """Give the session up: its positions end as cut, its tables go."""
        if session.lost:
            return
        if (link := session.link) is not None:
            self.suspend(session, now)
            self.close(link)
        session.lost = True
        if session.lost_timer is not None:
            session.lost_timer.cancel()
        session.out.give_up()
        session.incoming.new_epoch()
        for behaviour in self.behaviours:
            behaviour.link_lost(session, now)

    def _stop(self, now: float) -> None:
        self.finished = True

    def status(self) -> Status:
        return {behaviour.name: behaviour.status() for behaviour in self.behaviours if behaviour.name}

    def validate(self) -> None:
        for behaviour in self.behaviours:
            behaviour.validate()
