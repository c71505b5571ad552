"""Streams read by offsets: as a batch, as a stream that goes on after a kill, with what is gone told."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import grapevine
from tests.spark.feeding import Brokers
from tests.spark.test_reading import begun, collect
from tests.system.overlay import eventually
from tests.system.test_pubctl import Pubctl

SCHEMA = "stream STRING, offset LONG, row LONG, publisher STRING, payload BINARY"


def stream(brokers: Brokers, verb: str, *words: str) -> None:
    Pubctl(brokers.fed.keys, brokers.fed.address)("stream", verb, *words, "--yes")


def keep(brokers: Brokers, name: str) -> None:
    stream(brokers, "add", name, f"job = '{name}'")


def publish(brokers: Brokers, job: str, rows: range) -> None:
    with grapevine.connect(brokers.fed.address, keys=str(brokers.fed.keys), name=f"{job}-writer") as client:
        for row in rows:
            client.publish({"job": job, "row": row}, b"%d" % row)
        client.flush(timeout=60)


def frame(spark: Any, brokers: Brokers, streaming: bool, **options: object) -> Any:
    reader = spark.readStream if streaming else spark.read
    return reader.format("grapevine").schema(SCHEMA).options(**brokers.options(**options)).load()


def test_a_batch_between_offsets(spark: Any, brokers: Brokers) -> None:
    keep(brokers, "past")
    publish(brokers, "past", range(50))
    half = time.time()
    time.sleep(0.01)
    publish(brokers, "past", range(50, 100))
    rows = frame(spark, brokers, False, stream="past", partitionRows=30).collect()
    assert sorted(tuple(row) for row in rows) == [
        ("past", row + 1, row, "past-writer", b"%d" % row) for row in range(100)
    ]
    offsets = {"startingOffsets": '{"past": 11}', "endingOffsets": '{"past": 21}'}
    some = frame(spark, brokers, False, stream="past", **offsets).collect()
    assert sorted(row.offset for row in some) == list(range(11, 21))
    late = frame(spark, brokers, False, stream="past", startingTimestamp=int(half * 1000) + 1).collect()
    assert sorted(row.row for row in late) == list(range(50, 100))


def test_a_stream_goes_on_where_its_checkpoint_stands(spark: Any, brokers: Brokers, tmp_path: Path) -> None:
    """Over a restart of the query and a kill of the broker: each row once, and acknowledged."""
    keep(brokers, "kept")
    publish(brokers, "kept", range(40))
    wanted = frame(
        spark, brokers, True, stream="kept", durable="spark", startingOffsets="earliest", maxRowsPerTrigger=25
    )

    def start() -> Any:
        writer = wanted.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        return writer.option("checkpointLocation", str(tmp_path / "log")).start()

    def there(rows: int) -> list[int]:
        assert query.isActive, query.exception()
        found = spark.read.schema(SCHEMA).parquet(str(tmp_path / "rows")).collect()
        return sorted(row.row for row in found) if len(found) >= rows else []

    query = start()
    eventually(lambda: there(40), 120, 0.3)
    query.stop()
    publish(brokers, "kept", range(40, 70))
    brokers.restart()
    query = start()
    assert eventually(lambda: there(70), 120, 0.3) == list(range(70))
    publish(brokers, "kept", range(70, 80))  # a commit covers the batch before
    assert eventually(lambda: there(80), 120, 0.3) == list(range(80))
    query.stop()
    with grapevine.connect(brokers.fed.address, keys=str(brokers.fed.keys)) as client:

        def freed() -> Any:
            """A query that was stopped has its name until Spark closes its connection."""
            try:
                return client.subscribe(None, durable="spark", stream="kept", timeout=60)
            except grapevine.NotAllowed:
                return None

        reader = eventually(freed, 30, 0.2)
        items = eventually(lambda: reader.next_batch(100, timeout=1), 30)
        left = [item.attributes["row"] for item in items if not isinstance(item, grapevine.Gap)]
        assert left == list(range(left[0], 80)) and 40 <= left[0] <= 70


def test_what_is_gone_is_told(spark: Any, brokers: Brokers, tmp_path: Path) -> None:
    """A stream that was made anew: its offsets are others."""
    with pytest.raises(Exception, match="no stream gone"):
        frame(spark, brokers, False, stream="gone").collect()
    keep(brokers, "anew")
    publish(brokers, "anew", range(10))

    def run(**options: object) -> list[int]:
        wanted = frame(spark, brokers, True, stream="anew", startingOffsets="earliest", **options)
        writer = wanted.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        once = writer.option("checkpointLocation", str(tmp_path / "log")).trigger(availableNow=True).start()
        once.awaitTermination(120)
        found = spark.read.schema(SCHEMA).parquet(str(tmp_path / "rows")).collect()
        return sorted(row.row for row in found)

    assert run() == list(range(10))
    stream(brokers, "rm", "anew")
    keep(brokers, "anew")
    publish(brokers, "anew", range(10, 15))
    with pytest.raises(Exception, match="made anew"):
        run()
    assert run(failOnDataLoss="false") == list(range(15))


def test_what_is_available_now_comes_in_batches_and_ends(
    spark: Any, brokers: Brokers, tmp_path: Path
) -> None:
    """Of at most so many rows each; what is published meanwhile is for the next time."""
    keep(brokers, "now")
    publish(brokers, "now", range(40))
    options = {"startingOffsets": "earliest", "maxRowsPerTrigger": 15}
    wanted = frame(spark, brokers, True, stream="now", durable="nightly", **options)
    batches: list[list[int]] = []

    def take(rows: Any, number: int) -> None:
        batches.append(sorted(row.row for row in rows.collect()))
        if not number:
            publish(brokers, "now", range(40, 50))

    def run() -> None:
        writer = wanted.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "log"))
        writer.trigger(availableNow=True).start().awaitTermination(120)

    run()
    assert batches == [list(range(15)), list(range(15, 30)), list(range(30, 40))]
    run()
    assert batches[3:] == [list(range(40, 50))]


def test_two_streams_share_a_trigger(spark: Any, brokers: Brokers) -> None:
    for name in ("left", "right"):
        keep(brokers, name)
        publish(brokers, name, range(20))
    wanted = frame(
        spark, brokers, True, streams="left,right", startingOffsets="earliest", maxRowsPerTrigger=10
    )
    query = begun(wanted, "pair")
    rows = collect(spark, query, 40)
    query.stop()
    assert sorted((row.stream, row.row) for row in rows) == [
        (name, row) for name in ("left", "right") for row in range(20)
    ]
