"""A second copy of what is in custody, at this broker's *keeper*: its parent, or of a root its lowest
neighbour (DP-D3). A publication counts as persisted when it is on both disks.

Copies are given in rounds. A round begins whenever the link to the keeper is another, or the keeper is: what
is in custody goes first, in the order of the journal, then what comes; so a position that the keeper has
acknowledged covers all before it. When all of the custody is there the round is complete, which both sides
write down: of several that have kept for this broker the one with the newest complete round has everything.

Without a keeper nothing counts as persisted, or, not strict, what is on this disk alone, with a warning.
What a restart changes: regaining.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from grapevine.wire import encode_publications
from grapevine.wire.keeping import (
    KEEP_ASK,
    KEEP_DROP,
    KEEP_FREE,
    Keep,
    KeepOrder,
    Kept,
    KeptPublisher,
    KeptUpTo,
)
from grapevine.wire.messages import CUT_ROTTEN, Publication
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.journal.bodies import Advert, KeeperBody, Source, encode_body
from overlay.journal.custody import Held
from overlay.journal.holding import Holding, OnTwoDisks
from overlay.journal.journal import Journal
from overlay.journal.record import KEEPER
from overlay.journal.regaining import SERIAL_BITS, Regaining, introduction
from overlay.journal.stand_in import StandIns
from overlay.links.session import Kind, Link, Session

LOOK_S = 0.5
FREE_S = 0.2  # what is settled waits so long for more
PIECE_BYTES = 256 * 1024  # in one message
WINDOW_BYTES = 8 * 1024 * 1024  # under way to the keeper
BACKLOG = 4_096  # records; then those that have settled meanwhile are left out
FREED_MOST = 4_096  # publishers in one message
LATE_S = 5.0  # without a copy for so long is worth an event


class Piece(NamedTuple):
    """What goes to the keeper next: read from disk, or still in memory."""

    last: int  # position
    held: Held | None
    publications: list[Publication]


class Round:
    """Copies given over one link."""

    def __init__(self, number: int, session: Session, link: Link) -> None:
        self.number = number
        self.session = session
        self.link = link
        self.backlog: deque[Piece] = deque()
        self.sent: deque[tuple[int, int]] = deque()  # position, bytes
        self.bytes = 0  # under way
        self.said = self.complete = False
        self.introduced: dict[Source, Advert] = {}


class Copying(Quiet):
    name = "copies"
    after = ("Journal", "Holding")
    before = ("StandIns",)

    def __init__(self, journal: Journal, holding: Holding, stand_ins: StandIns, reported_loss: bool) -> None:
        self.journal = journal
        self.holding = holding
        self.stand_ins = stand_ins
        self.settings = journal.settings
        self.choose: Callable[[], Session | None] = lambda: None  # the keeper, by the overlay
        self.round: Round | None = None
        self.kept = 0  # all that is in custody up to this position is at the keeper
        self.complete = 0  # the newest round
        self._reported_loss = reported_loss
        self._noted = 0  # the last position of the last drain
        self._open: list[OnTwoDisks] = []  # of this drain
        self._waits: deque[tuple[int, OnTwoDisks]] = deque()
        self._unwritten: deque[Piece] = deque()  # not on this disk yet
        self._freed: dict[Source, int] = {}
        self._free_due = False
        self._told_late = False
        self._refused_until = 0.0  # the keeper has no room
        self._heard: dict[Session, Link | None] = {}  # who has said what it keeps, and on which link
        self._last_round = 0
        self.regaining = Regaining(journal, holding, stand_ins, self._regained)
        self._late_at = 0  # the first position that waits,
        self._late_since = 0.0  # and since when
        if self.on:
            holding.copying = self
            journal.second = self
            stand_ins.in_doubt = lambda: self.regaining.doubt

    @property
    def on(self) -> bool:
        return self.settings.copies == 2

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        """Before stand-ins begin: whom to ask, and since which life this journal has everything."""
        if not self.on:
            return
        self.core.timers.at(now + LOOK_S, self._look_again)
        self.kept = 0 if self.journal.contents.custody.items else self.journal.next - 1
        self.regaining.start(self.core, self._reported_loss)

    def reconfigured(self, before: object, now: float) -> None:
        self.settings = msgspec.structs.replace(self.core.settings.journal, copies=self.settings.copies)

    # --- what is to be kept -------------------------------------------------------------------------

    def wait(self, waiter: OnTwoDisks) -> None:
        self._open.append(waiter)

    def part(self, last: int, publications: list[Publication]) -> None:
        piece = Piece(last, None, publications)
        self._unwritten.append(piece)
        if (round := self.round) is not None:
            round.backlog.append(piece)
            if len(round.backlog) > BACKLOG:
                self._prune(round)

    def gathered(self, last: int) -> None:
        """The end of a drain."""
        self._noted = last
        if self._open:
            self._waits.extend((last, waiter) for waiter in self._open)
            self._open = []
        while self._unwritten and self._unwritten[0].last <= self.journal.persisted:
            self._unwritten.popleft()
        if self.round is not None:
            self._send(self.round)
        if self._waits:
            self.look()

    def freed(self, source: Source, sequence: int) -> None:
        if self.round is not None and source not in self.journal.contents.custody.held:
            self.round.introduced.pop(source, None)
        self._freed[source] = sequence
        if not self._free_due:
            self._free_due = True
            self.core.timers.at(self.core.now + FREE_S, self._free)

    def _free(self, now: float) -> None:
        self._free_due = False
        freed, self._freed = self._freed, {}
        if self.round is not None and freed:
            marks = [KeptUpTo(*source, sequence) for source, sequence in freed.items()]
            for start in range(0, len(marks), FREED_MOST):
                order = KeepOrder(KEEP_FREE, settled=tuple(marks[start : start + FREED_MOST]))
                self.core.tell(order, self.round.session)

    def look(self) -> None:
        """Tell those who have waited long enough."""
        kept, waits = self.kept, self._waits
        if self._alone:
            kept = self.journal.persisted
        while waits and waits[0][1].written and (waits[0][0] <= kept or waits[0][1].over):
            waits.popleft()[1].tell()

    @property
    def _alone(self) -> bool:
        """Nobody keeps, and that is no reason to wait."""
        return self.round is None and not self.settings.copies_strict

    # --- rounds -------------------------------------------------------------------------------------

    def _look_again(self, now: float) -> None:
        self._choose(now)
        self._note_late(now)
        if self.regaining.doubt and self.core.ready:
            self.regaining.ask(now)
        self.look()
        self.core.timers.at(now + LOOK_S, self._look_again)

    def _choose(self, now: float) -> None:
        keeper, round = self.choose(), self.round
        if round is not None and (round.session is not keeper or round.session.link is not round.link):
            round = self.round = None
        if round is None and keeper is not None and keeper.link is not None:
            if (
                self._heard.get(keeper) is keeper.link
                and now >= self._refused_until
                and not self.regaining.waiting
            ):
                self._begin(keeper, keeper.link)

    def _regained(self, session: Session | None) -> None:
        """What a former life had is known, or this neighbour has given it back."""
        if session is not None:
            self._heard[session] = session.link
        self._choose(self.core.now)

    def renew(self) -> None:
        """There is more in custody than what was given."""
        self.round = None

    def _begin(self, keeper: Session, link: Link) -> None:
        incarnation = self.core.incarnation << SERIAL_BITS
        number = max(self.complete, incarnation, self._last_round) + 1
        self._last_round = number
        round = self.round = Round(number, keeper, link)
        persisted = self.journal.persisted
        pieces = [
            Piece(held.position + held.items - 1, held, [])
            for held_of_one in self.journal.contents.custody.held.values()
            for held in held_of_one
            if held.position + held.items - 1 <= persisted
        ]
        round.backlog.extend(sorted(pieces, key=lambda piece: piece.last))
        round.backlog.extend(piece for piece in self._unwritten if piece.last > persisted)
        self._free_others(keeper)
        self._send(round)

    def _free_others(self, keeper: Session) -> None:
        """What the keeper has of publishers that have nothing in custody is settled: this journal has all."""
        held = self.journal.contents.custody.held
        if len(held) <= FREED_MOST:
            marks = tuple(KeptUpTo(*source, max(pieces[0].first - 1, 0)) for source, pieces in held.items())
            self.core.tell(KeepOrder(KEEP_FREE, settled=marks, only=True), keeper)

    def _send(self, round: Round) -> None:
        while round.backlog and round.bytes < WINDOW_BYTES:
            last, publications, size = 0, [], 0
            while round.backlog and size < PIECE_BYTES:
                piece = round.backlog.popleft()
                last = piece.last
                found = self._in_custody(piece.publications or self._read(piece.held))
                publications += found
                size += sum(len(p.payload) + len(p.attributes) for p in found)
            if publications:
                self._say(round, last, publications)
        if not round.backlog and not round.said:
            round.said = True
            self._say(round, self._noted, [], complete=True)
        self._all_covered(round)

    def _say(
        self, round: Round, position: int, publications: list[Publication], complete: bool = False
    ) -> None:
        encoded = bytes(encode_publications(publications))
        sources = dict.fromkeys((p.publisher, p.incarnation) for p in publications)
        round.sent.append((position, len(encoded)))
        round.bytes += len(encoded)
        keep = Keep(round.number, position, encoded, self._introductions(round, sources), complete)
        self.core.send(keep, round.link)

    def _introductions(self, round: Round, sources: Iterable[Source]) -> tuple[KeptPublisher, ...]:
        found = []
        for source in sources:
            advert = self.journal.contents.adverts.get(source)
            if advert is not None and round.introduced.get(source) != advert:
                round.introduced[source] = advert
                found.append(introduction(advert))
        return tuple(found)

    def _read(self, held: Held | None) -> list[Publication]:
        found: list[Publication] = []
        for read in self.journal.reader.read(held.position, held.items) if held is not None else ():
            if read.publications is None:
                last = read.position + read.items - 1
                self.journal.lose(read.position, last, CUT_ROTTEN, self.core.now)
            else:
                found += read.publications
        return found

    def _in_custody(self, publications: list[Publication]) -> list[Publication]:
        custody = self.journal.contents.custody
        return [
            p
            for p in publications
            if (source := (p.publisher, p.incarnation)) in custody.held
            and p.sequence > custody.settled.get(source, 0)
        ]

    def _prune(self, round: Round) -> None:
        """What has settled meanwhile needs no copy."""
        round.backlog = deque(
            piece for piece in round.backlog if piece.held is not None or self._in_custody(piece.publications)
        )

    def _all_covered(self, round: Round) -> None:
        if round.complete and not round.backlog and not round.sent:
            self.kept = max(self.kept, self._noted)

    def acknowledged(self, session: Session, kept: Kept, now: float) -> None:
        """What a keeper says."""
        if not self.on:
            return
        if kept.answers:
            self._answered(session, kept, now)
            return
        round = self.round
        if round is None or session is not round.session or kept.round not in (0, round.number):
            return
        if not kept.room:  # or, of no round, it has lost some of them
            self.round = None
            self._refused_until = now + LATE_S if kept.round else now
            return
        while round.sent and round.sent[0][0] <= kept.position:
            round.bytes -= round.sent.popleft()[1]
        self.kept = max(self.kept, kept.position)
        if kept.complete and not round.complete:
            self._completed(round, now)
        self._send(round)
        self.look()

    def _completed(self, round: Round, now: float) -> None:
        round.complete = True
        self.complete = round.number
        since = self.journal.contents.keeper.since if self.journal.contents.keeper else self.core.incarnation
        body = KeeperBody(round.session.id, round.session.name, round.number, since)
        self.journal.keep(KEEPER, encode_body(body))
        self._ask_all()

    def _note_late(self, now: float) -> None:
        """Something waits for its copy for long, or does without."""
        held = self.journal.contents.custody.items
        alone = self._alone and bool(held)
        first = -1 if alone else self._waits[0][0] if self._waits and self._waits[0][1].written else 0
        if first != self._late_at:
            self._late_at, self._late_since = first, now
        if not first:
            if self._told_late and self.round is not None:
                self._told_late = False
                self.core.event(now, "copies.resumed", f"{self._keeper_name} keeps copies again")
        elif now - self._late_since > LATE_S and not self._told_late:
            self._told_late = True
            if alone:
                text = "nobody keeps copies: what is persisted is on this disk alone"
                self.core.event(now, "copies.alone", text, "warn")
            else:
                text = "nobody keeps copies: nothing durable counts as persisted"
                self.core.event(now, "copies.stopped", text, "bad")

    @property
    def _keeper_name(self) -> str:
        return self.round.session.name if self.round is not None else ""

    # --- neighbours ---------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        if self.on and session.kind is Kind.PEER:
            self.core.tell(KeepOrder(KEEP_ASK), session)

    def link_down(self, session: Session, now: float) -> None:
        self.regaining.link_down(session)
        if self.round is not None and self.round.session is session:
            self.round = None
            self.look()

    def link_lost(self, session: Session, now: float) -> None:
        self._heard.pop(session, None)

    def _ask_all(self) -> None:
        """Who has older copies is to drop them."""
        for peer in self.core.peers.values():
            if peer.link is not None and (self.round is None or peer is not self.round.session):
                self.core.tell(KeepOrder(KEEP_ASK), peer)

    def _answered(self, session: Session, kept: Kept, now: float) -> None:
        """What a neighbour has of ours."""
        if kept.items and self.regaining.lacks_of(kept.round, session):
            self.regaining.fetch(session)
            return
        self._heard[session] = session.link
        if kept.items and kept.round < self.complete and self._elsewhere(session):
            self.core.tell(KeepOrder(KEEP_DROP), session)
        self._choose(now)

    def _elsewhere(self, keeper: Session) -> bool:
        """Whether all of the custody is kept by another."""
        return self.round is not None and self.round.complete and self.round.session is not keeper

    # --- what it looks like -------------------------------------------------------------------------

    def status(self) -> Status:
        if not self.on:
            return {}
        return {
            "keeper": self._keeper_name,
            "complete": self.round is not None and self.round.complete,
            "waiting": len(self._waits),
            "late": self._told_late,
        }

    def validate(self) -> None:
        positions = [position for position, _ in self._waits]
        assert positions == sorted(positions)
