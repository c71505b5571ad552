"""The ones of a bit vector as an array of their positions, by the cheapest way for how many there are.

* Few: `sc_encode` writes the ones of a sparse vector as 2-byte positions (bitarray's documented format:
  length of the length, the length, then blocks; a block 0xc2 is a count and so many positions).
* Many, or written in another way: unpacked by numpy. That there are many is told from the first of them,
  because the other way costs most where it is of no use.
bitarray's own `search` makes a Python int of each position, which costs more than either.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from bitarray import bitarray
from bitarray.util import sc_encode

Ints = npt.NDArray[np.int64]

TWO_BYTES = 0xC2
POSITION, INT = np.dtype("<u2"), np.dtype(np.int64)
_NONE = np.zeros(0, np.int64)
_frombuffer = np.frombuffer
FIRST = 2048  # bits that are counted
BLOCK = 1 << 16  # bits of which one block has all positions
MANY = 12  # ones among them; from 8 on the vector is not written as 2-byte positions


def ones(bits: bitarray) -> Ints:
    """Positions of the ones, ascending; the length is a multiple of 64."""
    if bits.count(1, 0, FIRST) >= MANY:
        return unpacked(bits)
    written = sc_encode(bits)
    head = written[0] + 1  # of little-endian bits
    if written[head] == TWO_BYTES and len(bits) <= BLOCK:
        return _frombuffer(written, POSITION, written[head + 1], head + 2).astype(INT)
    return unpacked(bits) if written[head] else _NONE


def unpacked(bits: bitarray) -> Ints:
    """The same, however many there are."""
    octets = np.frombuffer(bits, np.uint8)  # type: ignore[call-overload]
    return np.unpackbits(octets, bitorder="little").view(np.bool_).nonzero()[0]
