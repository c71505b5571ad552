"""The index of a sealed segment: its records without their publications, so that a restart reads a few
megabytes for gigabytes of journal.

An entry has the record's header fields and its *summary*: the whole body of a small record, of PUBS and
COPY the part before the publications. Folding the entries of an index gives exactly what scanning its
segment would.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from overlay.journal.record import BULK, HOLE, Buffer, Header

VERSION = 1
_CRC_BYTES = 4
HEAD_LENGTH_BYTES = 4


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    offset: int
    kind: int
    position: int
    items: int
    length: int  # of the body
    body_crc: int
    synced: int
    summary: bytes

    @property
    def last(self) -> int:
        return self.position + self.items - 1


class Index(msgspec.Struct, frozen=True, array_like=True, gc=False):
    version: int
    segment: int
    first: int
    last: int  # the position before the next segment's first
    entries: list[Entry]


_decoder = msgspec.msgpack.Decoder(Index)


def summary(kind: int, body: Buffer) -> bytes:
    if kind not in BULK:
        return bytes(body)
    return bytes(body[: HEAD_LENGTH_BYTES + int.from_bytes(body[:HEAD_LENGTH_BYTES], "little")])


def entry_of(header: Header, body: Buffer) -> Entry:
    return Entry(
        header.offset,
        header.kind,
        header.position,
        header.items,
        header.length,
        header.body_crc,
        header.synced,
        summary(header.kind, body),
    )


def hole_entry(first: int, last: int) -> Entry:
    return Entry(0, HOLE, first, last - first + 1, 0, 0, 0, b"")


def header_of(entry: Entry, segment: int) -> Header:
    """Enough of the header to read the record's body by."""
    return Header(
        entry.kind,
        entry.length,
        entry.position,
        entry.items,
        segment,
        entry.offset,
        0,
        entry.synced,
        entry.body_crc,
    )


def encode_index(segment: int, first: int, last: int, entries: list[Entry]) -> bytes:
    body = msgspec.msgpack.encode(Index(VERSION, segment, first, last, entries))
    return crc32(body).to_bytes(_CRC_BYTES, "little") + body


def decode_index(data: bytes, segment: int) -> Index | None:
    """None: damaged, of another version or of another segment. Then the segment itself is read."""
    body = memoryview(data)[_CRC_BYTES:]
    if len(data) <= _CRC_BYTES or crc32(body).to_bytes(_CRC_BYTES, "little") != data[:_CRC_BYTES]:
        return None
    try:
        index = _decoder.decode(body)
    except msgspec.MsgspecError:
        return None
    return index if index.version == VERSION and index.segment == segment else None
