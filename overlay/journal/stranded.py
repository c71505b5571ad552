"""Durable publications whose way was cut by a lost link: they are routed again, oldest first, as a whole.

Custody has them. After a while everything of that publisher that is in custody goes out once more, marked as
a replay; where it was delivered it is recognised. What is cut again is stranded again, and what was stranded
meanwhile is not covered by it. An overlay that knows whom they were owed to says when it is time; one that
only knows that somebody is missing replays at once, and again when nobody is.

Until then nothing newer of that publisher leaves: behind a side that has come back it would be there first,
and the older ones could never be delivered in their order. An overlay that keeps newer ones from those alone
who lack an older one sees to that itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from msgspec.structs import replace

from grapevine.wire.messages import (
    CUT_LINK_LOST,
    CUT_OVERTAKEN,
    CUT_ROTTEN,
    REPLAYED,
    RESENT,
    Cut,
    Publication,
)
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Keep
from overlay.journal.bodies import Source
from overlay.journal.custody import Held
from overlay.journal.journal import Journal
from overlay.links.settling import Settling

EVERYTHING = 1 << 64  # nothing is in custody: there is no later number to wait for


class Entered(Protocol):
    """Where a publisher's publications enter the overlay."""

    keep: Keep | None

    def send_again(
        self, side: Client, run: list[Publication], source: Source, record: Settling, now: float
    ) -> None: ...


class Plan:
    """Of one publisher. `again`: something was stranded since its last replay began. `in_part`: somebody was
    missing then."""

    __slots__ = ("again", "in_part", "side", "tries", "under_way")

    def __init__(self, side: Client) -> None:
        self.side = side
        self.again = True
        self.in_part = self.under_way = False
        self.tries = 0


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
            stranded = any(cut.reason == CUT_LINK_LOST for cut in self.cuts)
            late = [cut for cut in self.cuts if cut.reason == CUT_OVERTAKEN]
            self.replay.finish(self.source, None if stranded else self.up_to, late)


class Replay:
    """`done(source, up_to, late)` when what was stranded of a publisher, up to this number, is settled, but
    for what came too `late`; it says whether something is stranded still. `unwritten(source)` is what is in
    custody and not on disk yet."""

    def __init__(self, core: Core, journal: Journal, path: Entered) -> None:
        self.core = core
        self.journal = journal
        self.path = path
        self.done: Callable[[Source, int, list[Cut]], bool] = lambda source, up_to, late: False
        self.unwritten: Callable[[Source], list[Publication]] = lambda source: []
        # The last number that was taken: part of the replay, or lost by the disk.
        self.accepted: Callable[[Source], int] = lambda source: EVERYTHING
        # Whether all that were owed it can be reached again, as far as the overlay knows.
        self.is_time: Callable[[Source], bool] = lambda source: True
        self.missing: Callable[[], bool] = lambda: False  # somebody is, who may be owed it
        self.holds_back = True  # newer ones, until it has been sent again
        self.first_s = inf  # until the first replay; doubled each time up to lost_after_s
        self.plans: dict[Source, Plan] = {}  # those who have something stranded
        self._held_back: dict[Source, list[Publication]] = {}  # newer than what is stranded, in order
        self.replayed = 0

    def strand(self, source: Source, side: Client) -> None:
        """Something of this publisher is stranded."""
        if (plan := self.plans.get(source)) is None:
            self.plans[source] = plan = Plan(side)
            self._schedule(source, plan)
        plan.again = True

    def under_way(self, source: Source) -> bool:
        return source in self.plans and self.plans[source].under_way

    def holds(self, source: Source) -> bool:
        """Whether newer ones of this publisher have to wait."""
        plan = self.plans.get(source)
        return self.holds_back and plan is not None and (plan.again or not plan.under_way)

    def hold_back(self, source: Source, publications: list[Publication]) -> None:
        self._held_back.setdefault(source, []).extend(publications)

    def _schedule(self, source: Source, plan: Plan) -> None:
        after_s = min(self.first_s * 2 ** min(plan.tries, 16), self.core.settings.links.lost_after_s)
        self.core.timers.at(self.core.now + after_s, lambda now: self._look(source, plan, now))

    def _look(self, source: Source, plan: Plan, now: float) -> None:
        missing = self.missing()
        if not self.core.ready or not self.is_time(source) or (missing and not plan.again):
            self._schedule(source, plan)
            return
        plan.again, plan.in_part, plan.under_way = False, missing, True
        run = [replace(p, flags=p.flags | RESENT | REPLAYED) for p in self._custody(source, now)]
        run += self._held_back.pop(source, [])
        record = Again(self, source, self.accepted(source))
        self.replayed += len(run)
        self.path.send_again(plan.side, run, source, record, now)
        record.release()

    def _custody(self, source: Source, now: float) -> list[Publication]:
        """All that was routed, also what is not on disk yet: left out, it would come after newer ones."""
        held_back = self._held_back.get(source)
        newer = held_back[0].sequence if held_back else EVERYTHING
        found: list[Publication] = []
        for held in list(self.journal.contents.custody.held.get(source, ())):
            if held.first < newer and held.position + held.items - 1 <= self.journal.persisted:
                found += self._read(held, now)
        last = found[-1].sequence if found else 0
        found += [p for p in self.unwritten(source) if p.sequence > last]
        return [p for p in found if p.sequence < newer]

    def _read(self, held: Held, now: float) -> list[Publication]:
        found: list[Publication] = []
        for read in self.journal.reader.read(held.position, held.items):
            if read.publications is None:
                self.journal.lose(read.position, read.position + read.items - 1, CUT_ROTTEN, now)
            else:
                found += read.publications
        return found

    def finish(self, source: Source, up_to: int | None, late: list[Cut]) -> None:
        """None: something was cut again."""
        plan = self.plans[source]
        plan.under_way = False
        plan.again = plan.again or up_to is None
        if (
            up_to is None
            or plan.in_part
            or (plan.again and self.holds_back)
            or self.done(source, up_to, late)
        ):
            plan.tries += plan.again
            self._schedule(source, plan)
        elif plan.again:
            self._schedule(source, plan)
        else:
            del self.plans[source]
