"""A Spark application that feeds or reads, for tests that kill it.

python -m tests.spark.driver --master URL --options JSON stream DIRECTORY CHECKPOINT
python -m tests.spark.driver --master URL --options JSON speculate ROWS
python -m tests.spark.driver --master URL --options JSON replay DIRECTORY CHECKPOINT
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

from grapevine.spark.session import spark_session
from tests.spark.replaying import replay

STREAM = "job STRING, row LONG"
SLOW_S = 40.0  # a task that is so slow has a copy started beside it
PARTITIONS = 4


def stream(spark: Any, options: dict[str, str], directory: str, checkpoint: str) -> None:
    """A directory of Parquet files, one file a batch, at a pace that leaves time to be killed in."""
    rows = spark.readStream.schema(STREAM).option("maxFilesPerTrigger", 2).parquet(directory)
    query = (
        rows.mapInArrow(paced, STREAM)
        .writeStream.format("grapevine")
        .options(**options, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def paced(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for start in range(0, batch.num_rows, 500):
            time.sleep(0.05)
            yield batch.slice(start, 500)


def speculate(spark: Any, options: dict[str, str], rows: str) -> None:
    """Every attempt of a task makes other rows, and the first attempt of the first is slow at its end."""
    numbers = spark.range(0, int(rows), 1, PARTITIONS)
    schema = "job STRING, row LONG, partition LONG, attempt LONG, token LONG"
    made = numbers.mapInArrow(random_rows, schema)
    made.write.format("grapevine").options(**options).mode("append").save()


def random_rows(batches: Iterator[Any]) -> Iterator[Any]:
    import secrets

    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    partition, token = context.partitionId(), secrets.randbits(60)
    for batch in batches:
        count = batch.num_rows
        columns = [
            pa.array(["speculate"] * count),
            batch.column(0),
            pa.array([partition] * count),
            pa.array([context.attemptNumber()] * count),
            pa.array([token] * count),
        ]
        yield pa.record_batch(columns, ["job", "row", "partition", "attempt", "token"])
        if partition == 0 and context.attemptNumber() == 0:
            time.sleep(SLOW_S)


JOBS = {"stream": stream, "speculate": speculate, "replay": replay}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument("--options", type=json.loads, required=True)
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("arguments", nargs="*")
    said = parser.parse_args()
    settings: dict[str, object] = {
        "spark.speculation": said.job == "speculate",
        "spark.speculation.interval": "200ms",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
        "spark.executor.memory": "512m",
        "spark.task.maxFailures": 8,
    }
    spark = spark_session(f"tests-{said.job}", said.master, **settings)
    JOBS[said.job](spark, said.options, *said.arguments)
    spark.stop()


if __name__ == "__main__":
    main()
