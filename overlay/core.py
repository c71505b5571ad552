"""The broker as a deterministic object: messages, commands, measurements and the time go in, an outbox
comes out.

The core knows links and sessions (`lifecycle`), what a broker says (`outputs`), timers and who handles which
message; it knows no overlay. Behaviours own their tables and message kinds; `profiles` alone puts them
together. One thread touches a core, and nothing in it reads a clock, draws an unseeded number or opens
anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from grapevine.filters.normal import Filter
from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    PROTOCOL,
    Batch,
    Command,
    HomeBatch,
    LaneBatch,
    LaneMarks,
    Marks,
    Message,
    Publish,
    Reset,
)
from overlay.assembly import Slot, check_order
from overlay.behaviour import Behaviour, Status
from overlay.dispatch import Dispatch
from overlay.lifecycle import Lifecycle
from overlay.links.lane import Lane
from overlay.links.session import Remote, Session
from overlay.outbox import Kept, Outbox
from overlay.settings import CoreSettings
from overlay.timers import Timers

if TYPE_CHECKING:
    from overlay.journal.journal import Journal

Granted = Callable[[int], tuple[Filter, Filter]]  # by the number of the link

LANED = (LaneBatch, HomeBatch)  # batches that name their lane


class Core(Lifecycle):
    def __init__(self, name: str, incarnation: int, settings: CoreSettings, random: Random) -> None:
        super().__init__()
        self.name = name
        self.id = identify(name)
        self.incarnation = incarnation
        self.protocol = PROTOCOL  # the newest that we speak
        self.settings = settings
        self.random = random
        self.timers = Timers()
        self.names: dict[int, str] = {self.id: name}  # of brokers; who publishes is in its advertisements
        self.started_at = 0.0
        self.now = 0.0  # of the current burst, for what is called at its end
        self.dirty: dict[Lane, None] = {}
        self.journal: Journal | None = None  # without one nothing is ever persisted
        self.ready = False  # synchronised with every neighbour known: clients are served
        self.report: dict[str, float] = {}  # the driver's last measurements
        self.effort_s = 0.0  # what was done so far, reckoned by who can: a simulated host takes that long
        self.leaving = False  # the overlay: takes nobody new
        self.finished = False  # left the overlay: the driver may stop
        self.leave: Callable[[float], None] = self._stop
        self.drain: Callable[[float], None] = lambda now: None  # stop serving clients, before a restart
        self.granted: Granted | None = None  # what the key of a link may publish and ask; None: everything
        self.may_connect: Callable[[str], bool] = lambda key: True  # whether a key is still let in
        self.review: Callable[[float], None] = lambda now: None  # grants have changed
        self.forward: Slot[Callable[[Lane, Batch, int, float], None]] = Slot("forward")
        self.accept: Slot[Callable[[Session, Publish, int, float], None]] = Slot("accept")
        self.dispatch = Dispatch()
        self.on = self.dispatch.on
        self.on_greeting = self.dispatch.on_greeting
        self.on_command = self.dispatch.on_command
        self._work: deque[Callable[[float], bool]] = deque()
        self.last_serial = incarnation << 24

    # --- put together -------------------------------------------------------------------------------

    def assemble(self, behaviours: Sequence[Behaviour]) -> None:
        """All of them, in the order in which they hear of sessions."""
        check_order(behaviours)
        for behaviour in behaviours:
            self.add(behaviour)

    def add(self, behaviour: Behaviour) -> None:
        self.behaviours.append(behaviour)
        behaviour.attach(self)

    def serial(self) -> int:
        """A number that this broker never gives twice, in no incarnation."""
        self.last_serial += 1
        return self.last_serial

    # --- inputs -------------------------------------------------------------------------------------

    def restore(self, kept: Kept) -> None:
        """What an earlier life of this broker has kept; before `start`."""
        for behaviour in self.behaviours:
            if behaviour.keeps:
                behaviour.restore(kept.get(behaviour.keeps, {}))

    def start(self, now: float) -> None:
        self.started_at = now
        self.event(now, "started", f"{self.name} started", incarnation=self.incarnation)
        for behaviour in self.behaviours:
            behaviour.start(now)

    def reconfigure(self, settings: CoreSettings, now: float) -> None:
        """Other settings from now on. What brokers have told each other of themselves stays as it was."""
        assert settings.may_follow(self.settings)
        before, self.settings = self.settings, settings
        for behaviour in self.behaviours:
            behaviour.reconfigured(before, now)

    def publications(self, number: int, batch: Batch | Publish, now: float) -> None:
        if (link := self.links.get(number)) is None:
            return
        link.heard_at = now
        session = link.session
        if session is None or session.epoch != batch.epoch:
            self.send(Reset(), link)
        elif isinstance(batch, Batch) is not isinstance(session, Remote):
            self.refuse("kind")
        elif (lane := session.lane(batch.lane) if isinstance(batch, LANED) else session) is None:
            self.refuse("lane")
        elif (repeated := lane.incoming.take(batch.first, len(batch.publications))) < 0:
            self.refuse("position")
            self.send(Reset(), link)
        elif isinstance(batch, Batch):
            if not lane.out.marked(batch.received, batch.settled, batch.credit):
                self.refuse("marks")
            lane.touch()
            self.forward.call(lane, batch, repeated, now)
        else:
            self.accept.call(session, batch, repeated, now)

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
        elif message.gate.since > self.protocol:
            self.refuse("newer")
        elif isinstance(message, LaneMarks):
            if (lane := link.session.lane(message.lane)) is not None:
                lane.take_marks(message)
        elif (handler := self.dispatch.handler(message, link.session.kind)) is not None:
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

    def weigh(self) -> None:
        """Much has been sent since the last time: whoever has too many bytes under way gets no more."""
        for link in self.links.values():
            if link.session is not None:
                for lane in link.session.every_lane():
                    lane.out.weigh()

    def persisted(self, done: int, refused: list[tuple[int, int]], room: bool, now: float) -> None:
        """The journal is on disk up to `done`, but for what found no room; `room`: there is enough again."""
        self.now = now
        if self.journal is not None:
            self.journal.written(done, refused, room, now)

    def rotten(self, first: int, last: int, now: float) -> None:
        """These positions of the journal cannot be read any more."""
        self.now = now
        if self.journal is not None:
            self.journal.rotten(first, last, now)

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
        if self.journal is not None:
            self.journal.gather(now)
        while self.dirty:
            dirty, self.dirty = self.dirty, {}
            for lane in dirty:
                lane.flush()
        return self.out

    # --- for behaviours -----------------------------------------------------------------------------

    def defer(self, piece: Callable[[float], bool]) -> None:
        """Have `piece(now)` called until it returns False, one bounded step at a time."""
        self._work.append(piece)

    def _stop(self, now: float) -> None:
        self.finished = True

    def status(self) -> Status:
        return {behaviour.name: behaviour.status() for behaviour in self.behaviours if behaviour.name}

    def validate(self) -> None:
        for behaviour in self.behaviours:
            behaviour.validate()
