"""`python -m bench.memory`: resident memory of a broker, idle, with subscriptions, with clients.

python -m bench.memory [--subscriptions 0,1000,10000,100000] [--clients 100] [-o json|table]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import zmq

from bench.broker import PEERS, machine
from bench.content import c1, form
from bench.latency import show
from bench.options import absent, end_tidily
from bench.running import say
from bench.systems.base import System
from bench.systems.grapevine import Grapevine

SCHEMA = "bench.memory/1"


def resident_mb(system: System) -> float:
    total = 0
    for pid in system.pids():
        process = psutil.Process(pid)
        total += sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    return round(total / 1e6, 1)


def with_subscriptions(count: int, clients: int) -> dict[str, Any]:
    system = Grapevine()
    workload = c1(count, 0, connections=clients)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        try:
            system.start(Path(directory))
            idle = resident_mb(system)
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            began = time.monotonic()
            readers = []
            for place in range(clients):
                reader = system.client(context, f"reader{place}")
                reader.subscribe([(f + 1, form(workload.filters[f])) for f in workload.of(place)])
                readers.append(reader)
            took = time.monotonic() - began
            row = {
                "system": system.name,
                "subscriptions": count,
                "clients": clients,
                "idle_mb": idle,
                "resident_mb": resident_mb(system),
                "subscribe_s": round(took, 2),
            }
            context.destroy(0)
            return row
        finally:
            system.stop()


def peers_idle(peers: list[System]) -> list[dict[str, Any]]:
    rows = []
    for system in peers:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            try:
                system.start(Path(directory))
                rows.append(
                    {"system": system.name, "version": system.version(), "idle_mb": resident_mb(system)}
                )
            finally:
                system.stop()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser("bench.memory", description="resident memory of a broker")
    parser.add_argument("--subscriptions", default="0,1000,10000,100000")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--peers", action="store_true", help="the idle peers too")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    peers: list[System] = [make() for make in PEERS.values()] if options.peers else []
    missing = absent(peers)
    rows = []
    for count in map(int, options.subscriptions.split(",")):
        say(f"{count} subscriptions")
        rows.append(with_subscriptions(count, options.clients))
    rows += peers_idle([peer for peer in peers if not peer.missing()])
    result = {"schema": SCHEMA, "rows": rows, "missing": missing, "machine": machine()}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
