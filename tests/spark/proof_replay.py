"""`python -m tests.spark.proof_replay [--rounds 50]`: who reads a kept stream is killed, and reads every row once.

Each round is a query from the stream's beginning to its end, into Parquet, with a checkpoint and a durable
name. At one of the steps of a batch (`replaying.STEPS`) the driver with all that it has started, the process
that is at the step, or the broker gets SIGKILL, and a driver that ends by that is started again on its
checkpoint. Rounds go through all pairs, by turns on local[2] and on a standalone cluster of two workers,
where the process at a task's step goes with its executor. At the end the sink has every row once, and never
had the broker been told of more than what the query had committed.
"""  # noqa: E501

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow.parquet as pq

import grapevine
from tests.spark.cluster import Cluster, Driver
from tests.spark.feeding import Brokers, once
from tests.spark.replaying import STEPS, Gate
from tests.system.test_pubctl import Pubctl

STREAM = "replayed"
ROWS, A_BATCH, A_TASK = 6_000, 1_500, 400
WHO = ("driver", "process", "broker")
LONGEST_S = 240.0


class Local(Cluster):
    """No cluster: all of Spark in the driver. A task that fails is tried again, as on a cluster."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.url = "local[2,8]"


def publish(brokers: Brokers) -> None:
    Pubctl(brokers.fed.keys, brokers.fed.address)("stream", "add", STREAM, f"job = '{STREAM}'", "--yes")
    with grapevine.connect(brokers.fed.address, keys=str(brokers.fed.keys), name="writer") as client:
        for row in range(ROWS):
            client.publish({"job": STREAM, "row": row})
        client.flush(timeout=120)


def last_of(log: Path) -> int:
    """The newest batch in a log of the checkpoint; -1 if there is none."""
    return max((int(file.name) for file in log.glob("[0-9]*") if file.name.isdigit()), default=-1)


def committed(checkpoint: Path) -> int:
    """The next offset behind the last batch that the query has committed; 1 if there is none."""
    batch = last_of(checkpoint / "commits")
    if batch < 0:
        return 1
    offsets = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    return int(offsets[STREAM][1])


def in_sink(rows: Path) -> Counter[Any]:
    """What the sink's own log says that there is: files of batches that did not end do not count."""
    added = set()
    for log in (rows / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            added.add(Path(json.loads(line)["path"].removeprefix("file://")))
    tables = (pq.read_table(file, columns=["row"]) for file in added)
    return Counter(row for table in tables for row in table.column("row").to_pylist())


class Round:
    def __init__(self, spark: Cluster, brokers: Brokers, place: Path, random: Random) -> None:
        place.mkdir()
        self.spark, self.brokers, self.random = spark, brokers, random
        self.name = place.name
        self.log = place / "log"
        self.rows, self.checkpoint, steps = place / "rows", place / "checkpoint", place / "steps"
        steps.mkdir()
        self.gate = Gate(steps)
        said = brokers.options(
            stream=STREAM,
            durable=self.name,
            startingOffsets="earliest",
            maxRowsPerTrigger=A_BATCH,
            partitionRows=A_TASK,
            steps=steps,
        )
        self.arguments = ("--options", json.dumps(said), "replay", str(self.rows), str(self.checkpoint))
        self.starts = 0
        self.ahead = 0  # the most that the broker was told beyond what the query had committed
        self.driver = self.start()

    def start(self) -> Driver:
        self.starts += 1
        return Driver(self.spark, self.log, *self.arguments)

    def said(self) -> str:
        return self.log.read_text()[-3000:]

    def play(self, who: str, step: str) -> dict[str, Any]:
        began = time.monotonic()
        batch = self.random.randrange(1, 3)
        met = self._meet(batch, step)
        if met is not None:
            self._kill(who, met)
            self._look()
            self.gate.go.touch()
        while (code := self._ended(began)) != 0:
            assert self.starts < 5, f"ended with {code}: {self.said()}"
            self.driver = self.start()
        self._look()
        rows, right = in_sink(self.rows), once(ROWS)
        return {
            "who": who,
            "step": step,
            "met": met is not None,
            "starts": self.starts,
            "ahead": self.ahead,
            "missing": (right - rows).total(),
            "surplus": (rows - right).total(),
            "seconds": round(time.monotonic() - began),
        }

    def _meet(self, batch: int, step: str) -> int | None:
        """Wait until the query is so far and at the step; the process that is there."""
        deadline = time.monotonic() + LONGEST_S
        while last_of(self.checkpoint / "commits") + 1 < batch:
            assert time.monotonic() < deadline and not self.driver.died_by_itself(), self.log.read_text()[
                -3000:
            ]
        self.gate.want(step)
        while (met := self.gate.who()) is None:
            if time.monotonic() > deadline or self.driver.died_by_itself():
                return None
        return met

    def _kill(self, who: str, met: int) -> None:
        if who == "driver":
            self.driver.kill()
            self._look()
            self.driver = self.start()
        elif who == "broker":
            self.brokers.restart()
        else:
            executor = {process.pid for process in self.spark.executors()}
            above = {process.pid for process in psutil.Process(met).parents()}
            os.kill(next(iter(executor & above), met), signal.SIGKILL)

    def _look(self) -> None:
        """Committed is read last: it may only have grown meanwhile."""
        shown = Pubctl(self.brokers.fed.keys, self.brokers.fed.address).json("stream", "show", STREAM)
        told = [row["acknowledged"] for row in shown["rows"] if row["name"] == self.name]
        self.ahead = max(self.ahead, *(each + 1 - committed(self.checkpoint) for each in told), 0)

    def _ended(self, began: float) -> int:
        while (code := self.driver.process.poll()) is None:
            assert time.monotonic() - began < LONGEST_S, f"it hangs: {self.said()}"
            time.sleep(0.05)
        return code


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="go on from this round")
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # who is stopped ends whom it has started
    pairs = itertools.cycle(itertools.product(WHO, STEPS))
    wrong = missed = 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with Cluster(directory / "cluster") as cluster, Brokers(directory) as brokers:
            publish(brokers)
            kinds = {"local": Local(directory), "cluster": cluster}
            for number, (who, step) in zip(range(said.rounds), pairs):
                if number < said.first:
                    continue
                kind = list(kinds)[(number + number // (len(WHO) * len(STEPS))) % 2]
                playing = Round(
                    kinds[kind], brokers, directory / f"round{number}", Random(said.seed + number)
                )
                try:
                    result = playing.play(who, step)
                finally:
                    playing.driver.kill()
                wrong += result["missing"] + result["surplus"] + result["ahead"]
                missed += not result["met"]
                print(json.dumps({"round": number, "on": kind, **result}), flush=True)
    print(json.dumps({"rounds": said.rounds - said.first, "wrong": wrong, "missed": missed}))
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
