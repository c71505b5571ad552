"""spark.readStream.format("grapevine"): what is delivered while the query runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import grapevine
from tests.spark.feeding import Brokers
from tests.system.overlay import eventually


def publish(brokers: Brokers, job: str, rows: range) -> None:
    with grapevine.connect(brokers.fed.address, keys=str(brokers.fed.keys), name=f"{job}-writer") as client:
        for row in rows:
            client.publish({"job": job, "row": row, "price": row / 4, "even": row % 2 == 0}, b"%d" % row)
        client.flush(timeout=30)


def collect(spark: Any, query: Any, rows: int) -> list[Any]:
    def found() -> list[Any]:
        assert query.isActive, query.exception()
        read: list[Any] = spark.table(query.name).collect()
        return read if len(read) >= rows else []

    all_rows: list[Any] = eventually(found, 300, 0.2)
    return all_rows


def begun(frame: Any, name: str) -> Any:
    """The query, when its first trigger is over: its subscriber is there then. Spark gives the query's Python
    ten seconds to start, which no setting changes; where the machine is too busy for that, once more."""
    for _ in range(20):
        query = frame.writeStream.format("memory").queryName(name).start()
        while query.isActive and not query.recentProgress:
            time.sleep(0.1)
        if query.isActive:
            return query
        assert "failed to connect back" in str(query.exception()), query.exception()
    raise AssertionError(query.exception())


def test_rows_of_a_declared_schema(spark: Any, brokers: Brokers) -> None:
    """A few a trigger; as many as there are is the walk-through's."""
    job, most = "read", 7
    options = brokers.options(filter=f"job = '{job}'", maxRowsPerTrigger=most)
    frame = (
        spark.readStream.format("grapevine")
        .schema("row LONG, price DOUBLE, even BOOLEAN, job STRING, missing STRING, payload BINARY")
        .options(**options)
        .load()
    )
    query = begun(frame, job)
    publish(brokers, job, range(30))
    rows = collect(spark, query, 30)
    batches = [progress["numInputRows"] for progress in query.recentProgress]
    query.stop()
    assert sorted(tuple(row) for row in rows) == [
        (row, row / 4, row % 2 == 0, job, None, b"%d" % row) for row in range(30)
    ]
    assert max(batches) <= most


def test_rows_without_a_schema(spark: Any, brokers: Brokers) -> None:
    frame = spark.readStream.format("grapevine").options(**brokers.options(filter="job = 'plain'")).load()
    query = begun(frame, "plain")
    publish(brokers, "plain", range(3))
    rows = collect(spark, query, 3)
    query.stop()
    row = min(rows, key=lambda row: row.sequence)
    assert row.attributes == {"job": "plain", "row": "0", "price": "0.0", "even": "true"}
    assert (row.publisher, row.broker, row.payload) == ("plain-writer", "b1", b"0")
    assert abs(row.accepted_at.timestamp() - time.time()) < 120


def test_planning_says_so(spark: Any, brokers: Brokers) -> None:
    with pytest.raises(Exception, match="PYTHON") as raised:
        spark.readStream.format("grapevine").options(**brokers.options(filter="job =")).load()
    assert "option filter: expected a value" in str(raised.value)


def test_a_batch_cannot_be_read(spark: Any, brokers: Brokers, tmp_path: Path) -> None:
    options = brokers.options(filter="job = 'x'")
    with pytest.raises(Exception, match="use readStream"):
        spark.read.format("grapevine").options(**options).load().collect()
