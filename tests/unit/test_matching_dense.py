"""Many filters alike, whose values wander: segments are split where they come and merged where they went.

The filters of hypothesis are of every kind but few; here they are of few kinds but many, so that rows of bits
fill up, and the same questions are compared with the scan.
"""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters.normal import Conjunction, Filter, Op, Predicate, Value, predicate_key
from matching import blocks, cuts, group, kernel, slotted
from matching.blocks import Blocks
from matching.index import Index
from matching.scan import Scan

LETTERS = "abcdefgh"


def text(random: Random, spot: int) -> str:
    return "".join(LETTERS[(spot // 40 + random.randrange(4)) % 8] for _ in range(random.randint(1, 3)))


def predicate(random: Random, name: str, spot: int) -> Predicate:
    low = spot + random.randrange(40)
    high = low + random.randint(1, 30)
    open_ends = (random.random() < 0.5, random.random() < 0.5)
    kind = random.randrange(11)
    if kind < 4:
        return Predicate(name, Op.RANGE, (low, high, *open_ends))
    if kind == 4:
        return Predicate(name, Op.RANGE, (low, None, open_ends[0], False))
    if kind == 5:
        return Predicate(name, Op.RANGE, (None, high, False, open_ends[1]))
    if kind == 6:
        return Predicate(name, Op.PREFIX, text(random, spot))
    if kind == 7:
        first, last = sorted((text(random, spot), text(random, spot) + "z"))
        return Predicate(name, Op.RANGE, (first, last, *open_ends))
    if kind == 8:
        return Predicate(name, Op.IN, (low, high))
    if kind == 9:
        return Predicate(name, Op.RANGE, (low, low + 1, *open_ends))
    return Predicate(name, Op.NE, low)


def form(random: Random, spot: int, key: str | None) -> Filter:
    names = random.sample(("a", "b", "c"), random.randint(1, 3))
    found: list[Conjunction] = []
    for _ in range(2 if random.random() < 0.1 else 1):
        predicates = [predicate(random, name, spot) for name in names]
        if key is not None and random.random() < 0.5:  # an equality that more rows share than the key
            predicates.append(Predicate("all", Op.EQ, random.choice(("x", "y"))))
        if key is not None:
            predicates.append(Predicate("key", Op.EQ, key))
        found.append(tuple(sorted(predicates, key=predicate_key)))
    return Filter(tuple(found))


def point(random: Random, spot: int) -> dict[str, Value]:
    names = random.sample(("a", "b", "c"), random.randint(1, 3))
    values: dict[str, Value] = {
        name: text(random, spot) if random.random() < 0.2 else spot + random.randrange(-10, 80)
        for name in names
    }
    return values | {"key": "k", "all": random.choice(("x", "y", "z", 1))}


def compare(index: Index, scan: Scan, random: Random, spot: int, key: str | None) -> None:
    for back in (0, 0, 20, 50, 80, 120, 160):  # also where the values have gone from
        attributes = point(random, spot - back)
        assert sorted(index.match(attributes)) == scan.match(attributes)
        assert index.groups(attributes) == scan.groups(attributes)
        found = [(group, sorted(memoryview(row).cast("I"))) for group, row in index.deliveries(attributes)]
        assert found == [
            (group, sorted(memoryview(row).cast("I"))) for group, row in scan.deliveries(attributes)
        ]
    other = form(random, spot - random.randrange(60), key)
    assert index.covering(other) == scan.covering(other)
    assert index.covered(other) == scan.covered(other)
    assert index.overlapping(other) == scan.overlapping(other)


def wander(seed: int, key: str | None) -> Index:
    random = Random(seed)
    index, scan = Index(), Scan()
    live: list[int] = []
    for sid in range(700):
        spot = sid // 2 - random.randrange(100)
        filter = form(random, spot, key)
        index.add(sid, filter, sid % 13)
        scan.add(sid, filter, sid % 13)
        live.append(sid)
        if len(live) > 160:
            gone = live.pop(random.randrange(40))
            index.remove(gone)
            scan.remove(gone)
        if sid % 23 == 0:
            compare(index, scan, random, spot, key)
    return index


@pytest.mark.parametrize("with_kernel", [True, False])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("columns", [2, 100_000])
def test_values_that_wander(
    with_kernel: bool, key: str | None, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = 0

    def counted(self: slotted.Slotted, table: object, plain: object = slotted.Slotted._cuts) -> object:
        nonlocal cut
        cut += 1
        return plain(self, table)  # type: ignore[operator]

    monkeypatch.setattr(slotted.Slotted, "_cuts", counted)
    monkeypatch.setattr(cuts, "BOUNDS", 2)
    monkeypatch.setattr(cuts, "MAX_CUTS", 20)
    monkeypatch.setattr(slotted, "SOON", 5)
    monkeypatch.setattr(slotted, "_CHUNK", 24)
    monkeypatch.setattr(group, "COLUMNS", columns)
    monkeypatch.setattr(blocks, "_SMALL", 64)
    monkeypatch.setattr(slotted, "STAGED", 7)
    if not with_kernel:
        monkeypatch.setattr(kernel, "module", None)
    index = wander(5, key)
    stores = [found.store for found in index._keys.groups() if found.store is not None]
    if key is None or columns == 2:
        assert cut > 10 and any(isinstance(store, Blocks) for store in stores)
    else:
        assert stores and not any(isinstance(store, Blocks) for store in stores)
