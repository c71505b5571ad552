"""A record says what it is and where it belongs; the index says the same without the publications."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.journal.index import decode_index, encode_index, entry_of, header_of, summary
from overlay.journal.mark import SLOT_BYTES, pack_slot, read_mark
from overlay.journal.names import Segment, segments
from overlay.journal.record import ALIGN, HEADER_BYTES, PUBS, SETTLED, find_next, pack, read_body, read_header
from overlay.journal.scanning import scan

BODIES = st.binary(max_size=300)


def record(body: bytes, position: int = 7, items: int = 3, segment: int = 2, offset: int = 0) -> bytes:
    return b"".join(pack(SETTLED, body, position, items, segment, offset, 99, 6, crc32(body)))


@given(BODIES, st.integers(1, 2**60), st.integers(0, 2**31))
def test_round_trip(body: bytes, position: int, items: int) -> None:
    data = record(body, position, items)
    header = read_header(data, 0, 2)
    assert header is not None and len(data) == header.size and len(data) % ALIGN == 0
    assert (header.position, header.items, header.incarnation, header.synced) == (position, items, 99, 6)
    assert read_body(data, header) == body


@given(BODIES, st.data())
def test_any_changed_bit_is_seen(body: bytes, data: st.DataObject) -> None:
    good = record(body)
    at = data.draw(st.integers(0, HEADER_BYTES + len(body) - 1))
    bad = bytearray(good)
    bad[at] ^= 1 << data.draw(st.integers(0, 7))
    header = read_header(bytes(bad), 0, 2)
    assert header is None or read_body(bytes(bad), header) is None


def test_a_whole_record_at_the_wrong_place_is_none() -> None:
    here = record(b"x", offset=0)
    assert read_header(here, 0, segment=3) is None  # of another segment
    assert read_header(bytes(8) + here, 8, segment=2) is None  # of another offset
    assert find_next(bytes(8) + here, 0, 2) is None


def test_a_body_that_looks_like_a_record_is_not_taken_for_one() -> None:
    inner = record(b"forged", position=100, offset=0)
    outer = record(inner + b"\0" * 8, offset=0)
    assert find_next(outer, ALIGN, 2) is None


def test_skipped_positions_between_whole_records_are_no_damage() -> None:
    first = record(b"a", position=1, items=2)
    second = record(b"b", position=9, items=1, offset=len(first))
    scanned = scan(first + second, 2, 1)
    assert [header.position for header in scanned.records] == [1, 9]
    assert not scanned.damages and scanned.next == 10


def test_index_holds_what_a_scan_finds() -> None:
    head = b"stream bits"
    body = len(head).to_bytes(4, "little") + head + b"publications" * 50
    data = b"".join(pack(PUBS, body, 1, 50, 4, 0, 9, 0, crc32(body)))
    header = read_header(data, 0, 4)
    assert header is not None
    entry = entry_of(header, body)
    assert entry.summary == body[: 4 + len(head)] == summary(PUBS, body)
    encoded = encode_index(4, 1, 50, [entry])
    index = decode_index(encoded, 4)
    assert index is not None and index.entries == [entry] and index.last == 50
    assert read_body(data, header_of(index.entries[0], 4)) == body


@pytest.mark.parametrize("at", [0, 3, 4, 6, -1])
def test_a_damaged_index_is_none(at: int) -> None:
    encoded = bytearray(encode_index(4, 1, 50, []))
    encoded[at] ^= 1
    assert decode_index(bytes(encoded), 4) is None
    assert decode_index(b"", 4) is None
    assert decode_index(encode_index(4, 1, 50, []), 5) is None


def test_a_torn_mark_leaves_the_one_before() -> None:
    file = bytearray(2 * SLOT_BYTES)
    for turn, position in ((1, 10), (2, 20), (3, 30)):
        at, slot = pack_slot(turn, position)
        file[at : at + SLOT_BYTES] = slot
    assert read_mark(bytes(file)) == (3, 30)
    file[SLOT_BYTES + 6] ^= 1
    assert read_mark(bytes(file)) == (2, 20)
    assert read_mark(b"") == (0, 0)


def test_segments_are_known_by_their_names() -> None:
    one, two = Segment(9, 1), Segment(10, 12345)
    assert segments([two.name, "mark", one.index_name, one.name, two.beside]) == [one, two]
