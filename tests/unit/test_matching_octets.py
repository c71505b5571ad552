"""Bits of some slots are written into rows of bits, and no others are touched."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from matching.octets import Octets

SLOTS = 256


def kinds(random: Random) -> list[list[int]]:
    first = 8 * random.randrange(8)
    return [
        [random.randrange(SLOTS)],
        list(range(first, first + 64)),  # whole octets
        list(range(first, first + 63)),
        list(range(first + 1, first + 65)),
        sorted(random.sample(range(SLOTS), 40)),
        sorted({8 * random.randrange(SLOTS // 8) for _ in range(20)}),  # an octet each
        list(range(SLOTS)),
    ]


@pytest.mark.parametrize("seed", range(10))
def test_the_bits_of_the_slots_and_no_others(seed: int) -> None:
    random, generator = Random(seed), np.random.default_rng(seed)
    for slots in kinds(random):
        bits = generator.random((5, SLOTS)) < 0.5
        within = generator.random((5, len(slots))) < 0.5
        cells = np.packbits(bits, axis=-1, bitorder="little")
        Octets(np.array(slots)).write(cells, within)
        bits[:, slots] = within
        assert (np.unpackbits(cells, axis=-1, bitorder="little") == bits).all()
