"""`python -m bench.balancing`: processor time of BAD's plans, at the paper's size and at ten times it.

    python -m bench.balancing [--rounds 3] [-o json|table]

A plan starts from the table of who wants what, the smoothed rates and who is where; `counting` is what the
loads took from those alone, and is part of no plan's time, as a coordinator keeps them while it runs. The
least of the rounds counts. Subscribers are placed unevenly, as the nearest brokers of real users are.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from overlay.coordinate.loads import Assignment
from overlay.coordinate.plan import Plan, migrate, shuffle

SIZES = {"paper": (10, 10_000, 1_000), "ten times": (100, 100_000, 10_000)}
PLANNERS: dict[str, Callable[[Assignment], Plan]] = {
    "LDM 0.15": lambda at: migrate(at, 0.15, 0.0, "LDM"),
    "LDM 0.05": lambda at: migrate(at, 0.05, 0.0, "LDM"),
    "SDM 0.15": lambda at: migrate(at, 0.15, 0.0, "SDM"),
    "SDM 0.05": lambda at: migrate(at, 0.05, 0.0, "SDM"),
    "GSH": shuffle,
    "GSH keep 0.02": lambda at: shuffle(at, keep=0.02),
}


def world(brokers: int, subscribers: int, results: int, seed: int = 1) -> Assignment:
    """10 to 30 subscriptions each (BAD 6.2.1), rates of 20 kB/s with a deviation of 5."""
    draw = np.random.default_rng(seed)
    rates = np.clip(draw.normal(20e3, 5e3, results), 1e3, None)
    counts = draw.integers(10, 31, subscribers)
    start = np.concatenate([[0], np.cumsum(counts)])
    wanted = np.concatenate([draw.choice(results, count, replace=False) for count in counts])
    shares = 1 / np.arange(1, brokers + 1) ** 0.6
    home = draw.choice(brokers, subscribers, p=shares / shares.sum())
    return Assignment(brokers, rates, start, wanted, home)


def measure(size: str, rounds: int) -> list[dict[str, object]]:
    begun = world(*SIZES[size])
    rows = []
    for name, planner in PLANNERS.items():
        times, counting = [], []
        for _ in range(rounds):
            t0 = time.process_time()
            at = begun.copy()
            t1 = time.process_time()
            plan = planner(at)
            times.append(time.process_time() - t1)
            counting.append(t1 - t0)
        assert np.allclose(at.loads, at.recomputed()), "loads drifted"
        rows.append(
            {
                "size": size,
                "planner": name,
                "cpu_s": round(min(times), 4),
                "counting_s": round(min(counting), 4),
                "front_end": len(begun.wanted),
                "cov_before": round(begun.cov(), 4),
                "cov_after": round(at.cov(), 5),
                "moves": len(plan.moves),
                "steps": plan.steps,
                "ended": plan.ended,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", choices=("json", "table"), default="table")
    options = parser.parse_args()
    rows = [row for size in SIZES for row in measure(size, options.rounds)]
    if options.output == "json":
        print(json.dumps({"schema": "bench.balancing/1", "rows": rows}))
        return
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
