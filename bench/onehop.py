"""`python -m bench.onehop`: what a publication costs two matchers and a dispatcher, against one broker.

    python -m bench.onehop [--subscriptions 40000,1000000] [--width 50] [--rounds 3] [--publications 2000] [-o json|table]

BlueDove's subscriptions: a range of `width` on each of four attributes from 0 to 1000, around hot spots spread evenly
over the range, cropped normal with a deviation of 250; publications uniform. Processor time of all daemons together,
and every delivery compared with brute force.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy

from bench.broker import machine
from bench.content import Content
from bench.latency import show
from bench.options import at_least, end_tidily
from bench.running import interleaved, middle
from bench.systems.grapevine import Grapevine
from bench.systems.onehop import OneHop

SCHEMA = "bench.onehop/1"
NAMES = ["a", "b", "c", "d"]
LENGTH, DEVIATION = 1000.0, 250.0
CONNECTIONS = 10


def content(filters: int, width: float, publications: int) -> Content:
    random = numpy.random.default_rng(1)
    spots = (numpy.arange(len(NAMES)) + 0.5) * LENGTH / len(NAMES)
    middles = random.normal(spots, DEVIATION, (4 * filters, len(NAMES)))
    inside = middles[((middles >= 0) & (middles <= LENGTH)).all(axis=1)][:filters]
    low = numpy.round(numpy.clip(inside - width / 2, 0, LENGTH - width), 3)
    high = numpy.round(low + width, 3)
    values = numpy.round(random.uniform(0, LENGTH, (publications, len(NAMES))), 3)
    matching = [numpy.flatnonzero(((low <= v) & (v < high)).all(axis=1)).tolist() for v in values]
    wanted = [
        [
            triple
            for name, begin, end in zip(NAMES, lows, highs)
            for triple in ((name, ">=", begin), (name, "<", end))
        ]
        for lows, highs in zip(low.tolist(), high.tolist())
    ]
    published = [dict(zip(NAMES, row)) for row in values.tolist()]
    return Content(f"{len(wanted)} x {width:g}", wanted, CONNECTIONS, published, matching)  # type: ignore[arg-type]


def compare(filters: int, width: float, publications: int, rounds: int) -> dict[str, Any]:
    workload = content(filters, width, publications)
    one, cluster = Grapevine("one broker"), OneHop(NAMES)
    figures = interleaved([(one, workload), (cluster, workload)], rounds)
    alone = middle(figures[one.name, workload.name]).broker_us_per_msg
    together = middle(figures[cluster.name, workload.name]).broker_us_per_msg
    return {
        "subscriptions": len(workload.filters),
        "width": width,
        "deliveries": workload.copies,
        "one_broker_us": round(alone, 2),
        "one_hop_us": round(together, 2),
        "ratio": round(together / alone, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        "bench.onehop", description="two matchers and a dispatcher, or one broker"
    )
    parser.add_argument("--subscriptions", default="40000,1000000")
    parser.add_argument("--width", type=float, default=50.0)
    parser.add_argument("--publications", type=at_least(100), default=2_000)
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    counts = [int(word) for word in options.subscriptions.split(",")]
    rows = [compare(count, options.width, options.publications, options.rounds) for count in counts]
    result = {"schema": SCHEMA, "rows": rows, "rounds": options.rounds, "machine": machine()}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
