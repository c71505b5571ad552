"""Everything killed, again and again, while a stream is fed on a cluster; every row is counted.

    python -m tests.spark.kills [--way stage|number] [--rounds 3] [--seed 1]

A round is a source, a checkpoint and a query on it. While it runs, an executor, the driver and the fed broker
are killed with -9, twice each, at times and in an order drawn by the seed; a driver that was killed starts
again on its checkpoint. Prints one line of JSON for each round.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.cluster import Cluster, Driver
from tests.spark.feeding import Brokers, Reader, once

FILES, ROWS = 16, 4_000
KINDS = ("executor", "driver", "broker")


def source(path: Path, job: str, files: int = FILES, rows: int = ROWS) -> Path:
    """A directory of Parquet files with consecutive numbers."""
    path.mkdir()
    for number in range(files):
        numbers = range(number * rows, (number + 1) * rows)
        table = pa.table({"job": [job] * rows, "row": pa.array(numbers, pa.int64())})
        pq.write_table(table, path / f"part-{number:02d}.parquet")
    return path


class Round:
    def __init__(self, cluster: Cluster, brokers: Brokers, directory: Path, way: str, random: Random) -> None:
        self.cluster = cluster
        self.brokers = brokers
        self.random = random
        self.job = directory.name
        self.log = directory / "log"
        options = json.dumps(brokers.options(once=way, publisher=self.job))
        path = source(directory / "rows", self.job)
        self.arguments = ("--options", options, "stream", str(path), str(directory / "checkpoint"))
        self.killed: list[str] = []
        self.driver = self.start()

    def start(self) -> Driver:
        return Driver(self.cluster, self.log, *self.arguments)

    def kill(self, kind: str) -> None:
        if kind == "broker":
            self.brokers.restart()
        elif kind == "driver":
            self.driver.kill()
            self.driver = self.start()
        else:
            executors = self.cluster.executors()
            if not executors:
                return
            self.random.choice(executors).kill()
        self.killed.append(kind)

    def play(self, reader: Reader) -> dict[str, Any]:
        began = time.monotonic()
        order = self.random.sample(KINDS * 2, 2 * len(KINDS))
        for number, kind in enumerate(order, 1):
            goal = min(FILES * ROWS * number // (len(order) + 2), reader.count + ROWS)
            self._wait(reader, goal)
            time.sleep(self.random.uniform(0, 0.5))
            self.kill(kind)
        self.driver.wait(600)
        rows, right = reader.all(FILES * ROWS), once(FILES * ROWS)
        return {
            "killed": self.killed,
            "rows": right.total(),
            "missing": (right - rows).total(),
            "surplus": (rows - right).total(),
            "seconds": round(time.monotonic() - began),
        }

    def _wait(self, reader: Reader, rows: int) -> None:
        while reader.count < rows and not self.driver.died_by_itself():
            time.sleep(0.005)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=("stage", "number"), default="stage")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # who is stopped ends whom it has started
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with Cluster(directory / "cluster") as cluster, Brokers(directory) as brokers:
            for number in range(said.rounds):
                place = directory / f"{said.way}{number}"
                place.mkdir()
                with brokers.reading(f"job = '{place.name}'") as reader:
                    playing = Round(cluster, brokers, place, said.way, Random(said.seed + number))
                    try:
                        result = playing.play(reader)
                    finally:
                        playing.driver.kill()
                wrong += result["missing"] + result["surplus"]
                print(json.dumps({"way": said.way, "seed": said.seed + number, **result}), flush=True)
    print(json.dumps({"way": said.way, "rounds": said.rounds, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
