"""`python -m bench.features`: what a feature costs, in broker microseconds per publication.

    python -m bench.features [--features log-all,curve,...] [--pairs 20] [-o json|table]

Each pair is one run of T1 without and one with the feature, one after the other, in turns which first; the
figure is the mean difference with its 95 % confidence interval (Student's t over the pairs).

log-sampled  one in a hundred publications in the delivery log
log-all      every publication
curve        encryption and authentication
covering     on against off, in a chain of two brokers, for C1 instead of T1: some of its filters cover others
marks        subscribers that acknowledge after every read, against only when there is nothing to read
trace-pop    publishers traced as POP does, in a chain of two brokers
trace-grape  the same as GRAPE does
"""

from __future__ import annotations

import argparse
import json
from math import sqrt
from statistics import mean, stdev
from typing import Any

from bench.broker import machine
from bench.content import c1
from bench.latency import show
from bench.options import at_least, end_tidily, names
from bench.running import measure, say
from bench.systems.base import Workload
from bench.systems.grapevine import Grapevine
from bench.workloads import Topics

SCHEMA = "bench.features/1"
STAYING = {"moves_per_minute": 0.001}  # publishers are traced and stay where they are
FEATURES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "log-sampled": ({}, {"delivery_log": {"mode": "sampled"}}),
    "log-all": ({}, {"delivery_log": {"mode": "all"}}),
    "curve": ({}, {"curve": True}),
    "covering": ({"brokers": 2, "tree": {"covering": False}}, {"brokers": 2, "tree": {"covering": True}}),
    "marks": ({"acknowledge_every": 1 << 30}, {"acknowledge_every": 1}),
    "trace-pop": ({"brokers": 2}, {"brokers": 2, "relocation": {"algorithm": "pop", **STAYING}}),
    "trace-grape": ({"brokers": 2}, {"brokers": 2, "relocation": {"algorithm": "grape", **STAYING}}),
}
# Two-sided 95 % by degrees of freedom; in between the next smaller one, which is on the safe side.
STUDENT = {
    1: 12.71,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    7: 2.365,
    9: 2.262,
    14: 2.145,
    19: 2.093,
    29: 2.045,
}


def interval(differences: list[float]) -> tuple[float, float]:
    """The mean and half of its 95 % confidence interval."""
    degrees = len(differences) - 1
    factor = STUDENT[max(known for known in STUDENT if known <= degrees)]
    return mean(differences), factor * stdev(differences) / sqrt(len(differences))


def compare(name: str, pairs: int, publications: int) -> dict[str, Any]:
    without, with_it = FEATURES[name]
    workload: Workload = Topics("T1", 1, ((0,),), publications)
    if name == "covering":
        workload = c1(1_000, max(100, publications // 20), connections=10)
    base, cost = [], []
    for number in range(pairs):
        sides = [("without", Grapevine("without", **without)), ("with", Grapevine("with", **with_it))]
        spent = {}
        for side, system in sides if number % 2 else reversed(sides):
            spent[side] = measure(system, workload).broker_us_per_msg
        base.append(spent["without"])
        cost.append(spent["with"] - spent["without"])
        say(f"{number + 1}/{pairs} {name}: {spent['without']:.3f} {spent['with']:.3f} us")
    middle, half = interval(cost)
    return {
        "feature": name,
        "pairs": pairs,
        "without_us": round(mean(base), 3),
        "cost_us": round(middle, 3),
        "low_us": round(middle - half, 3),
        "high_us": round(middle + half, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser("bench.features", description="what a feature costs")
    parser.add_argument("--features", type=names(FEATURES), default=list(FEATURES))
    parser.add_argument("--pairs", type=at_least(2), default=20)
    parser.add_argument("--publications", type=int, default=200_000)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    rows = [compare(name, options.pairs, options.publications) for name in options.features]
    result = {"schema": SCHEMA, "rows": rows, "machine": machine()}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
