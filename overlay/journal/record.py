"""One record of the journal as bytes, and what a header proves.

A header says what the record is, which positions it takes, and *where it belongs*: the number of its segment
and its offset there. So a whole, valid record at the wrong place (a misdirected write, a file from before) is
seen for what it is, and after damage the next true record can be looked for without being deceived by
bytes that only look like one. It also says what was known to be on disk when it was written (`synced`):
that is how recovery tells a record that was never finished from one that has rotted (judging.py).

A record takes `items` positions from `position` on. START takes none: it opens a segment.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from zlib import crc32

Buffer = bytes | memoryview

MAGIC = 0x4A47  # "GJ"
VERSION = 1
ALIGN = 8
# magic, version, kind, body bytes, position, items, segment, offset, incarnation, synced, crc of body
_FIELDS = Struct("<HBBIQIIIQQI")
_CRC = Struct("<I")
HEADER_BYTES = _FIELDS.size + _CRC.size
BODY_MOST = 64 << 20
_MAGIC_BYTES = MAGIC.to_bytes(2, "little")

PUBS, SETTLED, CURSOR, STREAM, START = 1, 2, 3, 4, 5
COPY, HANDOVER = 6, 7  # the latter is promised to a later part
ADVERT, SOURCES = 8, 9
HOLE = 10  # stands for positions that were on disk and are lost
NAMES = 11
COPY_FREED, COPY_STATE, KEEPER = 12, 13, 14
KINDS = frozenset(
    (PUBS, SETTLED, CURSOR, STREAM, START, ADVERT, SOURCES, HOLE, NAMES, COPY, COPY_FREED, COPY_STATE, KEEPER)
)
BULK = frozenset((PUBS, COPY))  # their publications stand behind a head, and they need more than the reserve


class Header(NamedTuple):
    kind: int
    length: int
    position: int
    items: int
    segment: int
    offset: int
    incarnation: int
    synced: int
    body_crc: int
    version: int = VERSION

    @property
    def size(self) -> int:
        return record_bytes(self.length)

    @property
    def last(self) -> int:
        return self.position + self.items - 1

    @property
    def body_at(self) -> int:
        return self.offset + HEADER_BYTES


def record_bytes(length: int) -> int:
    """What a record with a body of this length takes on disk."""
    return (HEADER_BYTES + length + ALIGN - 1) // ALIGN * ALIGN


def pack(
    kind: int,
    body: Buffer,
    position: int,
    items: int,
    segment: int,
    offset: int,
    incarnation: int,
    synced: int,
    body_crc: int,
) -> tuple[Buffer, ...]:
    """The record in pieces, for one writev: the body is not copied."""
    fields = _FIELDS.pack(
        *(MAGIC, VERSION, kind, len(body), position, items, segment, offset, incarnation, synced, body_crc)
    )
    padding = bytes(-(HEADER_BYTES + len(body)) % ALIGN)
    head = fields + _CRC.pack(crc32(fields))
    return (head, body, padding) if padding else (head, body)


def read_header(data: Buffer, at: int, segment: int, base: int = 0) -> Header | None:
    """The header at `at` of what begins at offset `base` of this segment; None: there is none that belongs
    there."""
    if at + HEADER_BYTES > len(data):
        return None
    magic, version, kind, length, position, items, number, offset, incarnation, synced, body_crc = (
        _FIELDS.unpack_from(data, at)
    )
    if magic != MAGIC or number != segment or offset != base + at or length > BODY_MOST:
        return None
    if _CRC.unpack_from(data, at + _FIELDS.size)[0] != crc32(memoryview(data)[at : at + _FIELDS.size]):
        return None
    return Header(kind, length, position, items, number, offset, incarnation, synced, body_crc, version)


def read_body(data: Buffer, header: Header, base: int = 0) -> memoryview | None:
    """The body of a record; None: it is damaged or not all there."""
    start = header.body_at - base
    body = memoryview(data)[start : start + header.length]
    if len(body) != header.length or crc32(body) != header.body_crc:
        return None
    return body


def find_next(data: bytes, at: int, segment: int) -> Header | None:
    """The first header at or behind `at` that is where it belongs: behind damage the length of what was
    there is unknown."""
    while (at := data.find(_MAGIC_BYTES, at)) >= 0:
        if at % ALIGN == 0 and (header := read_header(data, at, segment)) is not None:
            return header
        at += 1
    return None
