"""The bits of a segment mean what they say, after any number of splits and merges."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from grapevine.filters import parse
from grapevine.filters.normal import Op, Predicate, Value
from matching import group
from matching.bounds import number_bounds
from matching.check import satisfied
from matching.index import Index
from matching.segments import Segments
from tests.unit.test_matching_dense import predicate, text

VALUES: list[Value] = [
    *range(-5, 90),
    *(x + 0.5 for x in range(-5, 90)),
    True,
    False,
    2**53 + 1,
    float("inf"),
]


def random_predicate(random: Random) -> Predicate:
    others = (
        Predicate("a", Op.EXISTS),
        Predicate("a", Op.ABSENT),
        Predicate("a", Op.EQ, True),
        Predicate("a", Op.NE, False),
        Predicate("a", Op.EQ, text(random, 0)),
        Predicate("a", Op.SUFFIX, text(random, 0)),
        Predicate("a", Op.NOT_PREFIX, text(random, 0)),
        Predicate("a", Op.RANGE, (2**53, None, True, False)),
        Predicate("a", Op.EQ, 2**53 + 1),
    )
    return random.choice(others) if random.random() < 0.3 else predicate(random, "a", 0)


class Known:
    """Slots as a table asks about them."""

    def __init__(self, slots: dict[int, Predicate]) -> None:
        self._slots = slots

    def predicates(self, slot: int) -> tuple[Predicate, ...]:
        return (self._slots[slot],)

    def plain(self, slots: list[int]) -> list[int]:
        return [slot for slot in slots if number_bounds(self._slots[slot]) is not None]

    def ends(self, table: int, slots: list[int]) -> tuple[Any, Any]:
        bounds = np.array([number_bounds(self._slots[slot]) for slot in slots])
        return bounds[:, 0], np.nextafter(bounds[:, 1], np.inf)


def assert_bits_hold(table: Segments, slots: dict[int, Predicate], values: list[Value]) -> None:
    for value in [None, *values]:
        row = table.row(value)
        attributes = {} if value is None else {"a": value}
        for slot, asked in slots.items():
            out, edge = table.out[row][slot], table.edge[row][slot]
            if satisfied((asked,), attributes):
                assert not out, (value, asked)
            else:
                assert out or edge, (value, asked)


@pytest.mark.parametrize("seed", range(6))
def test_splits_and_merges_keep_the_meaning(seed: int) -> None:
    random = Random(seed)
    table = Segments("a", 0, 128)
    values = [*VALUES, *(text(random, 0) for _ in range(40))]
    slots: dict[int, Predicate] = {}
    for slot in range(100):
        slots[slot] = random_predicate(random)
        table.count += 1
        table.set(slot, slots[slot])
        if slot % 3 == 0:
            table.split(random.randrange(3, table.rows), Known(slots))
        if slot % 4 == 0 and table.rows > 8:
            text_rows = 4 + len(table.cuts)
            row = random.choice([row for row in range(3, table.rows - 1) if row + 1 != text_rows])
            table._merge(row)
        if slot % 20 == 19:
            assert_bits_hold(table, slots, values)
    for slot in range(50):
        table.clear(slot)
        del slots[slot]
        assert not any(row[slot] for row in (*table.out, *table.edge))
    assert_bits_hold(table, slots, values)


def test_few_values_have_no_edges() -> None:
    """With all bounds cut at, bits alone decide."""
    table = Segments("a", 0, 64)
    asked = [Predicate("a", Op.RANGE, (low, low + 2, True, False)) for low in range(6)]
    for slot, one in enumerate(asked):
        table.count += 1
        table.set(slot, one)
    for _ in range(40):
        for row in range(3, table.rows):
            if table.edge[row].any():
                table.split(row, Known(dict(enumerate(asked))))
                break
    assert not any(row.any() for row in table.edge)


def test_rows_that_no_cell_describes_are_found_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    large = 2**53 + 1  # no float
    for columns in (2, 1000):
        monkeypatch.setattr(group, "COLUMNS", columns)
        index = Index()
        for sid in range(60):
            index.add(sid, parse(f"k = 'x' and a >= {large + sid} and b > {sid}"), 0)
        assert index.covered(parse("k = 'x' and a >= 50")) == list(range(60))
        assert index.covered(parse(f"a >= {large + 50} and b > 54")) == list(range(54, 60))
