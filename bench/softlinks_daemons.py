"""Fifteen brokers on this machine, S0 against ordered SH: `uv run python -m bench.softlinks_daemons`

A binary tree of real daemons over ZeroMQ with CURVE. Publishers at two leaves, a subscriber at every other
leaf, each with topics of its own and one that all want. The same publications go through under S0 and, when
the links have settled, under SH: mean hops, processor time of all brokers per delivery, deliveries a second
with as much published as is settled. From the first publication to the last, also while links rise, each
subscriber must have got exactly what it was owed of each publisher, once and in order (`wrong`: pairs of them
for which that is not so).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click
import psutil

import grapevine

BROKERS, FIRST_PORT = 15, 17_601
LEAVES = range(8, 16)  # broker n has the children 2n and 2n + 1
PUBLISHERS = (8, 15)
SETTLE_S = 12.0
Row = dict[str, Any]


def topology() -> str:
    parts = [
        "[defaults.overlay]\ndelta = 4\n[defaults.softlinks]\nfanout = 12\nmaxlinks = 24\ninterval_s = 1.0\n"
    ]
    for number in range(1, BROKERS + 1):
        parts.append(f'[[broker]]\nname = "n{number}"\nlisten = ["{address(number)}"]\n')
        if number > 1:
            parts.append(f'neighbours = ["{address(number // 2)}"]\n')
    return "".join(parts)


def address(broker: int) -> str:
    return f"tcp://127.0.0.1:{FIRST_PORT + broker}"


def pubctl(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tools.pubctl.main", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"pubctl {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout) if "json" in words else None


class Subscriber(threading.Thread):
    """Notes what it gets of each publisher and adds up the hops."""

    def __init__(self, leaf: int) -> None:
        super().__init__(daemon=True)
        self.leaf = leaf
        self.client = grapevine.connect(address(leaf), name=f"s{leaf}")
        self.subscription = self.client.subscribe(f"leaf = {leaf} or all")
        self.got = self.hops = 0
        self.stopped = False
        self.taken: dict[str, list[int]] = {}

    def run(self) -> None:
        while not self.stopped:
            for message in self.subscription.next_batch(5000, timeout=0.2) or ():
                self.got += 1
                self.hops += message.hops
                self.taken.setdefault(message.publisher, []).append(message.sequence)


class Publisher:
    def __init__(self, leaf: int, leaves: list[int]) -> None:
        self.client = grapevine.connect(address(leaf), name=f"p{leaf}")
        self.client.advertise("exists leaf")
        self.name = f"p{leaf}"
        self.owed: dict[int, list[int]] = {leaf: [] for leaf in leaves}

    @property
    def due(self) -> int:
        return sum(map(len, self.owed.values()))

    def publish(self, count: int) -> None:
        leaves = list(self.owed)
        for number in range(count):
            everybody = number % 10 == 0
            leaf = leaves[number % len(leaves)]
            attributes = {"leaf": 0 if everybody else leaf, "all": everybody, "n": number}
            sequence = self.client.publish(attributes, b"x" * 100)
            for one in leaves if everybody else (leaf,):
                self.owed[one].append(sequence)
        self.client.flush(timeout=120)


def wrong(publishers: list[Publisher], subscribers: list[Subscriber]) -> int:
    return sum(s.taken.get(p.name, []) != p.owed[s.leaf] for p in publishers for s in subscribers)


def measure(
    name: str, publishers: list[Publisher], subscribers: list[Subscriber], count: int, pids: list[int]
) -> Row:
    before = (sum(s.got for s in subscribers), sum(s.hops for s in subscribers))
    due_before = sum(p.due for p in publishers)
    cpu = processor(pids)
    began = time.perf_counter()
    threads = [threading.Thread(target=publisher.publish, args=(count,)) for publisher in publishers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    got, hops = (sum(s.got for s in subscribers) - before[0], sum(s.hops for s in subscribers) - before[1])
    due = sum(p.due for p in publishers) - due_before
    deadline = time.perf_counter() + 10
    while got < due and time.perf_counter() < deadline:
        time.sleep(0.05)
        got, hops = (
            sum(s.got for s in subscribers) - before[0],
            sum(s.hops for s in subscribers) - before[1],
        )
    used = processor(pids) - cpu
    return {
        "strategy": name,
        "due": due,
        "delivered": got,
        "wrong": wrong(publishers, subscribers),
        "mean_hops": hops / max(1, got),
        "broker_us_per_delivery": used / max(1, got) * 1e6,
        "deliveries_s": got / seconds,
    }


def processor(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


@click.command(help=__doc__)
@click.option("--count", default=20_000, show_default=True, help="Publications of each publisher.")
@click.option("-o", "--output", type=click.Choice(["json", "table"]), default="table", show_default=True)
def main(count: int, output: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "soft.toml")
        file.write_text(topology())
        pubctl("local", "up", str(file), "--yes")
        try:
            rows = compare(str(file), count)
        finally:
            pubctl("local", "down", str(file), "--yes")
    if output == "json":
        json.dump({"schema": "bench.softlinks_daemons/1", "rows": rows}, sys.stdout, indent=1)
        print()
        return
    for row in rows:
        print("  ".join(f"{k}={v:.2f}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()))


def compare(file: str, count: int) -> list[Row]:
    status = pubctl("local", "status", file, "-o", "json")
    pids = [row["pid"] for row in status["rows"]]
    subscribers = [Subscriber(leaf) for leaf in LEAVES if leaf not in PUBLISHERS]
    publishers = [Publisher(leaf, [s.leaf for s in subscribers]) for leaf in PUBLISHERS]
    for subscriber in subscribers:
        subscriber.start()
    measure("warm-up", publishers, subscribers, count // 10, pids)
    plain = measure("S0", publishers, subscribers, count, pids)
    pubctl("strategy", "set", "SH", "--yes", "-b", address(1))
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        measure("settling", publishers, subscribers, 200, pids)
        time.sleep(0.2)
    soft = measure("SH", publishers, subscribers, count, pids)
    for subscriber in subscribers:
        subscriber.stopped = True
    ratios = {
        "strategy": "SH / S0",
        **{key: soft[key] / plain[key] for key in ("mean_hops", "broker_us_per_delivery", "deliveries_s")},
    }
    return [plain, soft, ratios]


if __name__ == "__main__":
    main()
