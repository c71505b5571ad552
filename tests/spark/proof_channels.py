"""`python -m tests.spark.proof_channels [--rounds 20]`: whoever takes part in executions is killed.

Real daemons, a real driver, and real Spark: a standalone cluster of two workers. In each round one of driver,
executors, back end and broker gets SIGKILL at one of the steps of an execution (`stepping.STEPS`) and is
started again: twenty rounds are each at each step. At the end every subscriber must have every report that is
in the log, once and in order; one of them was away meanwhile, for at least 100 executions, and came back at
another broker.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

import grapevine
from tests.spark.channels import Cluster
from tests.spark.cluster import Cluster as Spark
from tests.spark.stepping import STEPS, Gate

ENOUGH_S = 600.0
WORKERS = 2
WHO = ("driver", "executor", "back", "edge")
AWAY = 100  # executions that somebody is away for


class Reading(threading.Thread):
    """Takes results until it is stopped."""

    def __init__(self, results: grapevine.ChannelSubscription) -> None:
        super().__init__(daemon=True)
        self.results = results
        self.rows: list[tuple[int, int]] = []
        self.stopped = False
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stopped:
                for result in self.results.next_batch(1000, timeout=0.5):
                    self.rows.append((result.position, result.row["id"]))
        except grapevine.Error as error:
            self.failure = error


def log_of(cluster: Cluster) -> list[int]:
    rows = cluster.pubctl("dataset", "show", "Reports", "--rows", "10000")["rows"]
    return [row["attributes"]["id"] for row in rows]


class Reports:
    def __init__(self, publisher: grapevine.Client) -> None:
        self.publisher = publisher
        self.count = 0

    def send(self, more: int) -> None:
        for _ in range(more):
            place = {"type": "fire", "lat": 60.0, "lon": 24.0}
            self.publisher.publish({"class": "report", "id": self.count, **place})
            self.count += 1
        self.publisher.flush(timeout=120)


def strike(cluster: Cluster, spark: Spark, gate: Gate, who: str, step: str, reports: Reports) -> None:
    """Executors are halted before a stage that somebody is to be killed in: else it would have ended."""
    executors: list[psutil.Process] = []
    while len(executors) < WORKERS:
        time.sleep(0.2)
        executors = spark.executors()
    halted = executors if step == "running" else []
    for each in halted:
        each.suspend()
    gate.want(step)
    reports.send(10)
    wait_for(gate.reached.exists, f"step {step}", 0.001)
    if who == "driver":
        cluster.stop_driver()
    elif who == "executor":  # all of them; their workers start others
        for each in executors:
            each.kill()
    else:
        cluster[who].kill()
    gate.go.touch()
    for each in halted:
        with suppress(psutil.NoSuchProcess):
            each.resume()


def revive(cluster: Cluster, spark: Spark, who: str) -> None:
    if who == "driver":
        cluster.start_driver(spark.url)
    elif who != "executor":
        cluster[who].start().ready()


def rounds_of(rounds: int, chance: random.Random) -> list[tuple[str, str]]:
    """Each at each step, in no order; again from the start if there are more rounds."""
    found: list[tuple[str, str]] = []
    while len(found) < rounds:
        pairs = list(itertools.product(WHO, STEPS))
        chance.shuffle(pairs)
        found += pairs
    return found[:rounds]


def run(rounds: int, directory: Path, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    struck: list[str] = []
    gate = Gate(directory)
    with Cluster(directory / "brokers", "edge", "far") as cluster, Spark(directory / "spark") as spark:
        cluster.create()
        cluster.stepping = directory
        cluster.start_driver(spark.url)
        with (
            cluster.client("back", "pub") as publisher,
            cluster.client("edge", "ann") as ann,
            cluster.client("far", "bob") as bob,
        ):
            readers = [
                Reading(client.subscribe_channel("Live", {"low": low}, timeout=120))
                for client, low in ((ann, -1), (bob, -1), (bob, 10))
            ]
            with cluster.client("edge", "eve") as eve:
                eve.subscribe_channel("Live", {"low": -1}, timeout=120)
            left_at = cluster.executed("Live")
            for each in readers:
                each.start()
            reports = Reports(publisher)
            for turn, (who, step) in enumerate(rounds_of(rounds, chance), 1):
                due = reports.count
                wait_for(lambda due=due: len(readers[0].rows) >= due, "the round before")
                strike(cluster, spark, gate, who, step, reports)
                struck.append(f"{who} {step}")
                say(f"round {turn} of {rounds}: killed {who} at {step}: {STEPS[step]}")
                time.sleep(chance.uniform(0.1, 1.0))
                revive(cluster, spark, who)
            while (away := cluster.executed("Live") - left_at) < AWAY:
                reports.send(1)
                wait_for(lambda: len(readers[0].rows) >= reports.count, "one more execution")
            say(f"{away} executions")
            due = [reports.count, reports.count, reports.count - 11]
            wait_for(lambda: all(len(each.rows) >= n for each, n in zip(readers, due)), "results")
            with cluster.client("far", "eve") as again:
                late = Reading(again.subscribe_channel("Live", {"low": -1}, timeout=120))
                late.start()
                wait_for(lambda: len(late.rows) >= reports.count, "who was away")
                time.sleep(2.0)
                late.stopped = True
            fed = log_of(cluster)
            for each in readers:
                each.stopped = True
    wanted = [fed, fed, [each for each in fed if each > 10], fed]
    got = [[each for _, each in one.rows] for one in (*readers, late)]
    return {
        "rounds": rounds,
        "kills": Counter(each.split()[0] for each in struck),
        "struck": sorted(set(struck)),
        "reports": reports.count,
        "fed_once": sorted(fed) == list(range(reports.count)),
        "away_executions": away,
        "exact": [one == other for one, other in zip(got, wanted)],
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def wait_for(goal: Any, what: str, every_s: float = 0.2) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not goal():
        assert time.monotonic() < deadline, f"not in {ENOUGH_S} s: {what}"
        time.sleep(every_s)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as directory:
        found = run(given.rounds, Path(directory), given.seed)
    print(msgspec.json.encode(found).decode())
    return 0 if all(found["exact"]) and found["fed_once"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
