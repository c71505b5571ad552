"""`python -m tests.spark.proof_channels_cluster`: the same channels on local[2] and on a standalone cluster.

The same reports go twice through the same channel file, once under each master; on the cluster an executor is
killed in between. Both must give the same rows, each once.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.spark.channels import Cluster, collect
from tests.spark.cluster import Cluster as Spark

REPORTS = 40


def reports(publisher: Any) -> None:
    for number in range(REPORTS):
        place = {"lat": 60 + number / 200, "lon": 24 + number / 300}
        kind = "fire" if number % 3 else "ems"
        publisher.publish({"class": "report", "id": number, "type": kind, **place})
    publisher.flush(timeout=120)


def rows(found: list[Any]) -> list[str]:
    return sorted(repr(result.row) for result in found)


def run(directory: Path) -> dict[str, Any]:
    with Cluster(directory / "brokers", "edge") as cluster, Spark(directory / "spark") as spark:
        cluster.create()
        with cluster.client("edge", "pub") as publisher, cluster.client("edge", "ann") as ann:
            given = {"type": "fire", "lat": 60.0, "lon": 24.0, "km": 12}
            near = ann.subscribe_channel("Near", given, timeout=120)
            live = ann.subscribe_channel("Live", {"low": 10}, timeout=120)
            cluster.start_driver("local[2]")
            reports(publisher)
            wanted = REPORTS - 11
            first = rows(collect(live, wanted, 600))
            time.sleep(5.0)
            one = rows(near.next_batch(1000, timeout=120))
            cluster.stop_driver()
            cluster.start_driver(spark.url)
            deadline = time.monotonic() + 300
            while not spark.executors() and time.monotonic() < deadline:
                time.sleep(0.5)
            reports(publisher)
            killed = spark.executors()[:1]
            for executor in killed:
                executor.kill()
            second = rows(collect(live, wanted, 600))
            other = rows(collect(near, len(one), 600))
            more = live.next_batch(1000, timeout=5) + near.next_batch(1000, timeout=5)
        cluster.stop_driver()
    return {
        "live": len(first),
        "near": len(one),
        "equal": first == second and one == other,
        "more": len(more),
        "killed": len(killed),
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        found = run(Path(directory))
    print(msgspec.json.encode(found).decode())
    return 0 if found["equal"] and not found["more"] and found["near"] else 1


if __name__ == "__main__":
    sys.exit(main())
