"""`python -m tests.spark.proof_channels [--rounds 20]`: whoever takes part in executions is killed.

Real daemons, a real driver, real Spark. In each round one of driver, back end and broker gets SIGKILL at a
random moment and is started again, while reports go on. At the end every subscriber must have every report
that is in the log, once and in order; one of them was away meanwhile and came back at another broker.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

import grapevine
from tests.spark.channels import Cluster

ENOUGH_S = 600.0


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


def strike(cluster: Cluster, who: str) -> None:
    if who == "driver":
        cluster.stop_driver()
        time.sleep(0.5)
        cluster.start_driver()
    else:
        cluster[who].kill()
        time.sleep(random.uniform(0.1, 1.0))
        cluster[who].start().ready()


def run(rounds: int, directory: Path, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    kills: dict[str, int] = {}
    with Cluster(directory, "edge", "far") as cluster:
        cluster.create()
        cluster.start_driver()
        with (
            cluster.client("back", "pub") as publisher,
            cluster.client("edge", "ann") as ann,
            cluster.client("far", "bob") as bob,
        ):
            reading = [
                Reading(client.subscribe_channel("Live", {"low": low}, timeout=120))
                for client, low in ((ann, -1), (bob, -1), (bob, 10))
            ]
            away = cluster.client("edge", "eve")
            eve = away.__enter__()
            eve.subscribe_channel("Live", {"low": -1}, timeout=120)
            away.__exit__(None, None, None)
            for each in reading:
                each.start()
            number = 0
            for turn in range(rounds):
                for _ in range(10):
                    publisher.publish(
                        {"class": "report", "id": number, "type": "fire", "lat": 60.0, "lon": 24.0}
                    )
                    number += 1
                publisher.flush(timeout=120)
                time.sleep(chance.uniform(0.0, 3.0))
                who = chance.choice(("driver", "back", "edge"))
                kills[who] = kills.get(who, 0) + 1
                strike(cluster, who)
                print(f"round {turn + 1} of {rounds}: killed {who}", file=sys.stderr, flush=True)
                if who == "driver":
                    wait_for(lambda due=number - 20: len(reading[0].rows) >= due, "the driver goes on")
            wait_for(
                lambda: all(
                    len(each.rows) >= number - (11 if i == 2 else 0) for i, each in enumerate(reading)
                ),
                "results",
            )
            with cluster.client("far", "eve") as again:
                late = Reading(again.subscribe_channel("Live", {"low": -1}, timeout=120))
                late.start()
                wait_for(lambda: len(late.rows) >= number, "who was away")
                time.sleep(2.0)
                late.stopped = True
            fed = log_of(cluster)
            for each in reading:
                each.stopped = True
        wanted = [fed, fed, [each for each in fed if each > 10], fed]
        got = [[each for _, each in one.rows] for one in (*reading, late)]
        exact = [one == other for one, other in zip(got, wanted)]
        return {
            "rounds": rounds,
            "kills": kills,
            "reports": number,
            "fed": len(fed),
            "fed_once": sorted(fed) == list(range(number)),
            "exact": exact,
        }


def wait_for(goal: Any, what: str) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not goal():
        assert time.monotonic() < deadline, f"not in {ENOUGH_S} s: {what}"
        time.sleep(0.2)


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
