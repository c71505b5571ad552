"""df.write.format("grapevine"): every row of the frame, once, to a subscriber at another broker."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from grapevine.spark.session import register
from tests.spark.feeding import Brokers, once

ROWS = 20_000


def frame(spark: Any, rows: int = ROWS, job: str = "batch") -> Any:
    return spark.range(0, rows, 1, 4).selectExpr(
        f"'{job}' as job",
        "id as row",
        "concat('symbol ', id % 100) as symbol",
        "id % 7 = 0 as seventh",
        "id / 4 as price",
        "cast(concat('row ', id) as binary) as payload",
    )


@pytest.mark.parametrize("way", ["stage", "number"])
def test_every_row_arrives_once_as_it_was(spark: Any, brokers: Brokers, way: str) -> None:
    with brokers.reading(f"job = '{way}'") as reader:
        reader.kept = 100
        frame(spark, job=way).write.format("grapevine").options(**brokers.options(once=way)).mode(
            "append"
        ).save()
        assert reader.all(ROWS) == once(ROWS)
        for message in reader.messages:
            row = message.attributes["row"]
            assert isinstance(row, int)
            assert message.attributes == {
                "job": way,
                "row": row,
                "symbol": f"symbol {row % 100}",
                "seventh": row % 7 == 0,
                "price": row / 4,
            }
            assert message.payload == f"row {row}".encode()
            assert message.publisher.startswith("spark-")


@pytest.mark.parametrize("way", ["stage", "number"])
def test_a_named_write_that_runs_again_changes_nothing(spark: Any, brokers: Brokers, way: str) -> None:
    with brokers.reading("job = 'again'") as reader:
        options = brokers.options(query=f"again-{way}", publisher=f"again-{way}", once=way)
        for _ in range(2):
            frame(spark, 5_000, "again").write.format("grapevine").options(**options).mode("append").save()
        assert reader.all(5_000) == once(5_000)
        frame(spark, 5_000, "again").write.format("grapevine").options(**options, batch="1").mode(
            "append"
        ).save()
        assert set(reader.all(10_000).values()) == {2}


def test_columns_are_chosen_and_renamed(spark: Any, brokers: Brokers) -> None:
    with brokers.reading("job = 'chosen'", "number") as reader:
        reader.kept = 10
        options = brokers.options(attributes="job, number=row, cost=price", payload="symbol")
        frame(spark, 10, "chosen").write.format("grapevine").options(**options).mode("append").save()
        assert reader.all(10) == once(10)
        for message in reader.messages:
            row = message.attributes["number"]
            assert message.attributes == {"job": "chosen", "number": row, "cost": row / 4}  # type: ignore[operator]
            assert message.payload == f"symbol {row}".encode()


def test_nulls_are_left_out_on_demand(spark: Any, brokers: Brokers) -> None:
    rows = spark.range(0, 10, 1, 2).selectExpr(
        "'nulls' as job",
        "id as row",
        "if(id % 2 = 0, null, 'odd') as word",
        "cast(null as string) as payload",
    )
    with brokers.reading("job = 'nulls'") as reader:
        reader.kept = 10
        rows.write.format("grapevine").options(**brokers.options(nullAttributes="omit")).mode("append").save()
        assert reader.all(10) == once(10)
        for message in reader.messages:
            assert ("word" in message.attributes) == (message.attributes["row"] % 2 == 1)  # type: ignore[operator]
            assert message.payload == b""


def test_a_write_in_a_thread(spark: Any, brokers: Brokers) -> None:
    rows = frame(spark, 10, "thread")

    def write() -> None:
        register(spark)
        rows.write.format("grapevine").options(**brokers.options()).mode("append").save()

    with brokers.reading("job = 'thread'") as reader:
        thread = Thread(target=write)
        thread.start()
        thread.join()
        assert reader.all(10) == once(10)


def test_a_broker_killed_in_the_middle_costs_nothing(spark: Any, brokers: Brokers) -> None:
    """Between two halves of a partition, and again while it publishes."""
    pid, marker = brokers.fed.pid, brokers.directory / "reached"

    def watched(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == 1:
                marker.touch()
            yield batch

    numbers = spark.range(0, 40_000, 1, 2).selectExpr("'killed' as job", "id as row")
    rows = numbers.mapInArrow(watched, numbers.schema)
    with brokers.reading("job = 'killed'") as reader:
        killer = brokers.kill_when(marker.exists)
        rows.write.format("grapevine").options(**brokers.options()).mode("append").save()
        killer.join()
        assert brokers.fed.pid != pid
        assert reader.all(40_000) == once(40_000)
