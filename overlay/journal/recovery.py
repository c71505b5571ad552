"""What a journal holds when a broker starts: segments read, damage judged, the tail written anew.

Sealed segments are read by their index where there is a good one. The last segment is always scanned, and
*written anew and synced before anybody is told anything*: what a killed process wrote and did not sync can
be read now and may be gone after the next power cut, when others have acted on it.

A tail is written beside and renamed, so that it is there whole or not at all; its START names the segment in
whose place it is, which is removed after. A daemon that dies between the two leaves both: the old one does
not items.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from overlay.journal import mark
from overlay.journal.files import DiskFull, Files
from overlay.journal.index import Entry, decode_index, encode_index, entry_of, hole_entry
from overlay.journal.judging import Hole, Verdict, evidence, judge_sealed, judge_tail
from overlay.journal.names import Segment, segments
from overlay.journal.record import HOLE, KINDS, START, VERSION, Header, read_body
from overlay.journal.scanning import Scanned, scan
from overlay.journal.writing import Append, Writer

TAIL_PIECE = 4 << 20


class Unreadable(Exception):
    """A journal that this version must not touch; the text says what to do."""


class Recovered(NamedTuple):
    writer: Writer
    entries: list[tuple[Segment, list[Entry]]]  # all that items, in order
    holes: list[Hole]
    next: int  # the position that is given next
    torn: int  # bytes at the end that do not items, which may have been acknowledged
    scanned: int  # segments that had to be read whole, the tail apart


def recover(files: Files, incarnation: int) -> Recovered:
    """DiskFull: not even the tail can be written anew."""
    turn, marked = _read_mark(files)
    there = _living(files)
    if not there:
        writer = Writer(files, incarnation, Segment(1, 1), 0, turn)
        writer.open()
        return Recovered(writer, [], [], 1, 0, 0)
    entries: list[tuple[Segment, list[Entry]]] = []
    holes: list[Hole] = []
    witnessed = marked
    read = 0
    for segment, follower in itertools.pairwise(there):
        found, gone, scanned = _sealed(files, segment, follower.first - 1)
        entries.append((segment, found))
        holes += gone
        read += scanned
        witnessed = max([witnessed, follower.first - 1, *(entry.synced for entry in found)])
    tail = there[-1]
    data = files.read(tail.name)
    verdict = _judged(data, tail, witnessed)
    holes += verdict.holes
    writer, found = _write_anew(files, incarnation, tail, data, verdict, turn)
    entries.append((writer.segment, found))
    return Recovered(writer, entries, holes, verdict.next, verdict.torn, read)


def _read_mark(files: Files) -> tuple[int, int]:
    return mark.read_mark(files.read(mark.NAME)) if mark.NAME in files.names() else (0, 0)


def _living(files: Files) -> list[Segment]:
    """The segments that items; what a killed daemon has left half done goes."""
    names = files.names()
    for name in names:
        if name.endswith(".new"):
            files.remove(name)
    there = segments(names)
    # A tail that was written anew begins where the one in whose place it is begins.
    replaced = [segment for segment, follower in itertools.pairwise(there) if segment.first == follower.first]
    for segment in replaced:
        if _stands_for(files, there[there.index(segment) + 1], segment.number):
            files.remove(segment.index_name)
            files.remove(segment.name)
            there.remove(segment)
    return there


def _stands_for(files: Files, segment: Segment, other: int) -> bool:
    scanned = scan(files.read(segment.name, 0, TAIL_PIECE), segment.number, segment.first)
    if not scanned.records or scanned.records[0].kind != START:
        return True  # its beginning is damaged; it was renamed whole, and the other would have been sealed
    data = files.read(segment.name, 0, scanned.records[0].size)
    body = read_body(data, scanned.records[0])
    return body is not None and int.from_bytes(body, "little") == other


def _sealed(files: Files, segment: Segment, until: int) -> tuple[list[Entry], list[Hole], int]:
    if segment.index_name in files.names():
        index = decode_index(files.read(segment.index_name), segment.number)
        if index is not None and index.last == until:
            return index.entries, [], 0
    data = files.read(segment.name)
    records, holes = judge_sealed(scan(data, segment.number, segment.first), segment.number, until)
    entries = _merged(_entries(data, _known(records)), holes)
    _write_index(files, segment, until, entries)
    return entries, holes, 1


def _write_index(files: Files, segment: Segment, until: int, entries: list[Entry]) -> None:
    """So that it is scanned once only; and what is missing now is not asked for again."""
    files.remove(segment.index_name)
    try:
        files.append(segment.index_name, [encode_index(segment.number, segment.first, until, entries)])
    except DiskFull:
        files.remove(segment.index_name)
    else:
        files.sync(segment.index_name)


def _merged(entries: Iterator[Entry], holes: list[Hole]) -> list[Entry]:
    lost = [hole_entry(hole.first, hole.last) for hole in holes]
    return sorted([*entries, *lost], key=lambda entry: (entry.position, entry.last))


def _judged(data: bytes, tail: Segment, marked: int) -> Verdict:
    scanned: Scanned = scan(data, tail.number, tail.first)
    return judge_tail(scanned, tail.number, evidence([scanned], marked))


def _known(records: list[Header]) -> list[Header]:
    for header in records:
        if header.version != VERSION or header.kind not in KINDS:
            raise Unreadable(
                f"the journal has a record of kind {header.kind}, version {header.version}, which this "
                "release does not know: start the one that wrote it, or move the journal away to begin anew"
            )
    return records


def _entries(data: bytes, records: list[Header]) -> Iterator[Entry]:
    for header in records:
        body = read_body(data, header)
        assert body is not None
        yield entry_of(header, body)


def _write_anew(
    files: Files, incarnation: int, tail: Segment, data: bytes, verdict: Verdict, turn: int
) -> tuple[Writer, list[Entry]]:
    """Everything of the tail that counts, in the segment after it."""
    segment = Segment(tail.number + 1, tail.first)
    writer = Writer(files, incarnation, segment, verdict.next - 1, turn)
    lost = [Append(HOLE, hole.first, hole.last - hole.first + 1) for hole in verdict.holes]
    records = sorted([*_appends(data, _known(verdict.records)), *lost], key=lambda append: append.position)
    writer.renew(tail.number, records)
    files.remove(tail.index_name)
    files.remove(tail.name)
    files.sync_names()
    return writer, writer.entries[1:]


def _appends(data: bytes, records: list[Header]) -> Iterator[Append]:
    for header in records:
        if header.kind != START:
            body = read_body(data, header)
            assert body is not None
            yield Append(header.kind, header.position, header.items, body)
