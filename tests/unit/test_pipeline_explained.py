"""What Spark says when a job fails, as one sentence and an exit code; and rows that wait for their moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.explained import END, LINE_CHARS, MARK, explained
from pipeline.pace import by_rate, by_time, ends, slice_rows
from pipeline.trouble import FAILED, NOT_ALLOWED, UNREACHABLE, USAGE, Trouble

TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: Traceback (most recent call last):
  File "feeding.py", line 102, in connect
    raise Unreachable(f"no broker answers within {self.timeout_s:g} s: {complaint}")
grapevine.errors.Unreachable: no broker answers within 1 s: tcp://127.0.0.1:9 cannot be reached
 SQLSTATE: 38000"""  # noqa: E501


def bad_row(file: Path, line: str, problem: str) -> Exception:
    row = json.dumps({"file": file.as_uri(), "line": line, "problem": problem})
    return RuntimeError(
        f"Job aborted due to stage failure: [USER_RAISED_EXCEPTION] {MARK}{row}{END} SQLSTATE"
    )


def test_a_row_is_found_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "my quotes.csv"
    file.write_text("a\n1\n2\nx\n")
    trouble = explained(bad_row(file, "x", "attribute a: 'x' is not a number"), staged=True)
    assert str(trouble) == (
        f"{file}, line 4: attribute a: 'x' is not a number; nothing of this batch was published"
    )
    assert trouble.code == FAILED
    assert str(explained(bad_row(file, "x", "wrong"), staged=False)) == f"{file}, line 4: wrong"
    file.write_text("a\n" + "y" * 5000 + "\n")
    assert ", line 2: long" in str(explained(bad_row(file, "y" * LINE_CHARS, "long"), staged=True))
    file.unlink()
    assert ", line ?: gone" in str(explained(bad_row(file, "x", "gone"), staged=True))


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        (TRACE, "no broker answers within 1 s: tcp://127.0.0.1:9 cannot be reached", UNREACHABLE),
        ("x\ngrapevine.errors.NotAllowed: key is not allowed\ny", "key is not allowed", NOT_ALLOWED),
        (
            "x\ngrapevine.spark.feeding.StageLost: b1 gives up what was staged (disk): it is full",
            "b1 gives up what was staged (disk): it is full",
            FAILED,
        ),
        ("grapevine.spark.options.OptionError: option advertise: no", "option advertise: no", USAGE),
        (
            "An error occurred while calling o5.save.\n: java.IOError: disk\n\tat x",
            "java.IOError: disk",
            FAILED,
        ),
    ],
)
def test_what_our_own_code_raised_is_found(text: str, said: str, code: int) -> None:
    trouble = explained(RuntimeError(text), staged=True)
    assert str(trouble).removeprefix("Spark failed: ") == said
    assert trouble.code == code


def test_causes_are_looked_at() -> None:
    error = ValueError("query terminated")
    error.__cause__ = RuntimeError(TRACE)
    assert explained(error, staged=True).code == UNREACHABLE
    told = Trouble("as it is", USAGE)
    assert explained(told, staged=True) is told


# --- pace -----------------------------------------------------------------------------------------


def test_runs_of_one_moment() -> None:
    assert list(ends([1.0, 1.0, 2.0, 3.0, 3.0])) == [2, 3, 5]
    assert list(ends([])) == []
    assert list(ends([5.0] * 4500)) == [2000, 4000, 4500]


def test_slices_follow_the_rate() -> None:
    assert [slice_rows(rate) for rate in (1, 100, 10_000, 1e6)] == [1, 2, 200, 2000]


class Clock:
    """A time that passes only while somebody sleeps, or where a test says so."""

    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pipeline.pace.time", clock)
    return clock


def test_rows_come_at_their_rate(clock: Clock) -> None:
    pa = pytest.importorskip("pyarrow")
    batches = [pa.RecordBatch.from_pydict({"row": list(range(n, n + 25))}) for n in (0, 25)]
    found = [(clock.now - 50.0, part.column(0).to_pylist()) for part in by_rate(200.0)(iter(batches))]
    assert [row for _, rows in found for row in rows] == list(range(50))
    for moment, rows in found:
        assert moment == pytest.approx(rows[0] / 200.0)


def test_what_is_late_is_made_up_for(clock: Clock) -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.RecordBatch.from_pydict({"row": list(range(12))})
    found = []
    for part in by_rate(10.0)(iter([batch])):
        found.append(round(clock.now - 50.0, 3))
        clock.now += 0.55 * (part.column(0)[0].as_py() == 3)  # the broker is slow once
    assert found == [0.0, 0.1, 0.2, 0.3, 0.85, 0.85, 0.85, 0.85, 0.85, 0.9, 1.0, 1.1]


def test_rows_come_as_their_time_says(clock: Clock) -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.RecordBatch.from_pydict({"row": [0, 1, 2, 3], "at": [100.0, 100.0, 130.0, 110.0]})
    found = [(clock.now - 50.0, part.column(0).to_pylist()) for part in by_time(1, 100.0)(iter([batch]))]
    assert [rows for _, rows in found] == [[0, 1], [2], [3]]
    assert [moment for moment, _ in found] == pytest.approx([0, 0.3, 0.3])
