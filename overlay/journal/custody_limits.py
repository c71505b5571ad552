"""Custody has limits (DP-D2): what could not be delivered for too long, or takes too much disk, ends as
*expired*.

The oldest goes first, a piece at a time and each publisher's in order. Nothing that is under way ends so: a
link that stands still is given up long before, and what was on it is stranded. When a piece was accepted is
known within a sweep by its position; of what a former life has left, the publication itself says it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.journal.bodies import Source
from overlay.journal.custody import Held
from overlay.journal.holding import Holding
from overlay.journal.journal import Journal
from overlay.journal.stand_in import StandIns
from overlay.settings import CoreSettings

SWEEP_S = 30.0


class CustodyLimits(Quiet):
    name = "custody-limits"
    after = ("Journal", "Holding", "StandIns")

    def __init__(self, journal: Journal, holding: Holding, stand_ins: StandIns) -> None:
        self.journal = journal
        self.holding = holding
        self.stand_ins = stand_ins
        self.settings = journal.settings
        self.expired = 0  # publications
        self._born = journal.next  # what lies before was accepted in a former life
        self._positions: list[int] = []  # the next one at each sweep,
        self._times: list[float] = []  # and when that was
        self._accepted_at: dict[int, float] = {}  # of pieces of a former life, by position

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        self.core.timers.at(now + SWEEP_S, self._sweep)

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        self.settings = self.core.settings.journal

    # --- what is past them ----------------------------------------------------------------------------

    def _sweep(self, now: float) -> None:
        if self.journal.contents.custody.items:
            self._positions.append(self.journal.next)
            self._times.append(now)
        else:
            self._positions.clear()
            self._times.clear()
        for source, held in list(self._too_old(now)):
            self._expire(source, held, "age", now)
        self._too_large(now)
        self.core.timers.at(now + SWEEP_S, self._sweep)

    def _too_old(self, now: float) -> Iterator[tuple[Source, Held]]:
        oldest = now - self.settings.custody_s
        place = bisect_right(self._times, oldest)
        before = self._positions[place - 1] if place else 0
        del self._times[: place - 1], self._positions[: place - 1]
        heads: dict[int, float] = {}
        for source, pieces in self.journal.contents.custody.held.items():
            for held in pieces:
                if held.position >= before and not self._old(held, oldest, heads):
                    break
                yield source, held
        self._accepted_at = heads

    def _old(self, held: Held, oldest: float, heads: dict[int, float]) -> bool:
        if held.position >= self._born:
            return False
        at = self._accepted_at.get(held.position)
        if at is None:
            reads = self.journal.reader.read(held.position, 1)
            at = next((read.publications[0].accepted_at for read in reads if read.publications), oldest)
        heads[held.position] = at
        return at < oldest

    def _too_large(self, now: float) -> None:
        """By the average of what this broker has lately written."""
        custody = self.journal.contents.custody
        surplus = custody.items - int(self.settings.custody_bytes / self.journal.average_bytes)
        if surplus <= 0:
            return
        oldest = sorted((held.position, source, held) for source in custody for held in custody.held[source])
        for _, source, held in oldest:
            if surplus <= 0:
                return
            if self._expire(source, held, "bytes", now):
                surplus -= held.items

    def _expire(self, source: Source, held: Held, limit: str, now: float) -> bool:
        pieces = self.journal.contents.custody.held.get(source)
        if not pieces or pieces[0] != held:
            return False  # an older one of this publisher is under way
        if not self.holding.expire(source, held, now) and not self.stand_ins.skip(source, held):
            return False
        self.expired += held.items
        numbers = {"publisher": f"{source[0]:016x}", "first": held.first, "last": held.last}
        text = f"durable publications {held.first} to {held.last} of publisher {source[0]:016x} have expired"
        self.core.note(now, f"{text} ({limit})")
        self.core.event(now, "custody.expired", text, "bad", **numbers, limit=limit)
        self.journal.settle(source, held.last, now)
        return True

    def status(self) -> Status:
        return {"expired": self.expired}
