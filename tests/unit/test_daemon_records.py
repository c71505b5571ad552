"""The broker's rows on disk: the last value counts, a drain is there as a whole or not, damage is said."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon import records as module
from daemon.errors import Failure
from daemon.records import FILE, MAGIC, Records, adopt_files
from grapevine.filters.normal import EVERYTHING
from grapevine.wire.feeding import StagedPart
from overlay.feeding.decisions import Decided, QueryState
from overlay.feeding.numbers import Mark
from overlay.outbox import Record

ROWS = st.builds(
    Record, st.sampled_from(["tree", "numbers"]), st.sampled_from("abc"), st.none() | st.binary(max_size=9)
)
DRAINS = st.lists(st.lists(ROWS, min_size=1, max_size=4), max_size=6)


def replayed(drains: list[list[Record]]) -> dict[str, dict[str, bytes]]:
    kept: dict[str, dict[str, bytes]] = {}
    for table, key, value in (record for drain in drains for record in drain):
        kept.setdefault(table, {}).pop(key, None)
        if value is not None:
            kept[table][key] = value
    return {table: rows for table, rows in kept.items() if rows}


def reopened(directory: Path) -> dict[str, dict[str, bytes]]:
    records = Records(directory)
    records.close()
    return {table: rows for table, rows in records.tables.items() if rows}


@given(DRAINS, st.integers(0, 10_000))
def test_after_a_kill_every_drain_is_there_as_a_whole_or_not(
    tmp_path_factory: pytest.TempPathFactory, drains: list[list[Record]], cut: int
) -> None:
    directory = tmp_path_factory.mktemp("state")
    records = Records(directory)
    ends = [len(MAGIC)]
    for drain in drains:
        records.write(drain)
        ends.append((directory / FILE).stat().st_size)
    records.close()
    assert reopened(directory) == replayed(drains)
    left = len(MAGIC) + cut % (ends[-1] - len(MAGIC) + 1)
    os.truncate(directory / FILE, left)
    whole = sum(end <= left for end in ends[1:])
    assert reopened(directory) == replayed(drains[:whole])
    assert (directory / FILE).stat().st_size == ends[whole]


def test_one_write_and_one_sync_for_thousands_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, syncs = Records(tmp_path), list[int]()
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (syncs.append(file), sync(file))[1])
    records.write([Record("numbers", str(key), b"x" * 50) for key in range(5_000)])
    records.close()
    assert len(syncs) == 1
    assert len(reopened(tmp_path)["numbers"]) == 5_000


def test_a_file_of_replaced_rows_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", 2_000)
    records, largest = Records(tmp_path), 0
    for turn in range(500):
        records.write([Record("numbers", str(turn % 5), b"%50d" % turn)])
        largest = max(largest, (tmp_path / FILE).stat().st_size)
    records.close()
    assert largest < 3_000
    assert reopened(tmp_path) == {"numbers": {str(k): b"%50d" % (495 + k) for k in range(5)}}


def test_a_wrong_frame_before_others_is_damage(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for turn in range(3):
        records.write([Record("tree", "parent", b"%d" % turn)])
    records.close()
    content = bytearray((tmp_path / FILE).read_bytes())
    content[len(MAGIC) + 10] ^= 1
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(Failure, match="records is damaged: restore it from a copy, or remove it"):
        Records(tmp_path)
    (tmp_path / FILE).write_bytes(b"something else")
    with pytest.raises(Failure, match="damaged"):
        Records(tmp_path)


def test_a_table_ends(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write([Record("tree", "parent", b"1"), Record("numbers", "1 2", b"3")])
    records.end("tree")
    records.end("nothing")
    records.close()
    assert reopened(tmp_path) == {"numbers": {"1 2": b"3"}}


def test_a_directory_of_the_last_version_is_taken_over(tmp_path: Path) -> None:
    marks = (Mark(1, 2, 3, 4.5), Mark(5, 6, 7, 8.5))
    decided = Decided(3, "writer", EVERYTHING, (StagedPart(0, 1, 2),))
    queries = (QueryState("q 1", 3, 9.5, (decided,), "key"),)
    files = {
        "neighbours": [("b2", ("tcp://b2:1",))],
        "parent": "",
        "places": ["tcp://b3:1"],
        "feeding": queries,
        "numbers": marks,
    }
    for name, value in files.items():
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode(value) + b"\n")
    records = Records(tmp_path)
    adopt_files(records)
    adopt_files(records)
    records.close()
    kept = reopened(tmp_path)
    assert kept["tree"] == {"neighbours": b'[["b2",["tcp://b2:1"]]]', "fallback": b'["tcp://b3:1"]'}
    assert {key: msgspec.json.decode(row, type=Mark) for key, row in kept["numbers"].items()} == {
        "1 2": marks[0],
        "5 6": marks[1],
    }
    assert [msgspec.json.decode(row, type=QueryState) for row in kept["feeding"].values()] == [*queries]
    assert list(kept["feeding"]) == ["q 1"]
    assert not list(tmp_path.glob("*.json"))
