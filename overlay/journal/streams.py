"""Streams: filters whose matches this broker keeps, and who reads them (DP-S1 to S4).

Equal filters of durable subscriptions are one stream with a cursor each; a stream that an administrator made
has a name of its own and keeps by its limits. A publication is given to readers when it is on disk, so that
an offset never means two things. Readers ask; whoever is slow holds nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from grapevine.filters.normal import Filter
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Key
from overlay.data.router import Registry
from overlay.gather import Gather
from overlay.journal.bodies import CursorBody, StreamBody, encode_body
from overlay.journal.contents import Kept, Stream, cursor_body
from overlay.journal.cursor import Cursor
from overlay.journal.journal import Journal
from overlay.journal.record import CURSOR, STREAM
from overlay.journal.stream_log import LOST
from overlay.journal.stream_session import LABEL, StreamSession
from overlay.settings import CoreSettings, StreamSettings

ACKED, LIMITS = "acked", "limits"
SWEEP_S = 30.0
NUMBER_BITS = (
    20  # of a version: a name that is used again in this life, or after the journal was lost, is another
)


class Streams(Quiet):
    name = "streams"
    after = ("Publications", "Journal")

    def __init__(self, settings: StreamSettings, journal: Journal, registry: Registry) -> None:
        self.settings = settings
        self.journal = journal
        self.registry = registry
        self.sessions: dict[int, tuple[StreamSession, Key]] = {}  # by number of the stream
        self.ends: dict[int, int] = {}  # the offset after the last that is on disk
        self.touched: list[int] = []  # streams with more for their readers
        self.dirty: set[tuple[int, str]] = set()  # cursors that have moved since they were written
        self.on_end: list[Callable[[int], None]] = []
        journal.riding(self._cursors)
        journal.after_gather = self._gathered

    def attach(self, core: Core) -> None:
        self.core = core
        # Whether the last number of a publisher, or of it and a topic, tells what has come of it.
        self.ordered = core.settings.overlay.ordered

    def start(self, now: float) -> None:
        """Before any neighbour is met: nobody may think that there is no subscriber here."""
        for number, stream in self.journal.contents.streams.items():
            self.ends[number] = stream.log.next
            self._subscribe(number, stream.body.filter, Gather(lambda gather, later: None), now)
            if not self.ordered:
                self._recall(number, stream)
        self.core.timers.at(now + SWEEP_S, self._sweep)

    def _recall(self, number: int, stream: Stream) -> None:
        """Where publications come in any order the last number says too little: the log is read."""
        session, log = self.sessions[number][0], stream.log
        for _, position, items in log.pieces(log.first, log.next):
            for read in self.journal.reader.read(position, items) if position != LOST else ():
                session.stream.recall(read.publications or ())

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        self.settings = self.core.settings.streams

    # --- making and ending --------------------------------------------------------------------------

    def find(self, name: str, filter: Filter | None = None) -> Stream | None:
        """By its name, or the one that keeps what durable subscriptions with this filter want."""
        contents = self.journal.contents
        number = (
            contents.index.named(name) if name else None if filter is None else contents.index.wanting(filter)
        )
        return None if number is None else contents.streams[number]

    def make(
        self,
        name: str,
        filter: Filter,
        owner: str,
        retention: str,
        gather: Gather,
        now: float,
        age_s: float = 0.0,
        bytes: int = 0,
        key: str = "",
    ) -> Stream:
        """It is there when `gather` is done; on disk with the next group."""
        contents = self.journal.contents
        number = contents.next_stream
        body = StreamBody(
            number,
            name or f"durable-{number}",
            self.core.incarnation << NUMBER_BITS | number % (1 << NUMBER_BITS),
            filter,
            owner,
            retention,
            age_s or self.settings.age_s,
            bytes or self.settings.bytes,
            key=key,
        )
        self.journal.keep(STREAM, encode_body(body))
        self.ends[number] = 1
        self._subscribe(number, filter, gather, now)
        return contents.streams[number]

    def _subscribe(self, number: int, filter: Filter, gather: Gather, now: float) -> None:
        session = StreamSession(self.core, self.journal, number, self.ordered, now)
        key = self.registry.subscribe(session, filter, LABEL, gather, now)
        session.subscriptions[LABEL] = key
        self.sessions[number] = (session, key)
        gather.start(now)

    def await_confirmation(self, stream: Stream, gather: Gather, now: float) -> None:
        self.registry.await_subscription(self.sessions[stream.body.number][1], gather)
        gather.start(now)

    def end(self, stream: Stream, now: float) -> None:
        number = stream.body.number
        session, key = self.sessions.pop(number)
        del session.subscriptions[LABEL]
        self.registry.unsubscribe(session, key, now)
        self.journal.keep(STREAM, encode_body(msgspec.structs.replace(stream.body, state="gone")))
        self.ends.pop(number, None)
        for call in self.on_end:
            call(number)
        self.dirty = {place for place in self.dirty if place[0] != number}
        self.core.lose(session, now)
        self.core.numbered.pop(session.number, None)
        if not self.journal.contents.streams:
            self.journal.contents.sources.clear()
            self.journal.contents.names.clear()

    # --- cursors ------------------------------------------------------------------------------------

    def open_cursor(
        self,
        stream: Stream,
        name: str,
        owner: str,
        base: int,
        expires_s: float,
        now: float,
        group: bool = False,
    ) -> int:
        """A reader's place, or a group's, before offset `base`; the position of its record."""
        body = CursorBody(
            stream.body.number, name, owner, base - 1, used_at=now, expires_s=expires_s, group=group
        )
        return self.journal.keep(CURSOR, encode_body(body))

    def end_cursor(self, stream: Stream, name: str, now: float) -> None:
        body = msgspec.structs.replace(stream.cursors[name][0], state="gone")
        self.journal.keep(CURSOR, encode_body(body))
        self.dirty.discard((stream.body.number, name))
        if not stream.cursors and stream.body.retention == ACKED:
            self.end(stream, now)

    def cursor(self, stream: Stream, name: str) -> Cursor | None:
        found = stream.cursors.get(name)
        return found[1] if found is not None else None

    def moved(self, stream: Stream, name: str, now: float) -> None:
        """It is written with the next group, or soon."""
        self.dirty.add((stream.body.number, name))
        self.journal.ride(now)

    def used(self, stream: Stream, name: str, now: float) -> None:
        body, cursor = stream.cursors[name]
        stream.cursors[name] = (msgspec.structs.replace(body, used_at=now), cursor)

    def _cursors(self) -> Iterator[Kept]:
        dirty, self.dirty = self.dirty, set()
        for number, name in sorted(dirty):
            stream = self.journal.contents.streams.get(number)
            if stream is not None and name in stream.cursors:
                yield Kept(CURSOR, encode_body(cursor_body(stream, name)))

    # --- what is on disk ----------------------------------------------------------------------------

    def _gathered(self, position: int, wanted: dict[int, int]) -> None:
        """These streams go on to these offsets once everything up to the position is on disk."""
        self.journal.when_kept(position, lambda now: self._kept(wanted))

    def _kept(self, wanted: dict[int, int]) -> None:
        for number, end in wanted.items():
            if number in self.ends:
                self.ends[number] = end
                self.touched.append(number)

    # --- limits -------------------------------------------------------------------------------------

    def _sweep(self, now: float) -> None:
        for stream in list(self.journal.contents.streams.values()):
            self._expire(stream, now)
        self.core.timers.at(now + SWEEP_S, self._sweep)

    def _expire(self, stream: Stream, now: float) -> None:
        """Readers that have been away for too long, and what is past the limits."""
        for name, (body, _) in list(stream.cursors.items()):
            if body.expires_s and now - body.used_at > body.expires_s:
                self.core.note(now, f"durable subscription {name} was not used for {body.expires_s:.0f} s")
                self.end_cursor(stream, name, now)
        if stream.body.number in self.journal.contents.streams:
            self.trim(stream, now)

    def trim(self, stream: Stream, now: float) -> None:
        log, body = stream.log, stream.body
        if body.retention == ACKED and stream.cursors:
            log.trim(min(cursor.oldest() for _, cursor in stream.cursors.values()))
        surplus = self._bytes(stream) - body.bytes
        if surplus > 0:
            log.trim(log.first + max(1, int(len(log) * surplus / self._bytes(stream))))
        if body.age_s and len(log):
            log.trim(self.offset_at(stream, now - body.age_s))

    def _bytes(self, stream: Stream) -> float:
        """About what it keeps: the average of what this broker has lately written, for each."""
        return len(stream.log) * self.journal.average_bytes

    def offset_at(self, stream: Stream, at: float) -> int:
        """The first offset that was accepted at this time or later; found by halving."""
        low, high = stream.log.first, self.ends[stream.body.number]
        while low < high:
            middle = (low + high) // 2
            accepted_at = self._accepted_at(stream, middle)
            if accepted_at is not None and accepted_at >= at:
                high = middle
            else:
                low = middle + 1
        return low

    def _accepted_at(self, stream: Stream, offset: int) -> float | None:
        position = stream.log.position(offset)
        for read in self.journal.reader.read(position, 1) if position else ():
            if read.publications:
                return read.publications[0].accepted_at
        return None

    # --- what it looks like -------------------------------------------------------------------------

    def status(self) -> Status:
        return {"streams": [self.row(stream) for stream in self.journal.contents.streams.values()]}

    def row(self, stream: Stream) -> Status:
        body, log = stream.body, stream.log
        return {
            "name": body.name,
            "retention": body.retention,
            "key": body.key,
            "first": log.first,
            "end": self.ends.get(body.number, log.next),
            "bytes": int(self._bytes(stream)),
            "cursors": [
                {
                    "name": name,
                    "acknowledged": cursor.acknowledged,
                    "in_flight": len(cursor.due),
                    "parked": sorted(cursor.parked),
                    "used_at": held.used_at,
                }
                for name, (held, cursor) in stream.cursors.items()
            ],
        }

    def validate(self) -> None:
        streams = self.journal.contents.streams
        assert streams.keys() == self.sessions.keys() == self.ends.keys()
        for number, stream in streams.items():
            assert self.ends[number] <= stream.log.next
            for _, cursor in stream.cursors.values():
                assert cursor.acknowledged < stream.log.next
