"""What is wrong is said when a query is planned where it can be known then; nothing is half published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.feeding import Brokers, once


def write(frame: Any, options: dict[str, str]) -> None:
    frame.write.format("grapevine").options(**options).mode("append").save()


def test_planning_says_so(spark: Any, brokers: Brokers) -> None:
    """What else may be wrong with options and columns: tests/unit/test_spark_rows.py."""
    frame = spark.range(3).selectExpr("id as row", "current_timestamp() as at")
    for option, value, says in (
        ("broker", "tcp://127.0.0.1:7470", "unknown option 'broker': did you mean brokers?"),
        ("attributes", "row, at", "column 'at' is of type timestamp: an attribute is a number, a string"),
    ):
        with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as raised:
            write(frame, {**brokers.options(attributes="row"), option: value})
        assert says in str(raised.value)


def test_a_broker_that_does_not_answer(spark: Any, brokers: Brokers) -> None:
    with pytest.raises(Exception, match="no broker answers within 1 s"):
        write(
            spark.range(3).selectExpr("id as row"),
            {"brokers": "tcp://127.0.0.1:9", "keys": "none", "timeout": "1"},
        )


def test_overwriting_is_refused(spark: Any, brokers: Brokers) -> None:
    with pytest.raises(Exception, match=r"cannot be overwritten|TRUNCATE|overwrite"):
        spark.range(3).selectExpr("id as row").write.format("grapevine").options(**brokers.options()).mode(
            "overwrite"
        ).save()


def test_a_row_that_cannot_be_published(spark: Any, brokers: Brokers) -> None:
    """It is named, and of its batch nothing is published, until it is put right."""
    with brokers.reading("job = 'wrong'") as reader:
        frame = spark.range(0, 1000, 1, 2).selectExpr(
            "'wrong' as job", "id as row", "nullif(id, 700) as value"
        )
        with pytest.raises(Exception, match="is null") as raised:
            write(frame, brokers.options())
        assert "row 201 of partition 1" in str(raised.value) and "'value'" in str(raised.value)
        write(frame.where("row != 700"), brokers.options())
        right = once(1000)
        del right[700]
        assert reader.all(999) == right


def test_a_stream_tells_the_same(spark: Any, brokers: Brokers, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("timestamp as at")
    query = (
        stream.writeStream.format("grapevine")
        .options(**brokers.options(), checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )
    with pytest.raises(Exception, match="column 'at' is of type timestamp"):
        query.awaitTermination(60)
