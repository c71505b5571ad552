"""`pubctl feed`: rows of files as publications, each once; a row that cannot be is told by file and line."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest import Fed, Wanted, feed
from pipeline.trouble import FAILED, NOT_FOUND, UNREACHABLE, USAGE, Trouble
from tests.spark.feeding import Brokers, once
from tests.system.overlay import eventually

ROWS = 3000
Feed = Callable[..., Fed]


@pytest.fixture
def run(spark: Any, brokers: Brokers) -> Feed:
    def call(source: Path, **said: Any) -> Fed:
        wanted = {"broker": brokers.fed.address, "keys": str(brokers.fed.keys), "timeout_s": 20.0, **said}
        return feed(spark, Wanted(str(source), **wanted))

    return call


def record(job: str, row: int) -> dict[str, Any]:
    return {"job": job, "row": row, "name": f"n, {row % 10}", "price": row / 4, "odd": row % 2 == 1}


def csv_file(path: Path, job: str, rows: range) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f'{job},{n},"n, {n % 10}",{n / 4},{str(n % 2 == 1).lower()}' for n in rows]
    path.write_text("job,row,name,price,odd\n" + "\n".join(lines) + "\n")
    return path


def json_file(path: Path, job: str, rows: range) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record(job, n)) + "\n" for n in rows))
    return path


def parquet_file(path: Path, job: str, rows: range) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([record(job, n) for n in rows]), path)
    return path


MAKERS = {"csv": csv_file, "json": json_file, "parquet": parquet_file}


@pytest.mark.parametrize("format", list(MAKERS))
def test_every_row_of_a_file_arrives_once_as_it_was(
    run: Feed, brokers: Brokers, tmp_path: Path, format: str
) -> None:
    source = MAKERS[format](tmp_path / f"data.{format}", format, range(ROWS))
    with brokers.reading(f"job = '{format}'") as reader:
        reader.kept = 50
        done = run(source, name=f"feed-{format}", payload="json:row,name")
        assert (done.published, done.files, done.rejected) == (ROWS, 1, 0)
        assert reader.all(ROWS) == once(ROWS)
        for message in reader.messages:
            row = int(message.attributes["row"])
            assert message.attributes == record(format, row)
            assert json.loads(message.payload) == {"row": row, "name": f"n, {row % 10}"}
            assert message.publisher == f"feed-{format}"


def test_the_mapping_decides(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    source = csv_file(tmp_path / "data.csv", "mapped", range(20))
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        "[attributes]\nclass = \"'it''s mapped'\"\nnumber = 'row'\n"
        "text = { column = 'row', type = 'string' }\n"
        "cost = { column = 'price', type = 'number' }\nweight = { value = 2.5 }\n[payload]\ncolumn = 'name'\n"
    )
    with brokers.reading("class = 'it''s mapped'", "number") as reader:
        reader.kept = 20
        run(source, mapping=mapping)
        assert reader.all(20) == once(20)
        for message in reader.messages:
            row = int(message.attributes["number"])
            given = {"class": "it's mapped", "number": row, "text": str(row), "cost": row / 4, "weight": 2.5}
            assert message.attributes == given
            assert message.payload == f"n, {row % 10}".encode()


def test_a_checkpoint_remembers_files(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    csv_file(source / "a.csv", "kept", range(100))
    with brokers.reading("job = 'kept'") as reader:
        assert run(source, checkpoint=checkpoint).published == 100
        assert run(source, checkpoint=checkpoint).published == 0
        csv_file(source / "b.csv", "kept", range(100, 250))
        assert run(source, checkpoint=checkpoint).published == 150
        assert reader.all(250) == once(250)


def test_a_directory_is_followed(spark: Any, brokers: Brokers, run: Feed, tmp_path: Path) -> None:
    source = tmp_path / "in"
    json_file(source / "a.json", "followed", range(50))
    made = json_file(tmp_path / "b.json", "followed", range(50, 120))

    def later() -> None:
        reader.wait(50)
        made.rename(source / "b.json")  # whole at once, as one does
        reader.wait(120)
        (query,) = spark.streams.active
        eventually(lambda: sum(one["numInputRows"] for one in query.recentProgress) >= 120, 60)
        query.stop()

    with brokers.reading("job = 'followed'") as reader:
        thread = threading.Thread(target=later)
        thread.start()
        done = run(source, checkpoint=tmp_path / "checkpoint", follow=True)
        thread.join(30)
        assert reader.all(120) == once(120)
    assert done.published == 120


def test_a_rate_is_kept(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    """As fast at most; how evenly is the business of pipeline/pace.py and its own tests."""
    source = csv_file(tmp_path / "data.csv", "slow", range(200))
    with brokers.reading("job = 'slow'") as reader:
        began = time.monotonic()
        assert run(source, rate=200.0).published == 200
        assert time.monotonic() - began > 0.9
        assert reader.all(200) == once(200)


def test_the_datas_own_time_sped_up(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    """Rows out of order are published in order, with the gaps between them at least."""
    moments = {0: "2026-01-01 00:00:00", 1: "2026-01-01 00:00:30", 2: "2026-01-01 00:01:30"}
    source = tmp_path / "data.csv"
    source.write_text("job,row,at\n" + "".join(f"timed,{row},{moments[row]}\n" for row in (2, 0, 1)))
    with brokers.reading("job = 'timed'") as reader:
        reader.kept = 3
        began = time.monotonic()
        run(source, speed=60.0, time_column="at")
        assert time.monotonic() - began > 1.4
        reader.all(3)
    assert [message.attributes["row"] for message in reader.messages] == [0, 1, 2]


# --- wrong input ----------------------------------------------------------------------------------


def wrong(run: Feed, source: Path, code: int, **said: Any) -> str:
    with pytest.raises(Trouble) as error:
        run(source, **said)
    assert error.value.code == code, error.value
    return str(error.value)


def test_what_is_wrong_before_a_row_is_read(run: Feed, tmp_path: Path) -> None:
    source = csv_file(tmp_path / "data.csv", "no", range(3))
    assert "no column prize: did you mean price?" in wrong(run, source, USAGE, attributes="prize")
    assert "does not exist" in wrong(run, tmp_path / "none.csv", NOT_FOUND)
    assert "--follow needs --checkpoint" in wrong(run, source, USAGE, follow=True)
    assert "not both" in wrong(run, source, USAGE, rate=1.0, speed=1.0, time_column="row")
    assert "advertise" in wrong(run, source, USAGE, advertise="job = = 3")


@pytest.mark.parametrize(
    ("name", "text", "line", "said", "paced"),
    [
        ("null.csv", "job,row\nbad,0\nbad,\nbad,2\n", 3, "attribute row is null", True),
        (
            "text.csv",
            "job,row\n" + "bad,5\n" * 1200 + "bad,many\n",
            1202,
            "attribute row: 'many' is not a whole number",
            False,
        ),
        ("few.csv", "job,row\nbad,0\nbad\n", 3, "no whole CSV record", False),
        ("half.json", '{"job": "bad", "row": 1}\n{"job": "bad", "ro', 2, "no whole JSON record", False),
        ("two.json", '{"job": "bad"}\n{"job": "bad"}{"job": "bad"}\n', 2, "no whole JSON record", False),
        (
            "late.json",
            '{"job": "bad"}\n' * 1000 + '{"job": "bad", "a": 1}',
            1001,
            "key a is not in the f",
            False,
        ),
        ("nan.csv", "job,row\nbad,0.5\nbad,nan\n", 3, "attribute row is NaN", False),
        ("bytes.csv", "job,row\n" + "bad,5\n" * 5000 + "b\udcff,6\n", 5002, "bytes that are no UTF-8", False),
    ],
)
def test_a_bad_row_is_told_by_file_and_line_and_nothing_is_published(
    run: Feed, brokers: Brokers, tmp_path: Path, name: str, text: str, line: int, said: str, paced: bool
) -> None:
    source = tmp_path / name
    source.write_text(text, errors="surrogateescape")
    with brokers.reading("job = 'bad'") as reader:
        more = {"rate": 10_000.0} if paced else {}
        attributes = "job, row:number" if name == "nan.csv" else ""
        told = wrong(run, source, FAILED, attributes=attributes, **more)
        assert told.startswith(f"{source}, line {line}: {said}"), told
        time.sleep(0.3)
        assert reader.count == 0


def test_a_bad_row_of_parquet_is_told_by_its_number(run: Feed, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"row": [1, 2, None, 4]}), path)
    assert wrong(run, path, FAILED).startswith(f"{path}, row 3: attribute row is null")
    pq.write_table(pa.table({"row": [1], "tags": [["a"]]}), path)
    assert "column tags is list" in wrong(run, path, USAGE)


def test_text_as_other_systems_write_it(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    """A mark before the first name, two characters at a line's end, names with dots and umlauts."""
    text = "\ufeffjob,row,größe.in cm\r\n" + "".join(f"other,{n},{n}.5\r\n" for n in range(5))
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(text.encode())
    with brokers.reading("job = 'other'") as reader:
        reader.kept = 10
        assert run(tmp_path).published == 10
        reader.all(10)
    assert {message.attributes["größe.in cm"] for message in reader.messages} == {n + 0.5 for n in range(5)}


def test_columns_in_another_order_are_told(
    run: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file that is there, and in one that comes later, where only its rows can be looked at."""
    csv_file(tmp_path / "a.csv", "order", range(3))
    other = tmp_path / "b.csv"
    other.write_text("name,job,row,price,odd\nx,order,3,1,true\n")
    assert f"{other}: its first line names other columns" in wrong(run, tmp_path, USAGE)
    monkeypatch.setattr("pipeline.source._check_headers", lambda source: None)
    told = wrong(run, tmp_path, FAILED, attributes="job, name")
    assert told.startswith(f"{other}, line 1: other columns than in {tmp_path / 'a.csv'}"), told


def test_nulls_may_be_left_out(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_text("job,row,price\nnulls,0,1.5\nnulls,1,\n")
    with brokers.reading("job = 'nulls'") as reader:
        reader.kept = 2
        run(source, nulls="omit")
        reader.all(2)
    found = sorted((m.attributes for m in reader.messages), key=lambda a: a["row"])
    assert found == [{"job": "nulls", "row": 0, "price": 1.5}, {"job": "nulls", "row": 1}]


def test_a_column_called_payload_and_a_file_named_like_a_pattern(
    run: Feed, brokers: Brokers, tmp_path: Path
) -> None:
    """An attribute like any other, where no payload is asked for; the file, not what its name would match."""
    source = tmp_path / "data[1].csv"
    source.write_text("job,row,payload\nodd,0,text\n")
    with brokers.reading("job = 'odd'") as reader:
        reader.kept = 1
        run(source)
        reader.all(1)
    assert reader.messages[0].attributes == {"job": "odd", "row": 0, "payload": "text"}
    assert reader.messages[0].payload == b""


def test_a_key_that_comes_late_may_be_named(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    source = tmp_path / "data.json"
    lines = [
        json.dumps({"job": "late", "row": n} | ({"more": n / 2} if n >= 1000 else {})) for n in range(1002)
    ]
    source.write_text("\n".join(lines))
    with brokers.reading("job = 'late' and row > 998", "row") as reader:
        reader.kept = 3
        run(source, attributes="job, row, more:number", nulls="omit")
        reader.all(3)
    found = sorted((m.attributes for m in reader.messages), key=lambda a: a["row"])
    assert [row.get("more") for row in found] == [None, 500.0, 500.5]


def test_rejected_rows_are_kept_and_the_others_go_on(run: Feed, brokers: Brokers, tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_text("job,row\n" + "".join(f"rest,{n}\n" for n in range(50)) + "rest,x\nrest\n")
    with brokers.reading("job = 'rest'") as reader:
        done = run(source, attributes="job, row:int", rejects=tmp_path / "rejects")
        assert (done.published, done.rejected) == (50, 2)
        assert reader.all(50) == once(50)
    kept = [json.loads(line) for path in (tmp_path / "rejects").glob("*.json") for line in path.open()]
    assert sorted(row["line"] for row in kept) == ["rest", "rest,x"]
    assert any(text.startswith(f"{source}, line 52: ") for text in done.first_rejected)


def test_a_stream_that_met_a_bad_file_goes_on_when_it_is_mended(
    run: Feed, brokers: Brokers, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    json_file(source / "a.json", "mended", range(10))
    half = json.dumps(record("mended", 11))[:20]
    bad = source / "b.json"
    bad.write_text(json.dumps(record("mended", 10)) + "\n" + half)
    with brokers.reading("job = 'mended'") as reader:
        told = wrong(run, source, FAILED, checkpoint=checkpoint)
        assert told.startswith(f"{bad}, line 2: no whole JSON record"), told
        json_file(bad, "mended", range(10, 13))
        run(source, checkpoint=checkpoint)
        assert reader.all(13) == once(13)


def test_a_vanished_broker(run: Feed, tmp_path: Path) -> None:
    source = csv_file(tmp_path / "data.csv", "nobody", range(3))
    assert wrong(run, source, UNREACHABLE, broker="tcp://127.0.0.1:9", keys="none", timeout_s=1.0)
