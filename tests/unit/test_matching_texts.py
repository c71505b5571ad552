"""A text that must be equal beside ranges of numbers, in blocks: its number places a slot, if it can."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters.normal import Filter, Op, Predicate, Value
from matching.blocks import Blocks
from matching.index import Index
from matching.scan import Scan
from matching.slotted import Slotted

ROWS = 5000
_TEXTS = ("", "0", "a", "a\0", "b", "\U0010ffff")


def quote(random: Random) -> Filter:
    """As quotes are asked for: the key, a class, a range."""
    low = random.randrange(1000)
    return Filter(
        (
            (
                Predicate("class", Op.EQ, random.choice(("BOND", "STOCK"))),
                Predicate("low", Op.RANGE, (low, low + 100, False, True)),
                Predicate("symbol", Op.EQ, random.choice("abcd")),
            ),
        )
    )


def test_few_rows_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    plain = Slotted.predicates

    def counted(slotted: Slotted, slot: int) -> tuple[Predicate, ...]:
        nonlocal looks
        looks += 1
        return plain(slotted, slot)

    monkeypatch.setattr(Slotted, "predicates", counted)
    random, index = Random(1), Index()
    for sid in range(4 * ROWS):
        index.add(sid, quote(random), 0)
    while index.work(1000):
        pass
    assert isinstance(index._keys.accesses["symbol"].values["a"].store, Blocks)
    assert looks < 4 * ROWS


def test_texts_and_numbers_of_one_attribute() -> None:
    """`a` may be asked for a text, a range, both (which nothing satisfies) or by one more operator."""
    random, index, scan = Random(2), Index(), Scan()
    for sid in range(ROWS):
        filter = Filter((tuple(_some(random)),))
        index.add(sid, filter, sid % 3)
        scan.add(sid, filter, sid % 3)
    for sid in range(0, ROWS, 3):
        index.remove(sid)
        scan.remove(sid)
    values: list[Value] = [*_TEXTS, 0, 1, 2.5, 4, True]
    for _ in range(2):
        for a in values:
            for b in (3, "a"):
                point = {"a": a, "b": b}
                assert sorted(index.match(point)) == scan.match(point)
                assert index.groups(point) == scan.groups(point)
        while index.work(1000):
            pass


def _some(random: Random) -> list[Predicate]:
    text = Predicate("a", Op.EQ, random.choice(_TEXTS))
    low = random.randrange(5)
    numbers = Predicate("a", Op.RANGE, (low, low + 3, False, True))
    prefix = Predicate("a", Op.PREFIX, "a")
    b = Predicate("b", Op.RANGE, (low, None, False, False))
    return [*random.choice(([text], [numbers], [text, numbers], [text, prefix], [numbers, text])), b]
