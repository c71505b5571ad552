"""The compiled loops refuse what does not fit together, and say what numpy says."""

from __future__ import annotations

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
    return bitarray(text.ljust(length, "1"), endian="little")


def test_slots_are_out_of_no_row_and_below_the_point() -> None:
    rows = [bits("0000"), bits("0100")]
    cells = np.full((64, 2), -np.inf)
    cells[2] = 5, -5
    cells[3] = 6, -6
    assert np.frombuffer(compiled.slots(rows, cells, [5.0, -5.0]), np.int64).tolist() == [0, 2]
    assert compiled.sids(rows, cells, [5.0, -5.0], np.arange(64) + 2**40) == [2**40, 2**40 + 2]


def test_each_group_is_found() -> None:
    rows = [bitarray(8192, endian="little")]
    cells = np.zeros((8192, 1))
    cells[:4000] = 1
    groups = (np.arange(8192) // 100).astype(np.uint32) * 1024  # all in one place of the table of those seen
    found = compiled.groups(rows, cells, [0.5], groups)
    assert sorted(set(found)) == [group * 1024 for group in range(40, 82)]
    mixed = np.resize(np.array([7, 7 + 1024, 9], np.uint32), 8192)
    assert set(compiled.groups(rows, cells, [0.5], mixed)) == {7, 9, 1031}


def test_many_slots() -> None:
    rows = [bitarray(8192, endian="little")]
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
        ("slots", ([bits("0"), bits("0", 128)], np.zeros((128, 1)), [0.0])),
        ("slots", ([bitarray(40, endian="little")], np.zeros((64, 1)), [0.0])),
        ("slots", ([bits("0")], np.zeros((63, 1)), [0.0])),
        ("slots", ([bits("0")], np.zeros((64, 1)), [0.0, 0.0])),
        ("slots", ([bits("0")], np.zeros((64, 200)), [0.0] * 200)),
        ("slots", ((bits("0"),), np.zeros((64, 1)), [0.0])),
        ("sids", ([bits("0")], np.zeros((64, 1)), [0.0], np.zeros(63, np.int64))),
        ("groups", ([bits("0")], np.zeros((64, 1)), [0.0], np.zeros(63, np.uint32))),
        ("below", (np.zeros((2, 10)), 10, 11, [0.0])),
        ("below", (np.zeros((2, 10)), 10, 10, [0.0] * 3)),
        ("below", (np.zeros((2, 10)), 10, -1, [0.0])),
    ],
)
def test_wrong_sizes_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"rows|cells|point|groups|sids"):
        getattr(compiled, name)(*arguments)


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
