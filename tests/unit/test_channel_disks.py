"""What a back end keeps on disk: positions that stay, torn tails, results that are whole or not there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from daemon.dataset_log import DiskDatasetLog
from daemon.results import DiskResults
from grapevine.wire.driving import FedRow, is_plausible, rows_of, run_of
from overlay.channels.dataset_log import DatasetLog, MemoryDatasetLog
from overlay.channels.results import Extent, MemoryResults, Results, ResultsError


def row(number: int, size: int = 10) -> FedRow:
    return FedRow(7, 1, number, "pub", 1000.0 + number, b"a" * size, b"p")


@pytest.fixture(params=["disk", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> DatasetLog:
    return DiskDatasetLog(tmp_path / "log") if request.param == "disk" else MemoryDatasetLog()


@pytest.fixture(params=["disk", "memory"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Results:
    return DiskResults(tmp_path / "results") if request.param == "disk" else MemoryResults()


def test_positions_are_given_once(log: DatasetLog) -> None:
    assert log.append("a", [row(1), row(2)]) == 2
    assert log.append("b", [row(1)]) == 1
    assert log.append("a", [row(3)]) == 3
    log.sync()
    assert [(read.position, read.row.sequence) for read in log.read("a", 1, 9, 1 << 20)] == [(2, 2), (3, 3)]
    assert [read.position for read in log.read("a", 0, 2, 1 << 20)] == [1, 2]
    assert [read.position for read in log.read("a", 0, 9, 1)] == [1], "one at least"
    assert log.read("c", 0, 9, 1) == [] and log.end("c") == 0 and log.start("c") == 1
    log.drop("a")
    assert log.end("a") == 0 and log.append("a", [row(9)]) == 1


def test_a_torn_tail_is_cut_off_and_numbers_go_on(tmp_path: Path) -> None:
    log = DiskDatasetLog(tmp_path)
    log.append("a", [row(n) for n in range(1, 6)])
    log.sync()
    log.close()
    (path,) = (tmp_path / "a").glob("*.log")
    content = path.read_bytes()
    for cut in range(1, 40):
        path.write_bytes(content[:-cut])
        again = DiskDatasetLog(tmp_path)
        whole = [read.row.sequence for read in again.read("a", 0, 99, 1 << 20)]
        assert whole == [1, 2, 3, 4][: len(whole)] and len(whole) >= 3
        assert again.append("a", [row(50)]) == len(whole) + 1
        again.close()
    path.write_bytes(content[:-3] + b"xyz")
    assert DiskDatasetLog(tmp_path).end("a") == 4, "a checksum that is wrong"


def test_trimming_by_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.dataset_log.SEGMENT_BYTES", 300)
    log = DiskDatasetLog(tmp_path)
    for number in range(1, 41):
        log.append("a", [row(number, 50)])
    log.sync()
    assert len(list((tmp_path / "a").glob("*.log"))) > 5
    log.trim("a", 20)
    assert 1 < log.start("a") <= 20 and log.end("a") == 40
    assert [read.position for read in log.read("a", 18, 22, 1 << 20)] == [19, 20, 21, 22]
    log.trim("a", 99)
    log.close()
    again = DiskDatasetLog(tmp_path)
    assert again.end("a") == 40 and again.append("a", [row(41)]) == 41


def test_results_are_there_with_the_commit(results: Results) -> None:
    results.put("c@1", 1, 5, 0, [run_of(3, [b"x", b"yy"]), run_of(9, [b"z"])])
    results.put("c@1", 1, 5, 1, [run_of(9, [b"zz"])])
    assert results.executions("c@1") == [] and results.read("c@1", 1, 3) == []
    assert not results.commit("c@1", 1, 5, 3), "a piece is missing"
    results.put("c@1", 1, 5, 0, [run_of(3, [b"x", b"yy"]), run_of(9, [b"z"])])
    results.put("c@1", 1, 5, 1, [run_of(9, [b"zz"])])
    assert results.commit("c@1", 1, 5, 2)
    assert results.read("c@1", 1, 9) == [b"z", b"zz"] and results.read("c@1", 1, 4) == []
    assert dict(results.index("c@1", 1)) == {3: Extent(2, 3), 9: Extent(2, 3)}
    results.put("c@1", 1, 6, 0, [run_of(3, [b"other"])])
    assert results.commit("c@1", 1, 6, 1), "again: it changes nothing"
    assert results.read("c@1", 1, 3) == [b"x", b"yy"]
    results.put("c@1", 2, 6, 0, [])
    assert results.commit("c@1", 2, 6, 1) and results.executions("c@1") == [1, 2]
    results.drop("c@1", 1)
    assert results.executions("c@1") == [2] and results.read("c@1", 1, 3) == []


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 65_535, 65_536])
def test_a_run_is_what_it_says(rows: int) -> None:
    made = run_of(3, [b"x"] * rows)
    assert is_plausible(made) and rows_of(made) == [b"x"] * rows
    for wrong in ({"rows": rows + 1}, {"rows": -1}, {"size": rows + 99}, {"size": -1}, {"body": b""}):
        assert not is_plausible(msgspec.structs.replace(made, **wrong))
    with pytest.raises(ValueError):
        rows_of(msgspec.structs.replace(made, body=b"\xc1"))


def test_what_was_not_committed_is_gone_after_a_restart(tmp_path: Path) -> None:
    results = DiskResults(tmp_path)
    results.put("c@1", 1, 5, 0, [run_of(3, [b"x"])])
    results.commit("c@1", 1, 5, 1)
    results.put("c@1", 2, 5, 0, [run_of(3, [b"half"])])
    again = DiskResults(tmp_path)
    assert again.executions("c@1") == [1] and again.read("c@1", 1, 3) == [b"x"]
    assert not list((tmp_path / "c@1").glob("*.part"))


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = DiskResults(tmp_path)

    class Full:
        f_bavail, f_frsize = 1, 4096

    monkeypatch.setattr("daemon.results.os.statvfs", lambda path: Full())
    with pytest.raises(Exception, match="is full"):
        results.put("c@1", 1, 5, 0, [])


def test_the_next_execution_goes_on_while_all_before_it_expire(tmp_path: Path) -> None:
    results = DiskResults(tmp_path)
    results.put("c@1", 1, 5, 0, [run_of(3, [b"x"])])
    results.commit("c@1", 1, 5, 1)
    results.put("c@1", 2, 5, 0, [run_of(3, [b"y"])])
    results.drop("c@1", 1)
    results.put("c@1", 2, 5, 1, [run_of(3, [b"z"])])
    assert results.commit("c@1", 2, 5, 2) and results.read("c@1", 2, 3) == [b"y", b"z"]


def test_a_channel_that_is_dropped_leaves_no_half_of_an_execution(tmp_path: Path) -> None:
    results = DiskResults(tmp_path)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    results.put("c@1", 1, 5, 0, [run_of(3, [b"x"])])
    results.drop("c@1", 2**62)
    assert not (tmp_path / "c@1").exists()
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    results.put("c@1", 1, 5, 1, [run_of(3, [b"y"])])
    assert not results.commit("c@1", 1, 5, 2)


@pytest.mark.parametrize("left", [0, 5, 20, -1])
def test_a_damaged_file_is_named(tmp_path: Path, left: int) -> None:
    results = DiskResults(tmp_path)
    results.put("c@1", 1, 5, 0, [run_of(3, [b"x" * 50])])
    results.commit("c@1", 1, 5, 1)
    path = tmp_path / "c@1" / "1.rows"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ResultsError, match=r"1\.rows is damaged: remove it"):
        DiskResults(tmp_path).read("c@1", 1, 3)
