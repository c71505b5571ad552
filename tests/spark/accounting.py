"""Real quotes fed by Spark, accounted for row by row at a subscriber of another broker.

    GRAPEVINE_DATA=DIRECTORY python -m tests.spark.accounting [--way stage|number]

Reads `stockquotes_padres.csv.gz` twice: Spark feeds it, Python's own csv counts it. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grapevine
from grapevine.spark.session import spark_session
from tests.spark.feeding import Brokers

FILE = "stockquotes_padres.csv.gz"
COLUMNS = "symbol STRING, date STRING, open DOUBLE, high DOUBLE, low DOUBLE, close DOUBLE, volume LONG"
PRICES = ("open", "high", "low", "close")
Row = tuple[Any, ...]


def expected(path: Path) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            prices = (float(row[price]) for price in PRICES)
            rows[row["symbol"], row["date"], *prices, int(row["volume"])] += 1
    return rows


class Subscriber:
    """Counts rows by all their values."""

    def __init__(self, address: str, keys: str) -> None:
        self.rows: Counter[Row] = Counter()
        self._client = grapevine.connect(address, keys=keys)
        self._quotes = self._client.subscribe("exists symbol")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for message in self._quotes:
            self.rows[tuple(message.attributes.values())] += 1

    def end(self, count: int) -> Counter[Row]:
        """What has come when nothing more does."""
        deadline = time.monotonic() + 60
        while self.rows.total() < count and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(2)
        self._client.close(0)
        self._thread.join(10)
        return self.rows


def fed(path: Path, way: str, count: int) -> tuple[Counter[Row], float]:
    """What a subscriber got, and how long `save` took."""
    with tempfile.TemporaryDirectory() as name, Brokers(Path(name)) as brokers:
        subscriber = Subscriber(brokers["b2"].address, str(brokers.fed.keys))
        spark = spark_session("accounting", "local[2]")
        frame = spark.read.schema(COLUMNS).option("header", "true").csv(str(path)).repartition(4)
        options = brokers.options(once=way, advertise="exists symbol")
        began = time.monotonic()
        frame.write.format("grapevine").options(**options).mode("append").save()
        took_s = time.monotonic() - began
        rows = subscriber.end(count)
        spark.stop()
    return rows, took_s


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=("stage", "number"), default="stage")
    said = parser.parse_args()
    path = Path(os.environ.get("GRAPEVINE_DATA", ".")) / FILE
    if not path.exists():
        print(f"GRAPEVINE_DATA names no directory with {FILE}", file=sys.stderr)
        return 1
    right = expected(path)
    got, took_s = fed(path, said.way, right.total())
    result = {
        "way": said.way,
        "rows": right.total(),
        "delivered": got.total(),
        "missing": (right - got).total(),
        "surplus": (got - right).total(),
        "seconds": round(took_s, 1),
    }
    print(json.dumps(result))
    return 0 if got == right else 1


if __name__ == "__main__":
    sys.exit(main())
