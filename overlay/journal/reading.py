"""Publications by their positions, from the files: for replay, and for readers that are far behind.

Which record a position is in is known from the segment's index, or from the writer's own while it is the last
segment. A few segments' places are remembered; what is read is checked as at recovery.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from grapevine.wire import WireError, decode_publications
from grapevine.wire.messages import Publication
from overlay.journal.bodies import publications_of
from overlay.journal.files import DiskFailed, Files
from overlay.journal.index import Entry, decode_index, header_of
from overlay.journal.names import Segment, segments
from overlay.journal.record import BULK, read_body
from overlay.journal.writing import Writer

REMEMBERED = 8  # segments


class Read(NamedTuple):
    """What lies at `position`...; `publications` is None where it cannot be read."""

    position: int
    items: int
    publications: list[Publication] | None


class Places:
    """Where the publications of a segment are."""

    __slots__ = ("entries", "positions")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = [entry for entry in entries if entry.kind in BULK]
        self.positions = array("Q", [entry.position for entry in self.entries])

    def at(self, position: int) -> Entry | None:
        place = bisect_right(self.positions, position) - 1
        if place < 0 or self.entries[place].last < position:
            return None
        return self.entries[place]


class Reader:
    def __init__(self, files: Files, writer: Writer) -> None:
        self.files = files
        self.writer = writer
        self._places: dict[Segment, Places] = {}
        self._tail: tuple[Segment, int, Places] | None = None
        self._recent: dict[int, list[Publication]] = {}  # records read last, by position

    def read(self, position: int, items: int) -> Iterator[Read]:
        """Record by record, as far as asked for."""
        end = position + items
        while position < end:
            segment = self._segment(position)
            entry = None if segment is None else self._find(segment, position)
            if segment is None or entry is None:
                yield Read(position, end - position, None)
                return
            count = min(entry.last + 1, end) - position
            publications = self._recent.get(entry.position)
            if publications is None:
                publications = self._publications(segment, entry)
                if publications is not None:
                    self._remember(entry.position, publications)
            if publications is not None:
                start = position - entry.position
                publications = publications[start : start + count]
            yield Read(position, count, publications)
            position += count

    def _remember(self, position: int, publications: list[Publication]) -> None:
        """Several readers ask for the same, and each for a part at a time."""
        if len(self._recent) >= REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._recent[position] = publications

    def _segment(self, position: int) -> Segment | None:
        if position >= self.writer.segment.first:
            return self.writer.segment
        there = [segment for segment in segments(self.files.names()) if segment.first <= position]
        return there[-1] if there else None

    def _find(self, segment: Segment, position: int) -> Entry | None:
        if segment == self.writer.segment:
            return self._last(segment).at(position)
        places = self._places.get(segment)
        if places is None:
            index = decode_index(self.files.read(segment.index_name), segment.number)
            if index is None:
                return None
            if len(self._places) >= REMEMBERED:
                del self._places[next(iter(self._places))]
            places = self._places[segment] = Places(index.entries)
        return places.at(position)

    def _last(self, segment: Segment) -> Places:
        entries = self.writer.entries
        known = self._tail
        if known is None or known[0] != segment or known[1] != len(entries):
            known = self._tail = (segment, len(entries), Places(list(entries)))
        return known[2]

    def _publications(self, segment: Segment, entry: Entry) -> list[Publication] | None:
        header = header_of(entry, segment.number)
        try:
            data = self.files.read(segment.name, entry.offset, header.size)
            body = read_body(data, header, entry.offset)
            return None if body is None else decode_publications(bytes(publications_of(body)))
        except (DiskFailed, WireError):
            return None
