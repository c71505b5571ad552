"""Durable publications whose way was cut by a lost link: they are routed again, oldest first, as a whole.

Custody has them. After a while everything of that publisher that is in custody goes out once more, marked as
sent before; where it was delivered it is recognised. What is cut again is stranded again.

Until then nothing newer of that publisher leaves: behind a side that has come back it would be
there first, and the older ones could never be delivered in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from math import inf

from grapevine.wire.messages import CUT_LINK_LOST, CUT_ROTTEN, RESENT, Publication
from overlay.core import Core
from overlay.data.path import Publications, Used
from overlay.journal.bodies import Source
from overlay.journal.custody import Held
from overlay.journal.journal import Journal
from overlay.links.session import Session
from overlay.links.settling import Settling


class Again(Settling):
    """A replay under way: when all of it is settled the stranded ones are."""

    __slots__ = ("replay", "source")

    def __init__(self, side: Session, replay: Replay, source: Source) -> None:
        super().__init__(side.incoming)
        self.incoming = None  # it takes no position of anybody's
        self.replay = replay
        self.source = source
        self.pending = 1  # while it is being handed out

    def release(self) -> None:
        super().release()
        if not self.pending:
            cut = any(cut.reason == CUT_LINK_LOST for cut in self.cuts)
            self.replay.finish(self.source, cut)


class Replay:
    """`done(source)` when what was stranded of a publisher is settled."""

    def __init__(self, core: Core, journal: Journal, path: Publications) -> None:
        self.core = core
        self.journal = journal
        self.path = path
        self.done: Callable[[Source], None] = lambda source: None
        self.sides: dict[Source, Session] = {}  # those who have something stranded
        self._under_way: set[Source] = set()
        self._again: set[Source] = set()  # something was stranded since the replay under way has begun
        self._held_back: dict[Source, list[Publication]] = {}  # newer than what is stranded, in order
        self.replayed = 0

    def strand(self, source: Source, side: Session) -> None:
        """Something of this publisher is stranded."""
        if source in self._under_way:
            self._again.add(source)
        if source not in self.sides:
            self.sides[source] = side
            self._plan(source)

    def holds(self, source: Source) -> bool:
        """Whether newer ones of this publisher have to wait."""
        return source in self.sides and (source not in self._under_way or source in self._again)

    def hold_back(self, source: Source, publications: list[Publication]) -> None:
        self._held_back.setdefault(source, []).extend(publications)

    def _plan(self, source: Source) -> None:
        after_s = self.core.settings.links.lost_after_s
        self.core.timers.at(self.core.now + after_s, lambda now: self._begin(source, now))

    def _begin(self, source: Source, now: float) -> None:
        side = self.sides.get(source)
        if side is None or source in self._under_way:
            return
        held_back = self._held_back.get(source, [])
        newer = held_back[0].sequence if held_back else inf
        pieces = [held for held in self.journal.contents.custody.held.get(source, ()) if held.first < newer]
        if not self.core.ready or any(
            held.position + held.items - 1 > self.journal.persisted for held in pieces
        ):
            self._plan(source)
            return
        self._under_way.add(source)
        record = Again(side, self, source)
        used: Used = []
        runs = ([p for p in self._read(held, now) if p.sequence < newer] for held in pieces)
        for run in chain(runs, [self._held_back.pop(source, [])]):
            known = side.routes.at(self.path.local.generation)
            self.path.route_run(side, run, source, used, known, now)
            self.replayed += len(run)
        for session in dict.fromkeys(chain.from_iterable(used)):
            session.out.hold(record)
            session.touch()
        record.release()

    def _read(self, held: Held, now: float) -> list[Publication]:
        found: list[Publication] = []
        for read in self.journal.reader.read(held.position, held.items):
            if read.publications is None:
                self.journal.lose(read.position, read.position + read.items - 1, CUT_ROTTEN, now)
            else:
                found += read.publications
        for publication in found:
            publication.flags |= RESENT
        return found

    def finish(self, source: Source, cut: bool) -> None:
        self._under_way.discard(source)
        if cut or source in self._again:
            self._again.discard(source)
            self._plan(source)
        else:
            self.sides.pop(source, None)
            self.done(source)
