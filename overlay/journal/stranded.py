"""Durable publications whose way was cut by a lost link: they are routed again, oldest first, as a whole.

Custody has them. After a while everything of that publisher that is in custody goes out once more, marked as
sent before; where it was delivered it is recognised. What is cut again is stranded again, and what was
stranded meanwhile is not covered by it. An overlay that knows whom they were owed to says when it is time.

Until then nothing newer of that publisher leaves: behind a side that has come back it would be
there first, and the older ones could never be delivered in their order. An overlay that keeps newer ones from
those alone who lack an older one sees to that itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from grapevine.wire.messages import CUT_LINK_LOST, CUT_ROTTEN, RESENT, Publication
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Keep
from overlay.journal.bodies import Source
from overlay.journal.custody import Held
from overlay.journal.journal import Journal
from overlay.links.settling import Settling

EVERYTHING = 1 << 64  # nothing is left in custody: there is no later number to wait for


class Entered(Protocol):
    """Where a publisher's publications enter the overlay."""

    keep: Keep | None

    def send_again(
        self, side: Client, run: list[Publication], source: Source, record: Settling, now: float
    ) -> None: ...


class Again(Settling):
    """A replay under way: when all of it is settled the stranded ones are."""

    __slots__ = ("replay", "source", "up_to")
    again = lasting = True

    def __init__(self, replay: Replay, source: Source, up_to: int) -> None:
        super().__init__(None)  # it takes no position of anybody's
        self.replay = replay
        self.source = source
        self.up_to = up_to  # the last number that is part of it
        self.pending = 1  # while it is being handed out

    def release(self) -> None:
        super().release()
        if not self.pending:
            cut = any(cut.reason == CUT_LINK_LOST for cut in self.cuts)
            self.replay.finish(self.source, None if cut else self.up_to)


class Replay:
    """`done(source, up_to)` when what was stranded of a publisher, up to this number, is settled; it says
    whether something is stranded still."""

    def __init__(self, core: Core, journal: Journal, path: Entered) -> None:
        self.core = core
        self.journal = journal
        self.path = path
        self.done: Callable[[Source, int], bool] = lambda source, up_to: False
        # Whether all that were owed it can be reached again, as far as the overlay knows.
        self.is_time: Callable[[Source], bool] = lambda source: True
        self.sides: dict[Source, Client] = {}  # those who have something stranded
        self._under_way: set[Source] = set()
        self._again: set[Source] = set()  # something was stranded since the replay under way has begun
        self._held_back: dict[Source, list[Publication]] = {}  # newer than what is stranded, in order
        self.holds_back = True  # newer ones, until it has been sent again
        self.replayed = 0

    def strand(self, source: Source, side: Client) -> None:
        """Something of this publisher is stranded."""
        if source in self._under_way:
            self._again.add(source)
        if source not in self.sides:
            self.sides[source] = side
            self._plan(source)

    def holds(self, source: Source) -> bool:
        """Whether newer ones of this publisher have to wait."""
        if not self.holds_back:
            return False
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
        written = all(held.position + held.items - 1 <= self.journal.persisted for held in pieces)
        if not self.core.ready or not written or not self.is_time(source):
            self._plan(source)
            return
        self._under_way.add(source)
        run = [p for held in pieces for p in self._read(held, now) if p.sequence < newer]
        run += self._held_back.pop(source, [])
        record = Again(self, source, max((p.sequence for p in run), default=EVERYTHING))
        self.replayed += len(run)
        self.path.send_again(side, run, source, record, now)
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

    def finish(self, source: Source, up_to: int | None) -> None:
        """None: something was cut again."""
        self._under_way.discard(source)
        meanwhile = source in self._again and self.holds_back
        self._again.discard(source)
        if up_to is None or meanwhile or self.done(source, up_to):
            self._plan(source)
        else:
            self.sides.pop(source, None)
