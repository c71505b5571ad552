"""`python -m bench.replay`: rows a second that Spark reads again from a stream that a broker keeps.

    python -m bench.replay [--rows 1000000] [--rounds 3] [-o json|table]

Quotes are published into a stream, and read from an offset a tenth into it to its end, as a batch that adds
them up and as a query into a sink that throws everything away. What was read is counted and compared with
what was published. Two tasks at once, beside their broker.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil

import grapevine
from bench.broker import machine
from bench.options import at_least, end_tidily
from bench.running import say
from bench.spark import COLUMNS
from bench.systems.grapevine import Grapevine
from grapevine.spark.session import spark_session
from tests.system.test_pubctl import Pubctl

SCHEMA = "bench.replay/1"
STREAM = "day"
WAYS = ("batch", "stream")


def quote(row: int) -> dict[str, Any]:
    price = 10 + row % 8_999 / 100
    return {
        "symbol": f"S{row % 100}",
        "date": f"{1984 + row % 20}-{1 + row % 12}-{1 + row % 28}",
        "open": price,
        "high": price + 1.25,
        "low": price - 1.25,
        "close": price + 0.5,
        "volume": row,
    }


def publish(address: str, keys: Path, rows: int) -> None:
    with grapevine.connect(address, keys=str(keys), name="exchange") as client:
        for row in range(rows):
            client.publish(quote(row))
        client.flush(600)


class Bench:
    def __init__(self, spark: Any, system: Grapevine, directory: Path, rows: int) -> None:
        self.spark = spark
        self.system = system
        self.directory = directory
        self.first = rows // 10 + 1
        self.rows = rows - self.first + 1
        self._runs = 0

    def options(self) -> dict[str, str]:
        return {
            "brokers": self.system.addresses[0],
            "keys": str(self.system.keys),
            "stream": STREAM,
            "startingOffsets": json.dumps({STREAM: self.first}),
        }

    def batch(self) -> float:
        frame = self.spark.read.format("grapevine").schema(f"offset LONG, {COLUMNS}")
        began = time.monotonic()
        counted = frame.options(**self.options()).load().selectExpr("count(*)", "sum(volume)").collect()[0]
        took = time.monotonic() - began
        assert tuple(counted) == (self.rows, sum(range(self.first - 1, self.first - 1 + self.rows))), counted
        return self.rows / took

    def stream(self) -> float:
        self._runs += 1
        frame = self.spark.readStream.format("grapevine").schema(f"offset LONG, {COLUMNS}")
        began = time.monotonic()
        query = (
            frame.options(**self.options())
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(self.directory / f"checkpoint{self._runs}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        took = time.monotonic() - began
        read = sum(progress["numInputRows"] for progress in query.recentProgress)
        assert read == self.rows, f"{read} of {self.rows} rows"
        return self.rows / took

    def broker_s(self) -> float:
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self.system.pids())


def measure(bench: Bench, rounds: int) -> list[dict[str, Any]]:
    figures: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):  # the first warms up
        for way in WAYS:
            before = bench.broker_s()
            rows_s = bench.batch() if way == "batch" else bench.stream()
            spent_us = (bench.broker_s() - before) / bench.rows * 1e6
            say(f"{way}: {rows_s:,.0f} rows/s, broker {spent_us:.1f} us a row")
            if number:
                figures[way].append((rows_s, spent_us))
    return [
        {
            "way": way,
            "rows_s": round(median(rows_s for rows_s, _ in runs)),
            "broker_us_per_row": round(median(us for _, us in runs), 2),
        }
        for way, runs in figures.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser("bench.replay", description="a kept stream, read again by Spark")
    parser.add_argument("--rows", type=at_least(1_000), default=1_000_000)
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    said = parser.parse_args()
    end_tidily()
    system = Grapevine(curve=True, libzmq=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        try:
            system.start(directory)
            assert system.keys is not None
            Pubctl(system.keys, system.addresses[0])("stream", "add", STREAM, "exists symbol", "--yes")
            publish(system.addresses[0], system.keys, said.rows)
            say(f"{said.rows:,} rows are in the stream")
            spark = spark_session("bench", "local[2]")
            figures = measure(Bench(spark, system, directory, said.rows), said.rounds)
            spark.stop()
        finally:
            system.stop()
    if said.output == "json":
        print(json.dumps({"schema": SCHEMA, "rows": figures, "kept": said.rows, "machine": machine()}))
        return
    for row in figures:
        print(
            f"{row['way']:8}{row['rows_s']:>12,} rows/s{row['broker_us_per_row']:>10} us a row at the broker"
        )


if __name__ == "__main__":
    main()
