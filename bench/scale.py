"""`python -m bench.scale`: what a publication costs the brokers, against one thing at a time.

    python -m bench.scale [--against brokers,subscriptions,clients,payload] [--rounds 5] [--scale 1.0] [-o json|table]

brokers        T1 through a chain of 1 to 7
subscriptions  C1 with 100 to 30,000 filters at ten clients
clients        one topic to 1 to 100 subscribers
payload        T1 with 10 bytes to 64 kB
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from bench.broker import machine
from bench.content import c1
from bench.latency import show
from bench.options import at_least, end_tidily, names
from bench.running import interleaved, middle
from bench.systems.base import System, Workload
from bench.systems.grapevine import Grapevine
from bench.workloads import Topics

SCHEMA = "bench.scale/1"
AGAINST = ("brokers", "subscriptions", "clients", "payload")
Point = tuple[int, System, Workload]


def points(against: str, scale: float) -> Iterator[Point]:
    count = max(1, int(2_000 * scale)) * 100
    if against == "brokers":
        for brokers in (1, 2, 3, 5, 7):
            yield brokers, Grapevine(brokers=brokers), Topics(f"brokers-{brokers}", 1, ((0,),), count)
    elif against == "subscriptions":
        for filters in (100, 1_000, 10_000, 30_000):
            few = max(100, int(filters * scale)) if scale < 1 else filters
            yield few, Grapevine(), c1(few, max(200, int(5_000 * scale)), 10)._replace(name=f"subs-{few}")
    elif against == "clients":
        for clients in (1, 3, 10, 30, 100):
            fewer = max(100, count // max(1, clients // 4) // 100 * 100)
            yield clients, Grapevine(), Topics(f"clients-{clients}", 1, ((0,),) * clients, fewer)
    else:
        for size in (10, 200, 2_000, 16_000, 64_000):
            fewer = max(100, count // max(1, size // 400) // 100 * 100)
            payload = b"x" * size
            batch = 100 if size <= 2_000 else 10
            yield size, Grapevine(), Topics(f"payload-{size}", 1, ((0,),), fewer, batch, payload)


def run(against: list[str], rounds: int, scale: float) -> dict[str, Any]:
    rows = []
    for name in against:
        several = list(points(name, scale))
        figures = interleaved([(system, workload) for _, system, workload in several], rounds)
        for value, system, workload in several:
            figure = middle(figures[system.name, workload.name])
            rows.append(
                {
                    "against": name,
                    "value": value,
                    "publications_s": round(figure.publications_s),
                    "deliveries_s": round(figure.deliveries_s),
                    "broker_us_per_msg": round(figure.broker_us_per_msg, 3),
                }
            )
    return {"schema": SCHEMA, "rows": rows, "rounds": rounds, "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser("bench.scale", description="cost against one thing at a time")
    parser.add_argument("--against", type=names(AGAINST), default=list(AGAINST))
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    result = run(options.against, options.rounds, options.scale)
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
