"""`python -m bench.reconfiguration`: how long DYNATOPS-Greedy takes to find a new mapping (its table 1).

    python -m bench.reconfiguration [--seeds 1] [--only B=1000] [-o json|table]

Processor seconds of one thread: building the cost of the present mapping, then the search. The paper says
neither how many topics a broker wants nor the patience of its search, which as printed is 1: brokers want 5
or 20 % of the topics, uniformly (U) or from few of ten modes (M), and each is searched with patience 1 and
10. The saving is against the mapping by consistent hashing that the search begins with.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np

from bench.broker import machine
from bench.latency import show
from bench.running import say
from overlay.coordinate.cost import Cost, Geometry, Matrix
from overlay.coordinate.greedy import ssbr_greedy

SCHEMA = "bench.reconfiguration/1"
PAPER_S = {(10, 100): 0.028, (100, 100): 0.184, (1000, 100): 96.0}
PAPER_S |= {(100, 50): 0.098, (100, 500): 0.502, (100, 5000): 1.9}
MODES = 10


def wanted(chance: np.random.Generator, brokers: int, topics: int, each: int, pattern: str) -> Matrix:
    found = np.zeros((brokers, topics), bool)
    for broker in range(brokers):
        pool = np.arange(topics)
        if pattern == "M":
            size = topics // MODES
            modes = chance.choice(MODES, -(-each // size), replace=False)
            pool = (modes[:, None] * size + np.arange(size)).ravel()
        found[broker, chance.choice(pool, each, replace=False)] = True
    return found


def row(seed: int, brokers: int, topics: int, pattern: str, share: float, patience: int) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    each = max(2, int(topics * share))
    wants = wanted(chance, brokers, topics, each, pattern)
    positions = chance.integers(0, 1 << 64, brokers, dtype=np.uint64)
    keys = chance.integers(0, 1 << 64, topics, dtype=np.uint64)
    at = chance.permutation(brokers)
    began = time.process_time()
    geometry = Geometry(positions)
    cost = Cost(geometry, geometry.owner(keys), np.ones(topics), wants, at, 1.0)
    built = time.process_time()
    path = ssbr_greedy(cost, patience)
    ended = time.process_time()
    return {
        "brokers": brokers,
        "topics": topics,
        "pattern": pattern,
        "share": share,
        "patience": patience,
        "seed": seed,
        "build_s": round(built - began, 4),
        "search_s": round(ended - built, 4),
        "cpu_s": round(ended - began, 4),
        "swaps": len(path) - 1,
        "saving_percent": round(100 * (1 - path[-1].cost / path[0].cost), 1),
        "paper_s": PAPER_S[brokers, topics],
    }


def run(seeds: int, only: str | None) -> dict[str, Any]:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # numpy's threads count as processor time while they wait
    sizes = [(b, p) for b, p in PAPER_S if only is None or only in (f"B={b}", f"P={p}", f"B={b},P={p}")]
    cases = list(product(range(1, seeds + 1), sizes, "UM", (0.05, 0.2), (1, 10)))
    rows = []
    # A process of its own, which loads numpy with one thread.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        waiting = [alone.submit(row, seed, *size, *rest) for seed, size, *rest in cases]
        for number, future in enumerate(waiting, 1):
            rows.append(future.result())
            say(f"{number}/{len(waiting)}")
    return {"schema": SCHEMA, "rows": rows, "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser("bench.reconfiguration", description="how long a new mapping takes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", help="sizes such as B=1000, P=5000 or B=100,P=500")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    result = run(options.seeds, options.only)
    if not result["rows"]:
        parser.error(f"{options.only} is none of the paper's sizes: B=10, 100, 1000 or P=50, 500, 5000")
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
