"""Rows from Arrow to results: what is encoded by columns is what each row alone gives."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from grapevine.wire.driving import is_plausible, rows_of
from pipeline.channels.encoding import _bytes_head, _head_sizes, encode, runs_of

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

KINDS: dict[str, tuple[Any, list[Any]]] = {
    "id": (pa.int64(), [0, 1, -1, 127, 128, -129, 2**31, 2**63 - 1, -(2**63)]),
    "size": (pa.float64(), [0.0, -0.0, 1.5, math.inf, -math.inf, 1e300]),
    "small": (pa.float32(), [0.0, 1.5, -2.25]),
    "type": (pa.string(), ["", "fire", "it's", "käse", "x" * 40, "y" * 300]),
    "long": (pa.string(), ["z" * 70_000, "z"]),
    "on": (pa.bool_(), [True, False]),
    "raw": (pa.binary(), [b"", b"\x00\xff", b"b" * 300]),
    "when": (
        pa.timestamp("us", "UTC"),
        [datetime(2026, 11, 18, 9, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)],
    ),
    "day": (pa.date32(), [date(2026, 11, 18), date(1969, 1, 1)]),
    "price": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.00")]),
    "near": (
        pa.list_(pa.struct([("name", pa.string()), ("km", pa.float64())])),
        [[], [{"name": "a", "km": 0.5}]],
    ),
    "of": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
    "nothing": (pa.null(), [None]),
}


def one_by_one(table: Any, ordered: bool, at: float) -> dict[int, list[bytes]]:
    found: dict[int, list[tuple[int, bytes]]] = {}
    for number, row in enumerate(table.to_pylist()):
        be, place = row.pop("__be") % 2**64, row.pop("__row", number)
        found.setdefault(be, []).append((place, encode((at, row))))
    return {be: [row for _, row in sorted(rows, key=lambda each: each[0])] for be, rows in found.items()}


def drawn(chance: Random, count: int, ordered: bool) -> Any:
    sets = [chance.getrandbits(64) - 2**63 for _ in range(chance.choice((1, 5, 40)))]
    columns = {"__be": pa.array([chance.choice(sets) for _ in range(count)], pa.int64())}
    for name in chance.sample(sorted(KINDS), chance.randint(1, len(KINDS))):
        kind, values = KINDS[name]
        drawn_values = [None if chance.random() < 0.2 else chance.choice(values) for _ in range(count)]
        columns[name] = pa.array(drawn_values, kind)
    if ordered:
        columns["__row"] = pa.array(chance.sample(range(count), count), pa.int32())
    table = pa.table(columns)
    cut = chance.randint(0, count)
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])  # Spark gives chunks


@pytest.mark.parametrize("seed", range(60))
def test_columns_give_what_rows_give(seed: int) -> None:
    chance = Random(seed)
    ordered = bool(seed % 2)
    table = drawn(chance, chance.choice((1, 2, 60, 500)), ordered)
    runs = runs_of(table, ordered, 12.5)
    wanted = one_by_one(table, ordered, 12.5)
    assert {run.be: rows_of(run) for run in runs} == wanted
    assert [run.be for run in runs] == sorted(wanted)
    assert all(is_plausible(run) and run.rows == len(wanted[run.be]) for run in runs)
    assert all(run.size == sum(map(len, wanted[run.be])) for run in runs)


def test_more_sets_than_fit_into_sixteen_bits() -> None:
    count = 70_000
    table = pa.table({"__be": pa.array(range(count), pa.int64()), "id": pa.array(range(count), pa.int64())})
    runs = runs_of(table, False, 1.0)
    assert [run.be for run in runs] == list(range(count))
    assert rows_of(runs[69_999]) == [encode((1.0, {"id": 69_999}))]


def test_nothing_gives_nothing_and_a_row_may_be_without_columns() -> None:
    empty = pa.table({"__be": pa.array([], pa.int64()), "id": pa.array([], pa.int64())})
    assert runs_of(empty, False, 1.0) == []
    (run,) = runs_of(pa.table({"__be": pa.array([7, 7], pa.int64())}), False, 1.0)
    assert rows_of(run) == [encode((1.0, {}))] * 2


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_535, 65_536])
def test_a_head_is_as_long_as_it_is_taken_for(size: int) -> None:
    head = _bytes_head(size)
    assert encode(b"x" * size) == head + b"x" * size
    assert _head_sizes(np.array([len(head) + size]))[0] == len(head)
