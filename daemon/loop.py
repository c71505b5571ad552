"""The driver: one thread around the core.

A turn: poll until the next deadline, read a bounded number of frames from every socket that has some,
tick, one piece of deferred work, flush once, act on the outbox in the order journal, opens, sends,
batches, logs, closes. Nothing in a turn waits for anybody; a socket that takes no more keeps its frames
waiting and the core informed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import zmq

from daemon.clock import Clock
from daemon.journal import JournalThread
from daemon.logs import log
from daemon.receiving import Receiver
from daemon.records import Records
from daemon.sending import Sender
from daemon.sockets import Sockets
from daemon.watch import Watch
from daemon.wires import Wire, Wires
from overlay.core import Core
from overlay.links.session import Kind
from overlay.outbox import Event, Open, Outbox

IDLE_S = 0.5  # the longest sleep
RETRY_S = 0.002  # between two attempts to send what a socket did not take
SWEEP_S = 5.0
WEIGH_BYTES = 2 * 1024 * 1024  # sent, before those under way are counted, and for each wire so many more
WEIGH_EACH_BYTES = 4096
JOURNAL_S = 1.0  # between two looks whether the journal's disk answers
ADMIN_IDLE_S = 60.0  # an administrator's link is forgotten after this silence


class Fatal(Exception):
    """The core cannot go on; its text says why."""


class Loop:
    def __init__(
        self,
        core: Core,
        clock: Clock,
        watch: Watch,
        sockets: Sockets,
        wires: Wires,
        sender: Sender,
        receiver: Receiver,
        records: Records,
        log_events: Callable[[list[Event]], None],
        journal: JournalThread | None = None,
    ) -> None:
        self.core = core
        self.clock = clock
        self.watch = watch
        self.sockets = sockets
        self.wires = wires
        self.sender = sender
        self._weighed = 0  # bytes that had been sent when those under way were last counted
        self.receiver = receiver
        self.records = records
        self.log_events = log_events
        self.journal = journal
        self.stuck_s = 30.0  # a disk that takes longer for one group is taken for broken
        self.busy_s = 0.0
        self.turns = 0
        self.slowest_turn_s = 0.0
        self._calls: list[Callable[[float], float]] = []
        self._due: list[float] = []
        self._attempts: dict[tuple[str, ...], int] = {}
        self._unknown: set[str] = set()  # addresses whose key is missing, each said once
        self._eager = False  # something is left to do: do not sleep
        self.at_intervals(self._sweep)
        self.at_intervals(receiver.review)
        if journal is not None:
            watch.add(journal.eventfd, self._read_journal)
            self.at_intervals(self._watch_journal)

    def at_intervals(self, call: Callable[[float], float]) -> None:
        """`call(now)` returns when it is due again."""
        self._calls.append(call)
        self._due.append(0.0)

    def call_all_soon(self) -> None:
        """What is called at intervals is called in the next turn."""
        self._due = [0.0] * len(self._due)

    # --- a turn ----------------------------------------------------------------------------------

    def turn(self) -> None:
        sources = self.watch.wait(self._timeout_ms())
        began = perf_counter()
        now = self.clock()
        self._eager = self.watch.read(sources, now)
        self.core.tick(now)
        if self.core.work(now):
            self._eager = True
        if self.wires.backlogged and self.sender.retry(now):
            self._eager = True
        self._call_due(now)
        self._act(self.core.flush(now), now)
        if self.wires.gone:
            self._bury(now)
        self.turns += 1
        spent = perf_counter() - began
        self.busy_s += spent
        if spent > self.slowest_turn_s:
            self.slowest_turn_s = spent

    def _timeout_ms(self) -> int:
        if self._eager or self.core.out:
            return 0
        now = self.clock()
        sleep = min(IDLE_S, min(self._due) - now)
        deadline = self.core.next_deadline()
        if deadline is not None:
            sleep = min(sleep, deadline - now)
        if self.wires.backlogged:
            sleep = min(sleep, RETRY_S)
        return 0 if sleep <= 0 else int(sleep * 1000) + 1

    def _call_due(self, now: float) -> None:
        for index, due in enumerate(self._due):
            if now >= due:
                self._due[index] = self._calls[index](now)

    def _act(self, out: Outbox, now: float) -> None:
        """Calls into the core on the way (a peer is gone, a link is up) fill the lists for the next turn."""
        if not out:
            return
        if out.journal:
            self.records.write(out.journal)
        if out.appends:
            assert self.journal is not None
            self.journal.put(out.appends)
        for wanted in out.opens:
            self._open(wanted, now)
        if out.sends:
            self.sender.send_all(out.sends)
        if out.batches:
            self.sender.send_batches(out.batches, out.chunks)
            if self.sender.bytes - self._weighed > max(WEIGH_BYTES, WEIGH_EACH_BYTES * len(self.wires)):
                self._weighed = self.sender.bytes
                self.core.weigh()
        if out.logs:
            self.log_events(out.logs)
        for number in out.closes:
            if (wire := self.wires.by_number.get(number)) is not None:
                self.wires.drop(wire)
        fatal = out.fatal
        out.clear()
        if fatal:
            raise Fatal(fatal)

    # --- the journal -----------------------------------------------------------------------------

    def _read_journal(self, now: float) -> bool:
        """What the journal's thread has written since."""
        journal = self.journal
        assert journal is not None
        for written in journal.take():
            self.core.persisted(*written, now)
        while journal.holes:
            hole = journal.holes.popleft()
            log.error("the journal has rotted at positions %d to %d", hole.first, hole.last)
            self.core.rotten(hole.first, hole.last, now)
        if journal.failed:
            raise Fatal(f"the journal cannot go on: {journal.failed}")
        return False

    def _watch_journal(self, now: float) -> float:
        journal = self.journal
        assert journal is not None
        if journal.stuck_s() > self.stuck_s:
            raise Fatal(f"the journal's disk has not answered for {self.stuck_s:.0f} s")
        return now + JOURNAL_S

    # --- links -----------------------------------------------------------------------------------

    def _open(self, wanted: Open, now: float) -> None:
        attempt = self._attempts.get(wanted.addresses, 0)
        address = wanted.addresses[attempt % len(wanted.addresses)]
        self._attempts[wanted.addresses] = attempt + 1  # the next attempt takes the next address
        try:
            dealer, key = self.sockets.dial(address)
        except LookupError as error:
            if address not in self._unknown:
                self._unknown.add(address)
                log.warning("%s", error)
            return
        self._unknown.discard(address)
        wire = self.wires.dialled(dealer, address, self.receiver.drain_dealer, self._broken, now)
        wire.user = key
        try:
            dealer.connect(address)
        except zmq.ZMQError as error:
            log.warning("cannot dial %s: %s", address, error.strerror)
        self.core.link_up(wire.number, address, Kind.PEER, now, dial=wanted.dial)

    def _broken(self, wire: Wire, now: float) -> None:
        self.wires.drop(wire)
        self.core.link_down(wire.number, now)

    def _bury(self, now: float) -> None:
        """Tell the core of the links that sending found dead."""
        for wire in list(self.wires.gone):
            self._broken(wire, now)
            self._eager = True

    def _sweep(self, now: float) -> float:
        """Links that the core does not know, and administrators who went away without a word."""
        for wire in list(self.wires):
            if wire.kind is Kind.ADMIN and now - wire.heard_at > ADMIN_IDLE_S:
                self.core.link_down(wire.number, now)
            if wire.number not in self.core.links:
                self.wires.drop(wire)
        return now + SWEEP_S
