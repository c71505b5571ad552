"""`python -m bench.latency`: the delay of single publications at a steady rate, beside the peers and along chains.

python -m bench.latency [--peers nats,redis,...] [--rates 1000,5000] [--chains 1,3,5,7] [--rounds 5] [-o json|table]
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench.broker import PEERS, machine
from bench.options import absent, at_least, end_tidily, names
from bench.probing import Delay, delay, delays, probe
from bench.running import say
from bench.systems.base import System
from bench.systems.grapevine import Grapevine

SCHEMA = "bench.latency/1"


def once(system: System, rate_s: float, seconds: float) -> Delay | None:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        try:
            system.start(Path(directory))
            asked = probe(system)
            return None if asked is None else delay(delays(asked, rate_s, int(rate_s * seconds)))
        finally:
            system.stop()


def run(
    peers: list[str], rates: list[float], chains: list[int], rounds: int, seconds: float
) -> dict[str, Any]:
    systems: list[System] = [
        Grapevine(f"grapevine x{n}" if n > 1 else "grapevine", brokers=n) for n in chains
    ]
    beside: list[System] = [PEERS[name]() for name in peers]
    missing = absent(beside)
    systems += [peer for peer in beside if not peer.missing()]
    rows = []
    for rate in rates:
        found: dict[str, list[Delay]] = {system.name: [] for system in systems}
        for number in range(1, rounds + 1):
            for system in systems:
                got = once(system, rate, seconds)
                if got is not None:
                    found[system.name].append(got)
                    say(f"{number}/{rounds} {rate:,.0f}/s {system.name:14} {got.p50_us:.0f} us")
        for system in systems:
            if found[system.name]:
                p50, p99 = (median(values) for values in zip(*found[system.name], strict=True))
                rows.append(
                    {
                        "system": system.name,
                        "version": system.version(),
                        "rate_s": rate,
                        "p50_us": round(p50),
                        "p99_us": round(p99),
                    }
                )
    return {"schema": SCHEMA, "rows": rows, "missing": missing, "rounds": rounds, "machine": machine()}


def show(result: dict[str, Any]) -> str:
    return "\n".join("  ".join(f"{key} {value}" for key, value in row.items()) for row in result["rows"])


def main() -> None:
    parser = argparse.ArgumentParser("bench.latency", description="the delay at a steady rate")
    parser.add_argument("--peers", type=names(PEERS), default=["nats", "redis", "mosquitto", "rabbitmq"])
    parser.add_argument("--rates", default="1000,5000")
    parser.add_argument("--chains", default="1,3,5,7")
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    result = run(
        options.peers,
        [float(rate) for rate in options.rates.split(",")],
        [int(count) for count in options.chains.split(",")],
        options.rounds,
        options.seconds,
    )
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
