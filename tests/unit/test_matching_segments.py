"""The bits of a segment mean what they say, wherever values are cut."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from grapevine.filters import parse
from grapevine.filters.normal import Op, Predicate, Value
from matching import group
from matching.bounds import number_bounds
from matching.check import satisfied
from matching.cuts import number_cuts, predicate_cuts, text_cuts
from matching.index import Index
from matching.octets import Octets
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


def put(table: Segments, slot: int, predicate: Predicate) -> None:
    """As a block does: an interval with others, anything else by itself."""
    bounds = number_bounds(predicate)
    if bounds is None:
        clear(table, slot)
        table.set(slot, predicate)
    else:
        least, greatest = np.array(bounds)[:, None]
        table.fill(Octets(np.array([slot])), least, greatest)


def clear(table: Segments, slot: int) -> None:
    table.fill(Octets(np.array([slot])), np.array([-np.inf]), np.array([np.inf]))


def assert_bits_hold(table: Segments, slots: dict[int, Predicate], values: list[Value]) -> None:
    for value in [None, *values]:
        row = table.row(value)
        attributes = {} if value is None else {"a": value}
        for slot, asked in slots.items():
            within, beside = table.some[row][slot], table.some[row - 1][slot] and table.some[row + 1][slot]
            if satisfied((asked,), attributes):
                assert within, (value, asked)
            elif number_bounds(asked) is not None:
                assert not (within and beside), (value, asked)


@pytest.mark.parametrize("seed", range(12))
def test_bits_hold_however_the_values_are_cut(seed: int) -> None:
    random = Random(seed)
    values = [*VALUES, *(text(random, 0) for _ in range(40))]
    asked = [random_predicate(random) for _ in range(100)]
    found = [cut for one in asked for cut in predicate_cuts(one)]
    numbers = np.array([cut for cut in found if not isinstance(cut, str)])
    texts = [cut for cut in found if isinstance(cut, str)]
    most = random.choice((0, 1, 2, 5, 20, 1000))
    table = Segments("a", 0, 64, number_cuts(numbers, most), text_cuts(texts, most))
    table.resize(128)
    assert len(table.cuts) <= most and len(table.texts) <= most
    for slot in (*range(100), *range(0, 100, 3)):  # also over what was there
        random.shuffle(asked)
        put(table, slot, asked[slot])
        assert_bits_hold(table, {slot: asked[slot]}, values)
    slots = dict(enumerate(asked))
    for slot, one in slots.items():
        put(table, slot, one)
    assert_bits_hold(table, slots, values)
    for slot in range(50):
        clear(table, slot)
        del slots[slot]
        assert all(row[slot] for row in table.some)
    assert_bits_hold(table, slots, values)


def test_few_values_are_told_apart() -> None:
    """With a cut at each bound, bits alone decide."""
    asked = [Predicate("a", Op.RANGE, (low, low + 2, True, False)) for low in range(6)]
    found = np.array([cut for one in asked for cut in predicate_cuts(one)])
    table = Segments("a", 0, 64, number_cuts(found, 20))
    for slot, one in enumerate(asked):
        put(table, slot, one)
        assert all(table.some[table.row(v)][slot] == satisfied((one,), {"a": v}) for v in VALUES)


def test_cuts_lie_where_bounds_are_and_where_values_may_fall() -> None:
    """The root of the density: a hundred times the bounds have ten times the cuts."""
    dense, sparse = np.linspace(0, 1, 10_000), np.linspace(1, 2, 100)
    cuts = number_cuts(np.concatenate((dense, sparse)), 111)
    assert 100 <= len(cuts) <= 111
    left = sum(cut < 1 for cut in cuts)
    assert 3 < left / (len(cuts) - left) < 30
    far = number_cuts(np.concatenate((dense, np.geomspace(10, 1e30, 100))), 111)
    assert sum(cut <= 1 for cut in far) > 80


def test_rows_that_no_cell_describes_are_found_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    large = 2**53 + 1  # no float
    for columns in (2, 1000):
        monkeypatch.setattr(group, "COLUMNS", columns)
        index = Index()
        for sid in range(60):
            index.add(sid, parse(f"k = 'x' and a >= {large + sid} and b > {sid}"), 0)
        assert index.covered(parse("k = 'x' and a >= 50")) == list(range(60))
        assert index.covered(parse(f"a >= {large + 50} and b > 54")) == list(range(54, 60))
