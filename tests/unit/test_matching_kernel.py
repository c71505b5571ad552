"""The compiled loops refuse what does not fit together, and say what numpy says."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from bitarray import bitarray

from bench.matching_workloads import workload
from matching import kernel
from matching.index import Index

compiled: Any = kernel.module
pytestmark = pytest.mark.skipif(compiled is None, reason="built without a compiler: matching runs in Python")


def bits(text: str, length: int = 64) -> bitarray:
    return bitarray(text.ljust(length, "0"), endian="little")


def ones(length: int) -> bitarray:
    return ~bitarray(length, endian="little")


def test_slots_are_in_all_rows_and_below_the_point() -> None:
    rows = [bits("1111"), bits("1011")]
    cells = np.full((64, 2), -np.inf)
    cells[2] = 5, -5
    cells[3] = 6, -6
    assert np.frombuffer(compiled.slots(rows, cells, [5.0, -5.0]), np.int64).tolist() == [0, 2]
    assert compiled.sids(rows, cells, [5.0, -5.0], np.arange(64) + 2**40) == [2**40, 2**40 + 2]


def test_each_group_is_found() -> None:
    rows = [ones(8192)]
    cells = np.zeros((8192, 1))
    cells[:4000] = 1
    groups = (np.arange(8192) // 100).astype(np.uint32) * 1024  # all in one place of the table of those seen
    found = compiled.groups(rows, cells, [0.5], groups)
    assert sorted(set(found)) == [group * 1024 for group in range(40, 82)]
    mixed = np.resize(np.array([7, 7 + 1024, 9], np.uint32), 8192)
    assert set(compiled.groups(rows, cells, [0.5], mixed)) == {7, 9, 1031}


def test_many_slots() -> None:
    rows = [ones(8192)]
    found = np.frombuffer(compiled.slots(rows, np.zeros((8192, 1)), [0.0]), np.int64)
    assert found.tolist() == list(range(8192))


def test_columns() -> None:
    cells = np.random.default_rng(1).random((9, 700))
    point = [0.9] * 7
    expected = (cells[:7, :601] <= 0.9).all(axis=0).nonzero()[0].tolist()
    assert np.frombuffer(compiled.below(cells, 700, 601, point), np.int64).tolist() == expected


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("slots", ([], np.zeros((64, 1)), [0.0])),
        ("slots", ([bits("1"), bits("1", 128)], np.zeros((128, 1)), [0.0])),
        ("slots", ([bitarray(40, endian="little")], np.zeros((64, 1)), [0.0])),
        ("slots", ([bits("1")], np.zeros((63, 1)), [0.0])),
        ("slots", ([bits("1")], np.zeros((64, 1)), [0.0, 0.0])),
        ("slots", ([bits("1")], np.zeros((64, 200)), [0.0] * 200)),
        ("slots", ((bits("1"),), np.zeros((64, 1)), [0.0])),
        ("sids", ([bits("1")], np.zeros((64, 1)), [0.0], np.zeros(63, np.int64))),
        ("groups", ([bits("1")], np.zeros((64, 1)), [0.0], np.zeros(63, np.uint32))),
        ("below", (np.zeros((2, 10)), 10, 11, [0.0])),
        ("below", (np.zeros((2, 10)), 10, 10, [0.0] * 3)),
        ("below", (np.zeros((2, 10)), 10, -1, [0.0])),
    ],
)
def test_wrong_sizes_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"rows|cells|point|groups|sids"):
        getattr(compiled, name)(*arguments)


class Calls:
    """Stands for a table: what is no float falls where it says."""

    def __init__(self) -> None:
        self.values: list[object] = []

    def fall(self, value: object) -> tuple[str, float, float]:
        self.values.append(value)
        return "called", 7.0, 8.0


def test_a_publication_falls_into_the_rows_of_its_values() -> None:
    table = Calls()
    plan = [("a", [1.0, 2.0], ["r0", "r1", "r2"], table.fall), ("b", [], ["only"], table.fall)]
    fallen = compiled.fallen
    for value, row in ((0.5, "r0"), (1.0, "r1"), (1.5, "r1"), (2.0, "r2"), (float("inf"), "r2")):
        expected = ["placed", row, "only"], [value, -value, 3.0, -3.0]
        assert fallen("placed", plan, {"a": value, "b": 3.0}) == expected
    assert not table.values
    assert fallen("placed", plan, {"a": 1}) == (["placed", "called", "called"], [7.0, 8.0, 7.0, 8.0])
    assert table.values == [1, None]
    assert fallen("placed", plan, MappingProxyType({"a": 0.0, "b": 0.0}))[0] == ["placed", "r0", "only"]
    assert fallen("placed", [], {}) == (["placed"], [])


@pytest.mark.parametrize(
    "plan",
    [
        (),
        [("a", [], ["row"])],
        [["a", [], ["row"], None]],
        [("a", [1.0], ["row"], None)],
        [("a", [1], ["row", "row"], None)],
        [("a", (), ["row"], None)],
    ],
)
def test_a_wrong_plan_is_refused(plan: Any) -> None:
    with pytest.raises(ValueError, match="plan"):
        compiled.fallen("placed", plan, {"a": 1.5})


def test_what_fall_raises_is_raised() -> None:
    def broken(value: object) -> Any:
        raise KeyError(value)

    with pytest.raises(KeyError):
        compiled.fallen("placed", [("a", [], ["row"], broken)], {"a": "text"})
    with pytest.raises(ValueError, match="fall"):
        compiled.fallen("placed", [("a", [], ["row"], str)], {"a": "text"})
    with pytest.raises(TypeError):
        compiled.fallen("placed", [([], [], ["row"], str)], {"a": "text"})  # a name without a hash


@pytest.mark.parametrize("name", ["bluedove", "quotes"])
def test_python_and_the_kernel_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filters, points = workload(name, 3000, 200, None)
    index = Index()
    for sid, filter in enumerate(filters):
        index.add(sid, filter, sid % 11)

    def answers() -> list[object]:
        return [(sorted(index.match(p)), index.groups(p), index.deliveries(p)) for p in points]

    with_kernel = answers()
    monkeypatch.setattr(kernel, "module", None)
    assert answers() == with_kernel


def test_labels_are_cut_where_the_group_changes() -> None:
    labels = np.array([1, 2, 3, 4], "<u4")
    groups = np.array([5, 5, 1 << 40, 7], np.int64)
    expected = [(5, labels[:2].tobytes()), (1 << 40, labels[2:3].tobytes()), (7, labels[3:].tobytes())]
    assert compiled.pieces(groups, labels) == expected
    assert compiled.pieces(groups[:0], labels[:0]) == []
    for wrong in ((groups, labels[:3]), (groups.astype(np.int32), labels), (groups[:3], labels)):
        with pytest.raises(ValueError, match="eight bytes"):
            compiled.pieces(*wrong)
