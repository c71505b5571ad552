"""`python -m bench.startup`: from the start of the process until a broker takes clients.

python -m bench.startup [--peers nats,redis,...] [--rounds 5] [-o json|table]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.broker import PEERS, machine
from bench.latency import show
from bench.options import absent, at_least, end_tidily, names
from bench.running import say
from bench.systems.base import System
from bench.systems.grapevine import Grapevine

SCHEMA = "bench.startup/1"


def once(system: System) -> tuple[float, float]:
    """Seconds to start, and to stop again."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        try:
            began = time.monotonic()
            system.start(Path(directory))
            ready = time.monotonic()
        finally:
            system.stop()
        return ready - began, time.monotonic() - ready


def main() -> None:
    parser = argparse.ArgumentParser("bench.startup", description="from start to ready")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS))
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    peers: list[System] = [PEERS[name]() for name in options.peers]
    missing = absent(peers)
    systems: list[System] = [Grapevine(), Grapevine("grapevine x3", brokers=3)]
    systems += [peer for peer in peers if not peer.missing()]
    times: dict[str, list[tuple[float, float]]] = {system.name: [] for system in systems}
    for number in range(1, options.rounds + 1):
        for system in systems:
            times[system.name].append(once(system))
            say(f"{number}/{options.rounds} {system.name}: {times[system.name][-1][0]:.3f} s")
    rows = []
    for system in systems:
        start, stop = (round(median(each), 3) for each in zip(*times[system.name], strict=True))
        rows.append({"system": system.name, "version": system.version(), "ready_s": start, "stop_s": stop})
    result = {
        "schema": SCHEMA,
        "rows": rows,
        "missing": missing,
        "rounds": options.rounds,
        "machine": machine(),
    }
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
