"""The disk as one more outgoing stream: what is owed to it holds settling until it is there.

Everything of one drain that must be kept is one record: what this broker has taken into custody, and what its
streams want, each publication once. Routing does not wait for the disk, only acknowledgements do: whoever
waits is a Settling record with one more pending.

Positions are given here; `persisted` is the driver's answer. Small records (marks of what is settled,
cursors) ride with the next group, or leave after a second: one that is lost means that something is sent
again, which is recognised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from grapevine.wire import encode_publications
from grapevine.wire.messages import CUT_NO_ROOM, CUT_ROTTEN, Cut, Publication
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.journal.bodies import (
    CopyHead,
    Ordered,
    PubsHead,
    Settled,
    Source,
    TopicsHead,
    Wanted,
    bits_of,
    encode_body,
    encode_pubs,
)
from overlay.journal.contents import Contents, Kept
from overlay.journal.index import summary
from overlay.journal.pool import Part, Pool, runs_of
from overlay.journal.reading import Read
from overlay.journal.record import COPY, PUBS, SETTLED, record_bytes
from overlay.journal.writing import DROP, SEAL, Append
from overlay.settings import JournalSettings
from overlay.timers import Timer

RIDE_S = 1.0  # small records wait no longer than this


class Reads(Protocol):
    def read(self, position: int, items: int) -> Iterable[Read]: ...


class Waiter(Protocol):
    """Who waits for the disk; a Settling record does."""

    def release(self) -> None: ...


class Second(Protocol):
    """Who has a copy made of what is in custody (copying.py)."""

    def part(self, last: int, publications: list[Publication]) -> None:
        """These go into custody; the last position of their record."""

    def gathered(self, last: int) -> None: ...
    def freed(self, source: Source, sequence: int) -> None: ...


class Opened(NamedTuple):
    """A journal as a recovery has found it."""

    contents: Contents
    next: int  # position
    reader: Reads
    holes: int = 0  # positions found lost
    torn: int = 0  # bytes at its end that may have been acknowledged


class Journal(Quiet):
    name = "journal"

    def __init__(self, settings: JournalSettings, opened: Opened) -> None:
        self.settings = settings
        self.contents = opened.contents
        self.reader = opened.reader
        self.holes, self.torn = opened.holes, opened.torn
        self.next = opened.next
        self.persisted = opened.next - 1
        self.full = False  # the disk: nothing durable is taken
        self.no_room = 0  # publications refused
        self.records = self.drains = 0
        self._pool = Pool()
        self._open: list[Waiter] = []  # for what is in the pool
        self._waits: deque[tuple[int, Waiter]] = deque()
        self._calls: deque[tuple[int, Callable[[float], None]]] = deque()
        self._small: list[Kept] = []
        self._settled: dict[Source, int] = {}
        self._ride_timer: Timer | None = None
        self._segment_bytes = 0
        self._bodies: list[Callable[[], Iterable[Kept]]] = []  # who has small records to write
        # Set by the streams: which go on to which offset once a position is on disk, and who is to be served.
        self.after_gather: Callable[[int, dict[int, int]], None] | None = None
        self.after_written: Callable[[float], None] = lambda now: None
        # Set by who holds custody: whether somebody can be told of what is lost of it.
        self.custody_lost: Callable[[Cut], bool] = lambda cut: False
        # Set where order is kept for each publisher and topic, by attributes.
        self.topic: Callable[[bytes], int | None] | None = None
        # Set by who keeps copies: these owners' are not whole any more.
        self.copies_lost: Callable[[list[int], int], None] = lambda owners, reason: None
        self.second: Second | None = None
        self._bytes = self._items = 0  # of publications written, for an average
        self.on_lost: list[
            Callable[[int, int, int, float], None]
        ] = []  # positions that cannot be kept or read

    def attach(self, core: Core) -> None:
        self.core = core
        core.journal = self

    def ordered_by(self, publication: Publication) -> Ordered:
        """Within what it has its place."""
        if self.topic is None:
            return publication.publisher, publication.incarnation
        return publication.publisher, publication.incarnation, self.topic(publication.attributes) or 0

    # --- what is to be kept -----------------------------------------------------------------------

    def hold(self, publications: list[Publication]) -> None:
        """Into custody."""
        self._pool.hold(publications)

    def want(self, stream: int, publications: list[Publication]) -> None:
        """Into a stream's log."""
        self._pool.want(stream, publications)

    def wait(self, waiter: Waiter) -> None:
        """It is released when all that was given by the end of this drain is on disk."""
        self._open.append(waiter)

    def keep(self, kind: int, body: bytes) -> int:
        """A small record, at once; its position."""
        return self._append(kind, 1, body)

    def when_kept(self, position: int, call: Callable[[float], None]) -> None:
        """Once everything up to here is on disk."""
        if position <= self.persisted:
            call(self.core.now)
            return
        self._calls.append((max(position, self._calls[-1][0] if self._calls else 0), call))

    def riding(self, bodies: Callable[[], Iterable[Kept]]) -> None:
        """Small records that are asked for when a group leaves."""
        self._bodies.append(bodies)

    def ride(self, now: float, within_s: float = RIDE_S) -> None:
        """Somebody has small records: they leave with the next group, or after a while."""
        if self._ride_timer is not None and self._ride_timer.at > now + within_s:
            self._ride_timer.cancel()
            self._ride_timer = None
        if self._ride_timer is None:
            self._ride_timer = self.core.timers.at(now + within_s, self._ride_due)

    def _ride_due(self, now: float) -> None:
        self._ride_timer = None
        self._write_small()

    def settle(self, source: Source, sequence: int, now: float) -> None:
        """Custody of everything up to this number ends."""
        if self.contents.settle(source, sequence):
            self._settled[source] = sequence
            self.ride(now)
            if self.second is not None:
                self.second.freed(source, sequence)

    # --- the end of a drain -------------------------------------------------------------------------

    def gather(self, now: float) -> None:
        """What has been given since the last call is appended."""
        if self._pool.publications:
            pool, self._pool = self._pool, Pool()
            self.drains += 1
            for part in pool.parts():
                self._write_part(part)
            if pool.wanted and self.after_gather is not None:
                streams = self.contents.streams
                ends = {number: streams[number].log.next for number in pool.wanted if number in streams}
                self.after_gather(self.next - 1, ends)
            self._write_small()
        if self._open:
            waiters, self._open = self._open, []
            last = self.next - 1
            if last > self.persisted:
                self._waits.extend((last, waiter) for waiter in waiters)
            else:
                for waiter in waiters:
                    waiter.release()
        if self._segment_bytes >= self.settings.segment_bytes:
            self._seal()
        if self.second is not None:
            self.second.gathered(self.next - 1)

    def _write_part(self, part: Part) -> None:
        streams, items = self.contents.streams, len(part.publications)
        wanted = [
            Wanted(number, streams[number].log.next, bits_of(places, items))
            for number, places in part.wanted.items()
            if number in streams
        ]
        head = PubsHead(part.runs, wanted)
        if self.topic is not None and part.wanted:
            head = TopicsHead(part.runs, wanted, self._last_of_topics(part))
        body = encode_pubs(head, encode_publications(part.publications))
        self._write_bulk(PUBS, items, body)
        if self.second is not None and any(run.held for run in part.runs):
            held = [part.publications[run.start : run.start + run.items] for run in part.runs if run.held]
            self.second.part(self.next - 1, [publication for run in held for publication in run])

    def copy(self, owner: int, publications: list[Publication]) -> int:
        """These are in another broker's custody; their last position."""
        runs = runs_of(publications)
        body = encode_pubs(CopyHead(owner, runs), encode_publications(publications))
        self._write_bulk(COPY, len(publications), body)
        return self.next - 1

    def _write_bulk(self, kind: int, items: int, body: bytes) -> None:
        self._append(kind, items, body)
        self.records += 1
        self._bytes += len(body)
        self._items += items

    def _last_of_topics(self, part: Part) -> list[tuple[int, int, int, int]]:
        last: dict[Ordered, int] = {}
        for place in sorted({place for places in part.wanted.values() for place in places}):
            publication = part.publications[place]
            last[self.ordered_by(publication)] = publication.sequence
        return [(key[0], key[1], key[2], sequence) for key, sequence in last.items()]

    def _write_small(self) -> None:
        if self._settled:
            marks = [(*source, sequence) for source, sequence in self._settled.items()]
            self._settled = {}
            self._append(SETTLED, 1, encode_body(Settled(marks)), fold=False)
        for bodies in self._bodies:
            for kind, body in bodies():
                self._append(kind, 1, body, fold=False)
        if self._ride_timer is not None:
            self._ride_timer.cancel()
            self._ride_timer = None

    def _append(self, kind: int, items: int, body: bytes, fold: bool = True) -> int:
        position = self.next
        self.next += items
        if fold:
            self.contents.take(kind, position, items, summary(kind, body))
        self._segment_bytes += record_bytes(len(body))
        self.core.out.appends.append(Append(kind, position, items, body))
        return position

    def _seal(self) -> None:
        """The next segment begins; what must outlive the older ones stands in it first."""
        self._segment_bytes = 0
        appends = self.core.out.appends
        appends.append(Append(SEAL, self.next, 0))
        for kind, body in self.contents.checkpoint():
            self._append(kind, 1, body, fold=False)
        self._segment_bytes = 0
        self.contents.trim_acknowledged()
        appends.append(Append(DROP, self.contents.needed(self.next), 0))

    # --- what the driver says -----------------------------------------------------------------------

    def written(self, done: int, refused: list[tuple[int, int]], room: bool, now: float) -> None:
        """Everything up to `done` is on disk, but what was refused."""
        self.full = bool(refused) or (self.full and not room)
        for first, last in refused:
            self.no_room += last - first + 1
            self.lose(first, last, CUT_NO_ROOM, now)
        self.persisted = max(self.persisted, done)
        waits = self._waits
        while waits and waits[0][0] <= done:
            waits.popleft()[1].release()
        while self._calls and self._calls[0][0] <= done:
            self._calls.popleft()[1](now)
        self.after_written(now)

    def lose(self, first: int, last: int, reason: int, now: float) -> None:
        """These positions are not on disk, or cannot be read any more: whoever holds them is told."""
        for (publisher, incarnation), held in self.contents.custody.lose(first, last):
            if not self.custody_lost(Cut(publisher, incarnation, held.first, held.last, reason)):
                self.core.note(
                    now, f"custody lost: {held.last - held.first + 1} of publisher {publisher:016x}"
                )
        self.contents.forget_adverts()
        self.copies_lost(self.contents.copies.lose(first, last), reason)
        for stream in self.contents.streams.values():
            stream.log.lose(first, last)
        for call in self.on_lost:
            call(first, last, reason, now)

    def rotten(self, first: int, last: int, now: float) -> None:
        self.holes += last - first + 1
        self.lose(first, last, CUT_ROTTEN, now)

    @property
    def average_bytes(self) -> float:
        """Of a publication in the log."""
        return self._bytes / self._items if self._items else 256.0

    def status(self) -> Status:
        return {
            "position": self.next - 1,
            "persisted": self.persisted,
            "custody": self.contents.custody.items,
            "streams": len(self.contents.streams),
            "full": self.full,
            "no_room": self.no_room,
            "lost_positions": self.holes,
            "torn_bytes": self.torn,
        }

    def validate(self) -> None:
        assert self.persisted < self.next
        positions = [position for position, _ in self._waits]
        assert positions == sorted(positions)
        assert not positions or positions[-1] < self.next
