"""The one who writes: appends in, positions on disk out. It runs in a thread of the daemon and in the
simulator's time; the core gives it lists and hears how far they are on disk.

A group is what has come meanwhile: one append to the file, one sync. The core decides where a segment ends
(SEAL, followed by what must not be lost with older segments) and which may go (DROP): both are orders in the
same list, so they keep their place among the records. A segment is dropped only after the sync of all that
was ordered before.

- A write that finds no room is taken back and refused as a whole: nobody was told. Small records, which make
  room, may use the reserve that publications may not.
- A sync that failed is never tried again: DiskFailed ends the broker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

from overlay.journal import mark
from overlay.journal.files import DiskFull, Files
from overlay.journal.index import Entry, encode_index, summary
from overlay.journal.names import Segment, segments
from overlay.journal.record import BULK, START, Buffer, pack, record_bytes

SEAL, DROP = 240, 241  # orders, never on disk
RESERVE_BYTES = 64 << 20  # of the disk, for the records that make room
GROUP_BYTES = 4 << 20


class Append(NamedTuple):
    """A record, or an order. `position` is that of its first item; of SEAL the first of the next segment, of
    DROP the first that is still needed."""

    kind: int
    position: int
    items: int
    body: Buffer = b""

    @property
    def last(self) -> int:
        return self.position + self.items - 1


class Written(NamedTuple):
    """What became of a group: everything up to `done` is on disk, but the `refused` positions."""

    done: int
    refused: list[tuple[int, int]]
    room: bool = True  # there is room for more


class Writer:
    def __init__(self, files: Files, incarnation: int, segment: Segment, synced: int, turn: int = 0) -> None:
        self.files = files
        self.incarnation = incarnation
        self.segment = segment
        self.synced = synced  # the last position on disk
        self.size = 0
        self.entries: list[Entry] = []
        self.groups = self.bytes = self.refused = 0
        self.reserve = RESERVE_BYTES
        self._name = segment.name  # of the file
        self._turn = turn  # of the mark
        self._marked = 0

    def open(self) -> None:
        """Begin the segment: its name and its first record are on disk when this returns."""
        self._name = self.segment.name
        self._start(b"")
        self._sync()
        self.files.sync_names()

    def renew(self, replaced: int, records: Iterable[Append]) -> None:
        """Begin the segment with the records of the one in whose place it is. It has its name when it is
        whole and on disk."""
        self._name = self.segment.beside
        self._start(replaced.to_bytes(8, "little"))
        packed, size = [], self.size
        for record in records:
            packed.append(self._pack(record))
            if self.size - size > GROUP_BYTES:
                self._append(packed)
                packed, size = [], self.size
        if packed:
            self._append(packed)
        self._sync()
        self.files.rename(self._name, self.segment.name)
        self.files.sync_names()
        self._name = self.segment.name

    def _start(self, body: bytes) -> None:
        self.size, self.entries = 0, []
        self._append([self._pack(Append(START, self.segment.first, 0, body))])

    # --- a group ----------------------------------------------------------------------------------

    def commit(self, group: Sequence[Append]) -> Written:
        refused: list[tuple[int, int]] = []
        done = self.synced
        start = 0
        for index, append in enumerate(group):
            if append.kind < SEAL:
                done = append.last
                continue
            self._commit(group[start:index], refused)
            start = index + 1
            if append.kind == SEAL:
                self._seal(append.position)
            else:
                self._drop(append.position)
        self._commit(group[start:], refused)
        self.groups += 1
        return Written(done, refused, not refused and self.room())

    def _commit(self, records: Sequence[Append], refused: list[tuple[int, int]]) -> None:
        if not self._room(records):
            refused += [(record.position, record.last) for record in records if record.kind in BULK]
            records = [record for record in records if record.kind not in BULK]
        if not records:
            return
        if self._write(records):
            self._sync()
            self.synced = records[-1].last
        else:
            refused += [(record.position, record.last) for record in records]

    def _sync(self) -> None:
        self.files.sync(self._name)

    def _room(self, records: Sequence[Append]) -> bool:
        """Whether publications may be written."""
        if not any(record.kind in BULK for record in records):
            return True
        wanted = sum(record_bytes(len(record.body)) for record in records)
        return self.files.free_bytes() >= self.reserve + wanted

    def _write(self, records: Sequence[Append]) -> bool:
        size, known = self.size, len(self.entries)
        try:
            self._append([self._pack(record) for record in records])
        except DiskFull:
            self.size = size
            del self.entries[known:]
            return False
        return True

    def _append(self, packed: list[tuple[Buffer, ...]]) -> None:
        before = self.entries[-len(packed)].offset
        self.files.append(self._name, [piece for pieces in packed for piece in pieces])
        self.bytes += self.size - before

    def _pack(self, append: Append) -> tuple[Buffer, ...]:
        kind, position, items, body = append
        offset, crc = self.size, crc32(body)
        self.entries.append(
            Entry(offset, kind, position, items, len(body), crc, self.synced, summary(kind, body))
        )
        self.size += record_bytes(len(body))
        number, incarnation = self.segment.number, self.incarnation
        return pack(kind, body, position, items, number, offset, incarnation, self.synced, crc)

    # --- orders -----------------------------------------------------------------------------------

    def _seal(self, first: int) -> None:
        """The next segment begins at this position; the index of the last is beside it. On a full disk the
        segment simply goes on: the core knows positions, not files."""
        before = self.segment, self.size, self.entries
        index = encode_index(self.segment.number, self.segment.first, first - 1, self.entries)
        try:
            self.files.append(self.segment.index_name, [index])
            self.files.sync(self.segment.index_name)
            self.segment = Segment(self.segment.number + 1, first)
            self.open()
        except DiskFull:
            if self.segment != before[0]:
                self.files.remove(self.segment.name)
            self.segment, self.size, self.entries = before
            self._name = self.segment.name
            self.files.remove(self.segment.index_name)

    def _drop(self, needed: int) -> None:
        """Segments that end before this position go."""
        there = segments(self.files.names())
        gone = [segment for segment, follower in itertools.pairwise(there) if follower.first <= needed]
        for segment in gone:
            self.files.remove(segment.index_name)
            self.files.remove(segment.name)
        if gone:
            self.files.sync_names()

    def room(self) -> bool:
        """Whether a disk that was full has room again: twice what is kept free, so that it does not come and
        go."""
        return self.files.free_bytes() >= 2 * self.reserve

    def note(self) -> None:
        """Nothing is to be done just now: write the mark, if it has moved."""
        if self.synced != self._marked:
            self._marked = self.synced
            self._turn += 1
            at, slot = mark.pack_slot(self._turn, self.synced)
            self.files.write(mark.NAME, at, slot)
