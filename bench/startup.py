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
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    peers = [PEERS[name]() for name in options.peers.split(",") if name]
    systems: list[System] = [Grapevine(), Grapevine("grapevine x3", brokers=3), *peers]
    rows = []
    for system in systems:
        if system.missing():
            say(f"missing: {system.name}: {system.missing()}")
            continue
        times = [once(system) for _ in range(options.rounds)]
        start, stop = (round(median(each), 3) for each in zip(*times, strict=True))
        say(f"{system.name}: {start} s")
        rows.append({"system": system.name, "version": system.version(), "ready_s": start, "stop_s": stop})
    result = {"schema": SCHEMA, "rows": rows, "rounds": options.rounds, "machine": machine()}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
