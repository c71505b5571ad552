"""Read sealed segments slowly and say what has rotted, before it is needed.

A piece at a time, segment after segment, and around again. Only what the index knows is compared: a sealed
segment never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.journal.files import Files
from overlay.journal.index import Entry, decode_index, header_of
from overlay.journal.judging import Hole
from overlay.journal.names import Segment
from overlay.journal.record import HOLE, read_body


class Scrub:
    def __init__(self, files: Files) -> None:
        self.files = files
        self.rounds = 0
        self._segment: Segment | None = None
        self._entries: list[Entry] = []
        self._at = 0  # in the entries
        self._last = 0  # number of the segment last begun
        self._known: set[tuple[int, int]] = set()  # holes that were said

    @property
    def busy(self) -> bool:
        return self._segment is not None

    def step(self, sealed: Sequence[Segment], most: int) -> list[Hole]:
        """Look at about `most` bytes; what is damaged there and was not said before."""
        if self._segment is None or self._segment not in sealed:
            self._begin(sealed)
        if self._segment is None:
            return []
        first, size = self._at, 0
        while self._at < len(self._entries) and size < most:
            size += self._entries[self._at].length
            self._at += 1
        entries = self._entries[first : self._at]
        found = self._damaged(self._segment, entries) if entries else []
        if self._at >= len(self._entries):
            self._segment = None
        return found

    def _begin(self, sealed: Sequence[Segment]) -> None:
        """The segment after the one seen last; after all of them from the beginning."""
        self._segment = None
        following = [segment for segment in sealed if segment.number > self._last]
        if not following:
            self.rounds += bool(self._last)
            self._last = 0
            return
        segment = following[0]
        self._last = segment.number
        if segment.index_name in self.files.names():
            index = decode_index(self.files.read(segment.index_name), segment.number)
            if index is not None:
                self._segment, self._entries, self._at = segment, index.entries, 0

    def _damaged(self, segment: Segment, entries: list[Entry]) -> list[Hole]:
        entries = [entry for entry in entries if entry.kind != HOLE]
        if not entries:
            return []
        base = entries[0].offset
        headers = [header_of(entry, segment.number) for entry in entries]
        data = self.files.read(segment.name, base, headers[-1].offset + headers[-1].size - base)
        found = []
        for header in headers:
            place = (segment.number, header.position)
            if read_body(data, header, base) is None and header.items and place not in self._known:
                self._known.add(place)
                found.append(Hole(segment.number, header.position, header.last))
        return found
