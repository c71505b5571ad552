"""`python -m bench.tracing`: what POP's and GRAPE's tracing cost, in broker microseconds per publication.

    python -m bench.tracing [--algorithms pop,grape] [--pairs 20] [--publications 400000] [-o json|table]

Two brokers in a chain live through all pairs; each pair is T1 with tracing off, on, on, off (the next one
the other way round), so that a machine that becomes slower during a pair is so for both sides alike. They
differ in nothing but the setting, which `relocate set` changes while the brokers run. The figure is the mean
difference with its 95 % confidence interval. Publishers are traced and stay in place.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

from bench.broker import machine
from bench.features import STAYING, interval
from bench.latency import show
from bench.running import measure_started, say
from bench.systems.grapevine import Grapevine
from bench.workloads import Topics
from tools.pubctl.channel import Channel

SCHEMA = "bench.tracing/1"
BROKERS = 2


def switch(control: Path, algorithm: str) -> None:
    with Channel(f"ipc://{control}", 10.0) as channel:
        reply = channel.ask("relocate.set", algorithm=algorithm, **STAYING)
    assert len(reply.body["brokers"]) == BROKERS, reply


def compare(algorithm: str, pairs: int, publications: int) -> dict[str, Any]:
    workload = Topics("T1", 1, ((0,),), publications // 2)
    system = Grapevine(brokers=BROKERS)
    base, cost = [], []
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        control = Path(directory) / "bench0" / "control"
        try:
            system.start(Path(directory))
            measure_started(system, workload)  # warm
            for number in range(pairs):
                spent = {"off": 0.0, algorithm: 0.0}
                outer, inner = ("off", algorithm) if number % 2 else (algorithm, "off")
                for side in (outer, inner, inner, outer):
                    switch(control, side)
                    spent[side] += measure_started(system, workload).broker_us_per_msg / 2
                base.append(spent["off"])
                cost.append(spent[algorithm] - spent["off"])
                say(f"{number + 1}/{pairs} {algorithm}: {spent['off']:.3f} {spent[algorithm]:.3f} us")
        finally:
            system.stop()
    middle, half = interval(cost)
    row = {"off_us": mean(base), "cost_us": middle, "low_us": middle - half, "high_us": middle + half}
    share = {"cost_percent": 100 * middle / mean(base), "high_percent": 100 * (middle + half) / mean(base)}
    return {
        "algorithm": algorithm,
        "pairs": pairs,
        **{key: round(value, 3) for key, value in (row | share).items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser("bench.tracing", description="what tracing costs")
    parser.add_argument("--algorithms", default="pop,grape")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--publications", type=int, default=400_000)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    rows = [compare(name, options.pairs, options.publications) for name in options.algorithms.split(",")]
    result = {"schema": SCHEMA, "rows": rows, "machine": machine()}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
