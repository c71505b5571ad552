"""What the records of a journal add up to: custody, copies of others' custody, streams, cursors,
last numbers, advertisements.

The same fold serves a restart (over the entries of all segments) and a running broker (over each record as
it is appended), so the two cannot differ. `checkpoint` says all of it but the publications' places again, at
the beginning of each segment: then older segments can go without taking anything else along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from overlay.journal import record
from overlay.journal.bodies import (
    Advert,
    CursorBody,
    KeeperBody,
    Names,
    Ordered,
    PubsHead,
    Settled,
    Source,
    Sources,
    StreamBody,
    TopicsHead,
    TopicSources,
    decode_body,
    decode_head,
    encode_body,
    indexes,
)
from overlay.journal.copied import Copies
from overlay.journal.cursor import Cursor
from overlay.journal.custody import Custody, Held
from overlay.journal.index import Entry
from overlay.journal.stream_index import StreamIndex
from overlay.journal.stream_log import StreamLog

MARKS_EACH = 10_000  # in one record of a checkpoint


class Kept(NamedTuple):
    """A small record to be written."""

    kind: int
    body: bytes


class Stream:
    __slots__ = ("body", "cursors", "log")

    def __init__(self, body: StreamBody) -> None:
        self.body = body
        self.log = StreamLog(body.first, body.next)
        self.cursors: dict[str, tuple[CursorBody, Cursor]] = {}


class Contents:
    def __init__(self) -> None:
        self.custody = Custody()
        self.streams: dict[int, Stream] = {}
        self.index = StreamIndex()  # of these
        self.sources: dict[Ordered, int] = {}  # the last number in the streams' log
        self.names: dict[int, tuple[str, str]] = {}  # publisher -> its name and its first broker's
        self.unnamed: set[int] = set()  # publishers that have come into the log since names were written
        self.adverts: dict[Source, Advert] = {}
        self.copies = Copies(self.custody, self.adverts)
        self.keeper: KeeperBody | None = None  # who has copies of what is in custody here
        self.next_stream = 1
        self.lost: list[tuple[int, int]] = []  # positions

    # --- the fold ---------------------------------------------------------------------------------

    def replay(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.take(entry.kind, entry.position, entry.items, entry.summary)

    def finish(self) -> None:
        """Everything has been read."""
        self.custody.finish()
        self.copies.finish()
        self.unnamed.clear()  # their names are asked for when more comes of them
        self.forget_adverts()

    def forget_adverts(self) -> None:
        """Of those who have nothing in custody any more."""
        for source in [source for source in self.adverts if source not in self.custody.held]:
            del self.adverts[source]

    def take(self, kind: int, position: int, items: int, summary: bytes) -> None:
        if kind == record.PUBS:
            self.take_pubs(position, items, decode_head(summary))
        elif kind == record.SETTLED:
            for publisher, incarnation, sequence in decode_body(summary, Settled).marks:
                self.custody.note((publisher, incarnation), sequence)
        elif kind == record.CURSOR:
            self._take_cursor(decode_body(summary, CursorBody))
        elif kind == record.STREAM:
            self._take_stream(decode_body(summary, StreamBody))
        elif kind == record.ADVERT:
            advert = decode_body(summary, Advert)
            self.adverts[advert.publisher, advert.incarnation] = advert
        elif kind == record.SOURCES:
            sources = decode_body(summary, TopicSources)
            self._seen((*sources.marks, *sources.topics))
        elif kind == record.NAMES:
            for publisher, name, broker in decode_body(summary, Names).publishers:
                self.names[publisher] = (name, broker)
        elif kind in (record.COPY, record.COPY_FREED, record.COPY_STATE):
            self.copies.take(kind, position, summary)
        elif kind == record.KEEPER:
            self.keeper = decode_body(summary, KeeperBody)
        elif kind == record.HOLE:
            self.lost.append((position, position + items - 1))

    def take_pubs(self, position: int, items: int, head: TopicsHead) -> None:
        for run in head.runs:
            if run.held:
                held = Held(position + run.start, run.items, run.first, run.last)
                self.custody.take(run.source, held)
        for wanted in head.wanted:
            if (stream := self.streams.get(wanted.stream)) is None:
                continue
            log = stream.log
            log.lose_to(wanted.offset)  # what stood between is lost
            if not wanted.bits:
                log.append(position, items)
            else:
                for index in indexes(wanted.bits, items):
                    log.append(position + index)
        wanted_by_any = _together(head, items)
        wanted_runs = [run for run in head.runs if wanted_by_any >> run.start & (1 << run.items) - 1]
        self._seen(head.topics or [(*run.source, run.last) for run in wanted_runs])

    def _seen(self, marks: Iterable[tuple[int, ...]]) -> None:
        for *ordered, sequence in marks:
            key = tuple(ordered)
            if sequence > self.sources.get(key, 0):
                self.sources[key] = sequence
                if key[0] not in self.names:
                    self.unnamed.add(key[0])

    def settle(self, source: Source, sequence: int) -> bool:
        news = self.custody.settle(source, sequence)
        if source not in self.custody.held:
            self.adverts.pop(source, None)
        return news

    def _take_stream(self, body: StreamBody) -> None:
        self.next_stream = max(self.next_stream, body.number + 1)
        stream = self.streams.get(body.number)
        if body.state == "gone":
            if self.streams.pop(body.number, None) is not None and stream is not None:
                self.index.remove(stream.body)
        elif stream is None:
            self.streams[body.number] = Stream(body)
            self.index.add(body)
        else:  # its name, filter and retention stay
            stream.body = body
            stream.log.lose_to(body.next)
            stream.log.trim(body.first)

    def _take_cursor(self, body: CursorBody) -> None:
        if (stream := self.streams.get(body.stream)) is None:
            return
        if body.state == "gone":
            stream.cursors.pop(body.name, None)
        else:
            cursor = Cursor(body.acknowledged, body.exceptions, body.parked)
            # What it has was there: if the disk has lost that, its offsets are not given again.
            stream.log.lose_to(max(body.acknowledged, *body.exceptions, *body.parked, 0) + 1)
            stream.cursors[body.name] = (body, cursor)

    # --- at a segment's beginning -----------------------------------------------------------------

    def checkpoint(self) -> Iterator[Kept]:
        for stream in self.streams.values():
            yield Kept(record.STREAM, encode_body(self.stream_body(stream)))
            for name in stream.cursors:
                yield Kept(record.CURSOR, encode_body(cursor_body(stream, name)))
        for source, advert in self.adverts.items():
            if source in self.custody.held:
                yield Kept(record.ADVERT, encode_body(advert))
        if self.keeper is not None:
            yield Kept(record.KEEPER, encode_body(self.keeper))
        for kind, body in self.copies.checkpoint():
            yield Kept(kind, encode_body(body))
        marks = self.custody.marks()
        for start in range(0, len(marks), MARKS_EACH):
            yield Kept(record.SETTLED, encode_body(Settled(marks[start : start + MARKS_EACH])))
        yield from self._sources()
        names = [(publisher, *known) for publisher, known in self.names.items()]
        for start in range(0, len(names), MARKS_EACH):
            yield Kept(record.NAMES, encode_body(Names(names[start : start + MARKS_EACH])))

    def _sources(self) -> Iterator[Kept]:
        seen = [(*source, sequence) for source, sequence in self.sources.items()]
        marks = [(one[0], one[1], one[2]) for one in seen if len(one) == 3]
        topics = [(one[0], one[1], one[2], one[3]) for one in seen if len(one) == 4]
        for start in range(0, len(marks), MARKS_EACH):
            yield Kept(record.SOURCES, encode_body(Sources(marks[start : start + MARKS_EACH])))
        for start in range(0, len(topics), MARKS_EACH):
            yield Kept(record.SOURCES, encode_body(TopicSources([], topics[start : start + MARKS_EACH])))

    def stream_body(self, stream: Stream) -> StreamBody:
        return msgspec.structs.replace(stream.body, first=stream.log.first, next=stream.log.next)

    # --- what may go --------------------------------------------------------------------------------

    def trim_acknowledged(self) -> None:
        """Streams that keep what is not acknowledged let go of the rest."""
        for stream in self.streams.values():
            if stream.body.retention == "acked" and stream.cursors:
                stream.log.trim(min(cursor.oldest() for _, cursor in stream.cursors.values()))

    def needed(self, end: int) -> int:
        """The first position that is needed; `end` if none is."""
        oldest = [self.custody.oldest(), *self.copies.oldest()]
        oldest += [stream.log.oldest() for stream in self.streams.values()]
        return min([end, *(position for position in oldest if position is not None)])


def _together(head: PubsHead, items: int) -> int:
    """The publications of a record that some stream wants, as bits: others are in custody only."""
    found = 0
    for wanted in head.wanted:
        if not wanted.bits:
            return (1 << items) - 1
        found |= int.from_bytes(wanted.bits, "little")
    return found


def cursor_body(stream: Stream, name: str) -> CursorBody:
    body, cursor = stream.cursors[name]
    return msgspec.structs.replace(
        body,
        acknowledged=cursor.acknowledged,
        exceptions=sorted(cursor.exceptions),
        parked=sorted(cursor.parked),
    )
