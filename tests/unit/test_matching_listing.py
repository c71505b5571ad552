"""Listing the ones of a bit vector, however many there are and wherever they lie."""

from __future__ import annotations

from random import Random

import pytest
from bitarray import bitarray

from matching.listing import ones


@pytest.mark.parametrize("length", [64, 4096, 43_008, 65_536])
@pytest.mark.parametrize("count", [0, 1, 2, 31, 255, 256, 1000, 65_536])
def test_ones(length: int, count: int) -> None:
    random = Random(length * 7 + count)
    places = sorted(random.sample(range(length), min(count, length)))
    bits = bitarray(length, endian="little")
    for place in places:
        bits[place] = 1
    assert ones(bits).tolist() == places


@pytest.mark.parametrize("first", [0, 63, 64, 40_000])
def test_ones_in_a_row(first: int) -> None:
    bits = bitarray(65_536, endian="little")
    bits[first : first + 300] = 1
    assert ones(bits).tolist() == list(range(first, first + 300))
