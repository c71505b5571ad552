"""`python -m bench.broker`: grapevine beside its peers, interleaved, the median of several rounds.

    python -m bench.broker [--peers nats,mosquitto,redis,rabbitmq,activemq]
                           [--workloads T1,T2,T3,C1,quotes,chain,clients]
                           [--rounds 5] [--scale 1.0] [--data DIR] [-o json|table]

stdout is data, stderr is talk. A peer that is not installed is named in `missing`. T1 is measured batched,
unbatched and with attributes that never repeat, with CURVE off and on, and its delay at 5,000 publications a
second. `broker_us_per_msg` is processor time of all brokers of the system per publication.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.clients import CLIENTS, GrapevineClient
from bench.compiled import compiled, say_if_not
from bench.content import c1, c1_equality, quotes
from bench.options import absent, at_least, end_tidily, names
from bench.probing import Delay, delay, delays, probe
from bench.running import interleaved, middle, say
from bench.systems.activemq import ActiveMQ
from bench.systems.base import System, Workload
from bench.systems.grapevine import Grapevine
from bench.systems.mosquitto import Mosquitto
from bench.systems.nats import Nats
from bench.systems.rabbitmq import RabbitMQ
from bench.systems.redis import Redis
from bench.workloads import topic_workloads

SCHEMA = "bench.broker/1"
PEERS: dict[str, type[Any]] = {
    "nats": Nats,
    "mosquitto": Mosquitto,
    "redis": Redis,
    "rabbitmq": RabbitMQ,
    "activemq": ActiveMQ,
}
WORKLOADS = ("T1", "T2", "T3", "C1", "quotes", "chain", "clients")
CURVE_WORKLOADS = ("T1", "T2", "T3", "quotes-10000")
RATE_S = 5_000.0
SLOW = {"mosquitto": 8, "rabbitmq": 16, "activemq": 16, "paho-mqtt": 16, "redis-py": 4, "nats-py": 4}
# Publications of content that a system gets: what takes it about a second. ActiveMQ gets more, because its
# virtual machine is only then warm: with 200 it does two thirds of that.
CONTENT = {"grapevine": 5_000, "grapevine-py": 5_000, "rabbitmq": 200, "activemq": 1_000}
Pair = tuple[System, Workload]


def pairs(wanted: list[str], peers: list[System], scale: float, data: Path | None) -> Iterator[Pair]:
    ours = Grapevine()
    topics = topic_workloads(scale)
    for name, workload in topics.items():
        if name.partition("-")[0] in wanted:
            for system in (ours, *peers):
                if system.can(workload):
                    yield system, _shorter(workload, SLOW.get(system.name, 1))
            yield from _curve_pairs(workload)
    if "C1" in wanted:
        yield from _c1_pairs([ours, GrapevineClient(), *peers], scale)
    if "quotes" in wanted:
        yield from _quotes_pairs(ours, scale, data)
    if "chain" in wanted:
        for count in (1, 3, 7):
            workload = _shorter(topics["T1"], 2)._replace(name=f"chain-{count}")
            yield Grapevine(f"grapevine x{count}", brokers=count), workload
    if "clients" in wanted:
        for name in ("T1", "T2", "T3"):
            for client in CLIENTS:
                shorter = _shorter(topics[name], SLOW.get(client().name, 1))
                yield client(), shorter._replace(name=f"{name}-clients")


def _c1_pairs(systems: list[System], scale: float) -> Iterator[Pair]:
    for filters in (1_000, 10_000):
        filters = max(100, int(filters * scale)) if scale < 1 else filters
        for full in (c1(filters, 5_000), c1_equality(filters, 5_000)):
            for system in systems:
                if system.can(full):
                    count = CONTENT.get(system.name, 200)
                    yield system, full.first(max(100, int(count * min(scale, 1))))


def _quotes_pairs(ours: System, scale: float, data: Path | None) -> Iterator[Pair]:
    for connections in (1, 100):
        for filters in (1_000, 10_000, 40_000):
            filters = max(100, int(filters * scale)) if scale < 1 else filters
            count = 20_000 if connections == 1 else 10_000
            workload = quotes(filters, max(1_000, int(count * min(scale, 1))), connections, data)
            yield ours, workload
            yield from _curve_pairs(workload)


def _curve_pairs(workload: Workload) -> Iterator[Pair]:
    """What CURVE keeps is of the same clients without it: of raw ones, and of those through libzmq."""
    if workload.name in CURVE_WORKLOADS:
        yield Grapevine("grapevine-curve", curve=True), workload
        yield Grapevine("grapevine-libzmq", libzmq=True), workload
        yield Grapevine("grapevine-libzmq-curve", libzmq=True, curve=True), workload


def _shorter(workload: Any, times: int) -> Any:
    """Slower systems get fewer publications, so that everybody takes about as long."""
    step = workload.batch * max(1, workload.topics // workload.batch)
    count = max(step, workload.publications // times // step * step)
    return workload._replace(publications=count)


def measure_delays(systems: list[System], rounds: int, seconds: float) -> dict[str, Delay]:
    found: dict[str, list[Delay]] = {}
    for number in range(1, rounds + 1):
        for system in systems:
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                try:
                    system.start(Path(directory))
                    if (asked := probe(system)) is None:
                        continue
                    got = delay(delays(asked, RATE_S, int(RATE_S * seconds)))
                finally:
                    system.stop()
            found.setdefault(system.name, []).append(got)
            say(f"{number}/{rounds} delay {system.name:16} p50 {got.p50_us:6.0f} us p99 {got.p99_us:6.0f} us")
    return {name: Delay(*[median(v) for v in zip(*all, strict=True)]) for name, all in found.items()}


def run(wanted: list[str], beside: list[str], rounds: int, scale: float, data: Path | None) -> dict[str, Any]:
    peers: list[System] = [PEERS[name]() for name in beside]
    all_pairs = list(pairs(wanted, peers, scale, data))
    missing = absent([*peers, *[system for system, _ in all_pairs]])
    gone = {gap["system"] for gap in missing}
    peers = [peer for peer in peers if peer.name not in gone]
    asked = [(system, workload) for system, workload in all_pairs if system.name not in gone]
    figures = interleaved(asked, rounds)
    waits: dict[str, Delay] = {}
    if "T1" in wanted:
        probed = [Grapevine(), *peers]
        waits = measure_delays(probed, rounds, 2.0 * min(scale, 1))
    versions = {system.name: system.version() for system, _ in asked}
    rows = []
    for (system_name, workload_name), several in figures.items():
        figure = middle(several)
        base = "nats-py" if workload_name.endswith("-clients") else "nats"
        reference = workload_name if (base, workload_name) in figures else workload_name.partition("-")[0]
        nats = figures.get((base, reference))
        wait = waits.get(system_name) if workload_name == "T1" else None
        rows.append(
            {
                "system": system_name,
                "version": versions[system_name],
                "workload": workload_name,
                "deliveries_s": round(figure.deliveries_s),
                "publications_s": round(figure.publications_s),
                "p50_us": None if wait is None else round(wait.p50_us),
                "p99_us": None if wait is None else round(wait.p99_us),
                "broker_us_per_msg": round(figure.broker_us_per_msg, 3),
                "ratio_to_nats": round(figure.deliveries_s / middle(nats).deliveries_s, 3) if nats else None,
                "runs": [round(each.deliveries_s) for each in several],
            }
        )
    return {
        "schema": SCHEMA,
        "rows": rows,
        "missing": missing,
        "rounds": rounds,
        "scale": scale,
        "machine": machine(),
        "real_quotes": data is not None,
    }


def machine() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.system() + " " + platform.release(),
        "compiled": compiled(),
    }


def table(result: dict[str, Any]) -> str:
    def cell(value: object) -> str:
        return "" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)

    names = [name for name in result["rows"][0] if name != "runs"]
    rows = [names, *[[cell(row[name]) for name in names] for row in result["rows"]]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, *(f"missing: {m['system']}: {m['reason']}" for m in result["missing"])])


def data_directory(given: str | None) -> Path | None:
    name = given or os.environ.get("GRAPEVINE_DATA")
    if name is None:
        return None
    if not (Path(name) / "quotes_lowsel").is_dir():
        raise FileNotFoundError(f"{name} has no quotes_lowsel")
    return Path(name)


def main() -> None:
    parser = argparse.ArgumentParser("bench.broker", description="grapevine beside its peers")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument(
        "--workloads", type=names(WORKLOADS), default=list(WORKLOADS), help=f"of {', '.join(WORKLOADS)}"
    )
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of every workload; below 1 only to try it")
    parser.add_argument("--data", help="directory with quotes_lowsel (default: GRAPEVINE_DATA, else made up)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    if not options.workloads:
        parser.error("no workload")
    try:
        data = data_directory(options.data)
    except FileNotFoundError as error:
        parser.error(str(error))
    if data is None and "quotes" in options.workloads:
        say("no --data: the quotes are made up, of the same shape")
    end_tidily()
    say_if_not()
    result = run(options.workloads, options.peers, options.rounds, options.scale, data)
    print(json.dumps(result) if options.output == "json" else table(result))


if __name__ == "__main__":
    main()
