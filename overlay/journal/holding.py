"""Durable publications at their first broker (DP-D1): on disk, then acknowledged; in custody until settled.

A batch is routed at once and appended to the journal in the same drain; its acknowledgement waits for both.
What was sent again and lies in custody already is not written twice. A link that is lost does not end a
durable publication: it is *stranded*, custody stays, and its publisher is told nothing until it has been
replayed.

After a restart a stand-in publishes what is in custody, in order and marked as sent before.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Protocol

from grapevine.wire.messages import (
    CUT_EXPIRED,
    CUT_LINK_LOST,
    CUT_NO_ROOM,
    CUT_OVERTAKEN,
    DURABLE,
    Cut,
    Publication,
)
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client
from overlay.journal.bodies import Advert, Source, encode_body
from overlay.journal.custody import Held
from overlay.journal.journal import Journal
from overlay.journal.record import ADVERT
from overlay.journal.stranded import EVERYTHING, Entered, Replay
from overlay.links.session import Session
from overlay.links.settling import Settling, common, cuts_of


class HeldSettling(Settling):
    """Of a batch with durable publications. `settled` is told when all of it is.

    Those of the batch that are not durable are not replayed: what a lost link takes of them is cut.
    """

    __slots__ = (
        "client",
        "durable",
        "first_sequence",
        "holding",
        "last_sequence",
        "others",
        "source",
        "stranded",
        "undelivered",
        "unwritten",
    )
    lasting = True

    def __init__(self, client: Client, holding: Holding, source: Source, first: int, last: int) -> None:
        super().__init__(client.incoming)
        self.client = client
        self.holding = holding
        self.source = source
        self.first_sequence, self.last_sequence = first, last
        self.stranded = False
        self.unwritten: list[Publication] = []  # what of it goes to disk and is not there yet
        self.others: list[Cut] = []  # as ranges: what is not durable; if there is any, also what is
        self.durable: list[Cut] = []
        self.undelivered: list[Cut] = []  # of the others; told with the rest

    def mix(self, publications: list[Publication], durable: list[Publication]) -> None:
        if len(durable) < len(publications):
            self.durable = cuts_of(durable, CUT_LINK_LOST)
            self.others = cuts_of((p for p in publications if not p.flags & DURABLE), CUT_LINK_LOST)

    def lose(self, cut: Cut) -> bool:
        """What of it is in this cut is in custody no more; whether anything is."""
        ranges = self.durable or [Cut(*self.source, self.first_sequence, self.last_sequence, cut.reason)]
        lost = common([cut], ranges)
        self.cuts += lost
        refused = {one.last: one.first for one in self.cuts if one.reason == CUT_NO_ROOM}
        while self.last_sequence in refused:  # never was: when this is settled, others may have brought it
            self.last_sequence = refused[self.last_sequence] - 1
        return bool(lost)

    @property
    def parked(self) -> bool:  # type: ignore[override]
        return self.stranded and not self.holding.replay.under_way(self.source)

    def release(self) -> None:
        if self.pending == 1 and self._strands():
            self.stranded = True
            self.holding.strand(self)
            return  # one pending is left: its replay
        if self.pending == 1:
            self.cuts += self.undelivered
            self.holding.tell(self.cuts)
        super().release()
        if not self.pending:
            self.holding.settle(self.source)

    def _strands(self) -> bool:
        """Whether a lost link took durable ones: nobody is told, they are replayed."""
        lost = [cut for cut in self.cuts if cut.reason == CUT_LINK_LOST]
        if lost:
            self.cuts = [cut for cut in self.cuts if cut.reason != CUT_LINK_LOST]
        if not self.others:
            return bool(lost)
        self.undelivered += common(lost, self.others)
        return bool(common(lost, self.durable))


class OnDisk:
    """The disk's part of such a record: with it the publisher's *persisted* mark moves."""

    __slots__ = ("record",)

    def __init__(self, record: HeldSettling, before: int) -> None:
        self.record = record
        record.pending += 1
        assert record.incoming is not None
        record.incoming.keep_after(before)

    def release(self) -> None:
        self.record.unwritten = []
        if self.record.incoming is not None:
            refused = any(cut.reason == CUT_NO_ROOM for cut in self.record.cuts)
            self.record.incoming.kept(self.record.last if refused else 0)
        self.record.release()


class OnTwoDisks(OnDisk):
    """The same where a second broker keeps copies: what is settled need not wait for it, but *persisted* is
    said when both have it, or when custody is over."""

    __slots__ = ("before", "incoming", "keeping", "written")

    def __init__(self, record: HeldSettling, before: int) -> None:
        super().__init__(record, before)
        assert record.incoming is not None
        self.incoming = record.incoming
        self.before = before
        self.keeping = record.incoming.keeping
        self.written = False  # here

    @property
    def over(self) -> bool:
        return not self.record.pending

    def release(self) -> None:
        self.written = True
        self.record.unwritten = []
        if self.incoming.keeping is self.keeping:
            if any(cut.reason == CUT_NO_ROOM for cut in self.record.cuts):
                self.incoming.refused(self.before, self.record.last)
        self.record.release()
        if (copying := self.record.holding.copying) is not None:
            copying.look()

    def tell(self) -> None:
        if self.incoming.keeping is self.keeping:
            self.incoming.kept()


class Copying(Protocol):
    """Who says when a second broker has what comes into custody (copying.py)."""

    def wait(self, waiter: OnTwoDisks) -> None: ...
    def look(self) -> None: ...


class Holding(Quiet):
    name = "custody"

    def __init__(self, journal: Journal, path: Entered) -> None:
        self.journal = journal
        self.path = path
        self.stranded = 0  # batches, ever
        self.overtaken = 0  # publications
        self.copying: Copying | None = None
        self._records: dict[Source, deque[HeldSettling]] = {}  # in order, not settled
        self._drain = 0
        self._latest: dict[Source, int] = {}  # of this drain
        self._advertised: dict[Source, tuple[object, ...]] = {}  # as the journal knows it

    def attach(self, core: Core) -> None:
        self.core = core
        self.path.keep = self.keep
        self.replay = Replay(core, self.journal, self.path)
        self.replay.done = self._replayed
        self.replay.unwritten = self._unwritten
        self.replay.accepted = self._accepted
        self.journal.custody_lost = self._lost

    # --- in -----------------------------------------------------------------------------------------

    def keep(
        self, client: Client, publications: list[Publication], before: int
    ) -> tuple[list[Publication], Settling]:
        """A batch with durable publications comes in, after position `before`: those that are taken, and the
        record that settles it."""
        source = client.id, client.incarnation
        durable = [p for p in publications if p.flags & DURABLE]
        if self.journal.full:
            record = Settling(client.incoming)
            record.cuts += cuts_of(durable, CUT_NO_ROOM)
            client.incoming.refused(before, client.incoming.received)
            return [p for p in publications if not p.flags & DURABLE], record
        held = HeldSettling(client, self, source, durable[0].sequence, durable[-1].sequence)
        held.mix(publications, durable)
        self._records.setdefault(source, deque()).append(held)
        last = self._last(source)
        fresh = [p for p in durable if p.sequence > last]
        if fresh:
            self._latest[source] = fresh[-1].sequence
            self._advertise(client, source)
            self.journal.hold(fresh)
            held.unwritten = fresh
        self.journal.wait(self._on_disk(held, before))
        if self.replay.holds(source):
            held.stranded = True
            held.pending += 1  # until they have gone out behind the older ones
            self.replay.hold_back(source, publications)
            return [], held
        return publications, held

    def _on_disk(self, held: HeldSettling, before: int) -> OnDisk:
        if self.copying is None:
            return OnDisk(held, before)
        waiter = OnTwoDisks(held, before)
        self.copying.wait(waiter)
        return waiter

    def sends(self, source: Source) -> bool:
        """Whether its publisher, or a stand-in, publishes here."""
        return source in self._records

    def _last(self, source: Source) -> int:
        """The last number of this publisher that is in custody, or will be with this drain."""
        if self._drain != self.journal.drains:
            self._drain = self.journal.drains
            self._latest.clear()
        if (latest := self._latest.get(source)) is not None:
            return latest
        known = self.journal.contents.custody.held.get(source)
        return known[-1].last if known else 0

    def _advertise(self, client: Client, source: Source) -> None:
        """What its stand-in would have to advertise, if that has changed since it was last written."""
        filters = tuple(client.advertised())
        wanted = (client.name, filters, client.may_publish, client.key)
        if self._advertised.get(source) != wanted or source not in self.journal.contents.adverts:
            self._advertised[source] = wanted
            advert = Advert(*source, client.name, list(filters), client.may_publish, client.key)
            self.journal.keep(ADVERT, encode_body(advert))

    # --- out ----------------------------------------------------------------------------------------

    def settle(self, source: Source) -> None:
        """Something of this publisher has settled: custody ends in order. A stand-in may send older ones
        beside the publisher itself."""
        records = self._records[source]
        done = 0
        while records and not records[0].pending:
            done = max(done, records.popleft().last_sequence)
        if done:
            self.journal.settle(source, done, self.core.now)
        if not records:
            del self._records[source]
        if self.copying is not None:
            self.copying.look()

    def strand(self, record: HeldSettling) -> None:
        self.stranded += 1
        self.replay.strand(record.source, record.client)

    def _unwritten(self, source: Source) -> list[Publication]:
        return [p for record in self._records.get(source, ()) for p in record.unwritten]

    def _accepted(self, source: Source) -> int:
        return max((record.last_sequence for record in self._records.get(source, ())), default=EVERYTHING)

    def _lost(self, cut: Cut) -> bool:
        """The disk has no room for these, or cannot read them any more."""
        records = self._records.get((cut.publisher, cut.incarnation), ())
        told = [record for record in records if record.lose(cut)]
        return bool(told)

    def _replayed(self, source: Source, up_to: int, late: list[Cut]) -> bool:
        """All that was in custody up to this number went once more and is settled, but for what came too
        late somewhere. Whether something newer has been stranded since."""
        stranded = [record for record in self._records.get(source, ()) if record.stranded]
        self._cut_late(source, stranded, late)
        for record in stranded:
            if record.last_sequence <= up_to:
                record.stranded = False
                record.release()
        return any(record.stranded for record in stranded)

    def tell(self, cuts: list[Cut]) -> None:
        """Custody of these ends, and not all who were owed them have them: also if no publisher is there."""
        for cut in cuts:
            if cut.reason == CUT_OVERTAKEN:
                self.overtaken += cut.last - cut.first + 1
                numbers = {"publisher": f"{cut.publisher:016x}", "first": cut.first, "last": cut.last}
                text = f"durable publications {cut.first} to {cut.last} of {cut.publisher:016x} came too late"
                self.core.event(self.core.now, "custody.overtaken", text, "bad", **numbers)

    def _cut_late(self, source: Source, records: list[HeldSettling], late: list[Cut]) -> None:
        for cut in late:
            for record in records:
                first, last = max(cut.first, record.first_sequence), min(cut.last, record.last_sequence)
                if first <= last:
                    record.cuts.append(Cut(*source, first, last, CUT_OVERTAKEN))

    def expire(self, source: Source, held: Held, now: float) -> bool:
        """Give this piece up, the oldest of its publisher's; False if some of it is under way."""
        ends: list[HeldSettling] = []
        for record in self._records.get(source, ()):
            if record.first_sequence > held.last:
                break
            ends.append(record)
        if not ends or self.replay.under_way(source) or not all(record.stranded for record in ends):
            return False
        for record in ends:
            first, last = max(held.first, record.first_sequence), min(held.last, record.last_sequence)
            record.cuts.append(Cut(*source, first, last, CUT_EXPIRED))
            if record.last_sequence <= held.last:
                record.stranded = False
                record.release()
        return True

    def link_lost(self, session: Session, now: float) -> None:
        self._advertised.pop((session.id, session.incarnation), None)

    def status(self) -> Status:
        return {
            "publishers": len(self.journal.contents.custody.held),
            "publications": self.journal.contents.custody.items,
            "stranded": len(self.replay.plans),
            "replayed": self.replay.replayed,
            "overtaken": self.overtaken,
        }

    def validate(self) -> None:
        for source, pieces in self.journal.contents.custody.held.items():
            assert all(one.last < two.first for one, two in pairwise(pieces)), source
