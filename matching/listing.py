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

_TWO_BYTES = 0xC2
_POSITION = np.dtype("<u2")
_FIRST = 2048  # bits that are counted
_MANY = 12  # ones among them; from 8 on the vector is not written as 2-byte positions


def ones(bits: bitarray) -> Ints:
    """Positions of the ones, ascending; the length is a multiple of 64."""
    if bits.count(1, 0, _FIRST) >= _MANY:
        return _unpacked(bits)
    written = sc_encode(bits)
    head = 1 + (written[0] & 15)
    if written[head] == _TWO_BYTES:
        count = written[head + 1]
        if len(written) == head + 3 + 2 * count:  # one block, and the zero that ends it
            return np.frombuffer(written, _POSITION, count, head + 2).astype(np.int64)
    elif not written[head]:
        return np.zeros(0, np.int64)
    return _unpacked(bits)


def _unpacked(bits: bitarray) -> Ints:
    octets = np.frombuffer(bits, np.uint8)  # type: ignore[call-overload]
    return np.unpackbits(octets, bitorder="little").view(np.bool_).nonzero()[0]
