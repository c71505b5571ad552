"""The extension block: records there and back, cut-off ones and unknown critical ones refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.wire import WireError, decode_extension, encode_extension
from grapevine.wire.limits import EXTENSION_BYTES

RECORDS = st.lists(st.tuples(st.integers(0, 127), st.binary(max_size=300)), max_size=8)


@given(RECORDS)
def test_there_and_back(records: list[tuple[int, bytes]]) -> None:
    assert decode_extension(encode_extension(records)) == records


def test_layout() -> None:
    assert encode_extension([(5, b"ab"), (6, b"")]) == b"\x05\x00\x02ab\x06\x00\x00"


@given(RECORDS.filter(bool), st.data())
def test_a_block_that_ends_inside_a_record_is_refused(
    records: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    block = encode_extension(records)
    last = 3 + len(records[-1][1])
    missing = data.draw(st.integers(1, last - 1))
    with pytest.raises(WireError):
        decode_extension(block[:-missing])


def test_unknown_critical_type_is_refused_and_any_other_carried() -> None:
    assert decode_extension(encode_extension([(0x7F, b"x")])) == [(0x7F, b"x")]
    with pytest.raises(WireError, match="critical extension 255"):
        decode_extension(encode_extension([(1, b""), (0xFF, b"x")]))


def test_limits() -> None:
    full = encode_extension([(1, bytes(EXTENSION_BYTES - 3))])
    assert len(full) == EXTENSION_BYTES and decode_extension(full)
    with pytest.raises(WireError):
        decode_extension(full + b"\x01\x00\x00")
    with pytest.raises(ValueError):
        encode_extension([(1, bytes(EXTENSION_BYTES - 2))])
    with pytest.raises(ValueError):
        encode_extension([(256, b"")])
