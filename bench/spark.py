"""`python -m bench.spark`: rows a second that Spark feeds from Parquet into one broker, batch and stream.

    python -m bench.spark [--rows 1000000] [--rounds 3] [--data FILE] [--curve] [-o json|table]

Beside it the same into a sink that throws everything away, to see whose limit it is: `null` is a Python data
source that takes the same Arrow batches, `noop` is Spark's own and leaves Java never. A subscriber has asked
for 1 % of the rows and counts them. A write is over when all its rows are settled; a stream runs over all
files, some at a time, from its start to its end. Rows are stock quotes, generated or read from FILE (csv).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

import grapevine
from bench.broker import machine
from bench.running import say
from bench.systems.grapevine import Grapevine
from grapevine.spark.session import spark_session

SCHEMA = "bench.spark/1"
FILES = 8
FILES_A_BATCH = 4
COLUMNS = "symbol STRING, date STRING, open DOUBLE, high DOUBLE, low DOUBLE, close DOUBLE, volume LONG"
WANTED = "symbol = 'S7'"
SINKS = ("noop", "null", "grapevine stage", "grapevine number")


class Counted(WriterCommitMessage):  # type: ignore[misc]
    pass


class _Null:
    def write(self, iterator: Iterator[Any]) -> Counted:
        for batch in iterator:
            assert batch.num_rows >= 0
        return Counted()


class NullBatch(_Null, DataSourceArrowWriter):  # type: ignore[misc]
    pass


class NullStream(_Null, DataSourceStreamArrowWriter):  # type: ignore[misc]
    pass


class NullSource(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "null"

    def writer(self, schema: Any, overwrite: bool) -> NullBatch:
        return NullBatch()

    def streamWriter(self, schema: Any, overwrite: bool) -> NullStream:
        return NullStream()


def prepare(spark: Any, directory: Path, rows: int, data: str) -> int:
    """The source as Parquet; how many rows it has."""
    if data:
        quotes = spark.read.schema(COLUMNS).option("header", "true").csv(data)
    else:
        quotes = spark.range(0, rows, 1, FILES).selectExpr(
            "concat('S', id % 100) as symbol",
            "concat(int(1984 + id % 20), '-', int(1 + id % 12), '-', int(1 + id % 28)) as date",
            "round(10 + rand(1) * 90, 2) as open",
            "round(10 + rand(2) * 90, 2) as high",
            "round(10 + rand(3) * 90, 2) as low",
            "round(10 + rand(4) * 90, 2) as close",
            "cast(rand(5) * 1e7 as long) as volume",
        )
    quotes.repartition(FILES).write.parquet(str(directory / "quotes"))
    return int(spark.read.parquet(str(directory / "quotes")).count())


class Reader:
    """A subscriber at the broker, counting."""

    def __init__(self, system: Grapevine) -> None:
        self.count = 0
        keys: Any = str(system.keys) if system.keys else False
        self._client = grapevine.connect(system.addresses[0], keys=keys)
        self._subscription = self._client.subscribe(WANTED)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            batch = self._subscription.next_batch(10_000)  # not in the sum: that would read the count first
            self.count += len(batch)

    def expect(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while self.count < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.count == count, f"{self.count} of {count} rows came"
        self.count = 0


class Bench:
    def __init__(self, spark: Any, system: Grapevine, directory: Path, rows: int) -> None:
        self.spark = spark
        self.system = system
        self.directory = directory
        self.rows = rows
        self.source = str(directory / "quotes")
        self.wanted = int(spark.read.parquet(self.source).where(WANTED).count())
        self.reader = Reader(system)
        self._runs = 0

    def options(self, sink: str) -> dict[str, str]:
        if not sink.startswith("grapevine"):
            return {}
        keys = str(self.system.keys) if self.system.keys else "none"
        return {"brokers": self.system.addresses[0], "keys": keys, "once": sink.split()[1]}

    def batch(self, sink: str) -> float:
        frame = self.spark.read.schema(COLUMNS).parquet(self.source)
        began = time.monotonic()
        frame.write.format(sink.split()[0]).options(**self.options(sink)).mode("append").save()
        return self._over(sink, began)

    def stream(self, sink: str) -> float:
        self._runs += 1
        frame = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", FILES_A_BATCH)
        checkpoint = str(self.directory / f"checkpoint{self._runs}")
        began = time.monotonic()
        query = (
            frame.parquet(self.source)
            .writeStream.format(sink.split()[0])
            .options(**self.options(sink), checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self._over(sink, began)

    def _over(self, sink: str, began: float) -> float:
        took = time.monotonic() - began
        if sink.startswith("grapevine"):
            self.reader.expect(self.wanted)
        return self.rows / took

    def cpu_s(self) -> float:
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self.system.pids())


def measure(bench: Bench, rounds: int) -> list[dict[str, Any]]:
    figures: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(rounds + 1):  # the first warms up
        for sink in SINKS:
            for kind, run in (("batch", bench.batch), ("stream", bench.stream)):
                before = bench.cpu_s()
                rows_s = run(sink)
                spent_us = (bench.cpu_s() - before) / bench.rows * 1e6
                say(f"{sink}, {kind}: {rows_s:,.0f} rows/s, broker {spent_us:.1f} us a row")
                if number:
                    figures.setdefault((sink, kind), []).append((rows_s, spent_us))
    return [
        {
            "sink": sink,
            "kind": kind,
            "rows_s": round(median(rows_s for rows_s, _ in runs)),
            "broker_us_per_row": round(median(us for _, us in runs), 2),
        }
        for (sink, kind), runs in figures.items()
    ]


def show(result: dict[str, Any]) -> str:
    lines = [f"{'sink':<18}{'kind':<8}{'rows/s':>12}{'broker us/row':>15}"]
    for row in result["rows"]:
        name = f"{row['sink']:<18}{row['kind']:<8}"
        lines.append(f"{name}{row['rows_s']:>12,}{row['broker_us_per_row']:>15}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser("bench.spark", description="Spark into one broker")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="", help="a csv file of quotes, in place of generated ones")
    parser.add_argument("--curve", action="store_true", help="with encryption")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    said = parser.parse_args()
    spark = spark_session("bench", "local[2]")
    spark.dataSource.register(NullSource)
    system = Grapevine(curve=said.curve)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        rows = prepare(spark, directory, said.rows, said.data)
        try:
            system.start(directory)
            figures = measure(Bench(spark, system, directory, rows), said.rounds)
        finally:
            system.stop()
            spark.stop()
    result = {"schema": SCHEMA, "rows": figures, "fed": rows, "rounds": said.rounds, "machine": machine()}
    print(json.dumps(result) if said.output == "json" else show(result))


if __name__ == "__main__":
    main()
