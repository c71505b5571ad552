"""Ranges of numbers only, all of them placed: what the index in Python finds by its one quick function.

Sparse and crowded publications, floats, integers, texts and attributes that are missing, while rows come, go,
come into freed slots, and segments are cut anew.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from bitarray import bitarray

from grapevine.filters.normal import Filter, Op, Predicate, Value
from matching import kernel
from matching.block import Block
from matching.finder import finder
from matching.index import Index
from matching.listing import BLOCK
from matching.scan import Scan


def form(random: Random, attributes: int) -> Filter:
    """Whole numbers are bounds as often as they are values."""
    widths = (5, 20, 40, 200) if attributes < 5 else (40, 200, 200, 200)
    ranges = []
    for name in range(attributes):
        low = random.choice((random.uniform(0, 100), random.randrange(100)))
        high = low + random.choice(widths)
        ranges.append(
            Predicate(f"a{name}", Op.RANGE, (low, high, random.random() < 0.5, random.random() < 0.5))
        )
    return Filter((tuple(ranges),))


def publication(random: Random, attributes: int) -> dict[str, Value]:
    point: dict[str, Value] = {f"a{name}": random.uniform(-10, 110) for name in range(attributes)}
    point[f"a{random.randrange(attributes)}"] = random.choice((random.randrange(100), 2**60, "text", True))
    if random.random() < 0.2:
        del point[f"a{random.randrange(attributes)}"]
    return point


@pytest.mark.parametrize("attributes", [1, 3, 4, 5, 8])
def test_what_the_scan_finds(attributes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "module", None)
    monkeypatch.setattr(Block, "_hits", lambda *_: pytest.fail("a row is odd, or staged"))
    random = Random(attributes)
    index, scan = Index(), Scan()
    live: list[int] = []
    sizes = []
    for step in range(3):
        for sid in range(step * 1500, step * 1500 + 1500):
            filter = form(random, attributes)
            index.add(sid, filter, 0)
            scan.add(sid, filter, 0)
            live.append(sid)
        for _ in range(400):
            sid = live.pop(random.randrange(len(live)))
            index.remove(sid)
            scan.remove(sid)
        while index.work(1000):
            pass
        for number in range(60):
            point = publication(random, attributes)
            if number % 4 == 0:
                point = {name: random.uniform(0, 100) for name in point}
            expected = sorted(scan.match(point))
            assert sorted(index.match(point)) == expected
            sizes.append(len(expected))
            if number % 2:  # what is kept from match to match must follow rows that go and come
                gone = expected[0] if expected else live[0]
                live.remove(gone)
                index.remove(gone)
                scan.remove(gone)
            else:
                sid = 10_000 + len(sizes)
                for engine in (index, scan):
                    engine.add(sid, Filter(((Predicate("a0", Op.RANGE, (-20.0, 120.0, False, False)),),)), 0)
                live.append(sid)
                while index.work(1000):
                    pass
            assert sorted(index.match(point)) == sorted(scan.match(point))
    assert min(sizes) == 0 and max(sizes) > 10


def test_slots_behind_the_first_65536_are_found_as_well() -> None:
    """No block has so many now, and it is said elsewhere (`slotted.MAX_CELLS`)."""
    placed = bitarray(2 * BLOCK, endian="little")
    placed[[5, BLOCK + 7]] = 1
    cells, vector = np.zeros((len(placed), 2)), np.zeros(2)
    assert finder([], placed, {}, cells, np.arange(len(placed)), vector)({}) == [5, BLOCK + 7]
