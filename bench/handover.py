"""`python -m bench.handover`: subscribers are handed over to another broker under traffic.

python -m bench.handover [--subscribers 1000] [--rate 1000] [-o json|table]

Three brokers in a row, encryption off. The subscribers are at the first and go to the last; bystanders stay at the
middle one, where the publisher is, a process of its own. All subscribers are sessions of one process. Figures: seconds
from the order to the last client's word, what was lost, doubled or late, and the bystanders' rate during the move as a
part of that before. Where the time goes, by process: processor seconds during the move, processor seconds a second
before it, and what the move took beyond these; with the number of processors that says how fast it could be.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

import grapevine
from bench.broker import machine
from bench.crowd import Crowd
from bench.options import at_least, end_tidily
from bench.running import say
from grapevine.client.engine import Engine
from grapevine.client.session import Message, Session, SessionSettings, State
from grapevine.filters import parse
from tools.pubctl.channel import Channel

SCHEMA = "bench.handover/2"
TOPICS = 50  # a publication is for one of them, as are subscribers
BYSTANDERS = 20
CALM_S = 4.0  # before the order, for the bystanders' usual rate
MOVE_S = 60.0
READY_S = 60.0
BURST_S = 0.005
PROCESSES = ("subscribers", "publisher", "first", "middle", "last")
BARS = {"lost": 0, "doubled": 0, "late": 0, "seconds": 2.0, "bystanders": 0.8}


class Reader:
    """One subscriber: how its publications came."""

    def __init__(self, name: str, address: str, topic: int) -> None:
        settings = SessionSettings()
        self.session = Session(name, 1, settings, self._take)
        self.engine = Engine([address], self.session, None)
        self.state = self.session.subscribe(parse(f"topic = {topic}"), time.monotonic())
        self.came: list[int] = []

    def _take(self, messages: list[Message]) -> None:
        self.came += [message.publication.sequence for message in messages]


def judge(readers: list[Reader], sent: int) -> dict[str, int]:
    """Against what was published for its topic since it was confirmed; the traffic began later."""
    lost = doubled = late = 0
    for place, reader in enumerate(readers):
        wanted = range(place % TOPICS + 1, sent + 1, TOPICS)
        lost += len(set(wanted) - set(reader.came))
        doubled += len(reader.came) - len(set(reader.came))
        late += sum(b < a for a, b in zip(reader.came, reader.came[1:]))
    return {"lost": lost, "doubled": doubled, "late": late}


@contextmanager
def brokers(directory: Path) -> Iterator[tuple[list[str], list[int]]]:
    processes = []
    addresses = [f"ipc://{directory}/b{number}" for number in range(3)]
    for number, address in enumerate(addresses):
        near = f'neighbours = ["{addresses[number - 1]}"]\n' if number else ""
        config = directory / f"b{number}.toml"
        config.write_text(
            f'[broker]\nname = "b{number}"\nlisten = ["{address}"]\nstate_dir = "{directory}/s{number}"\n'
            f"[tree]\n{near}[security]\ncurve = false\n[log]\nlevel = 'error'\n"
        )
        processes.append(subprocess.Popen([sys.executable, "-m", "daemon.main", "--config", str(config)]))
    try:
        for number in range(3):
            _wait_for(directory / f"b{number}")
        yield addresses, [process.pid for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def _wait_for(socket: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not socket.exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"no broker at {socket} within {READY_S:.0f} s")
        time.sleep(0.05)


def publish(address: str, rate: int, wire: Connection) -> None:
    """A process of its own: publish from the first word to the second, then say how many there were."""
    with grapevine.connect(address, name="pub", keys=False) as client:
        client.advertise("topic >= 0")
        wire.send("advertised")
        wire.recv()
        number, began = 0, time.monotonic()
        while not wire.poll(BURST_S):
            while number < (time.monotonic() - began) * rate:
                sequence = client.publish({"topic": number % TOPICS, "n": number + 1})
                number += 1
                assert sequence == number
        client.flush(60)
        wire.send(number)


@contextmanager
def publisher(address: str, rate: int) -> Iterator[tuple[Connection, int]]:
    ours, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=publish, args=(address, rate, its))
    process.start()
    assert process.pid is not None
    try:
        if not ours.poll(READY_S):
            raise SystemExit("the publisher does not start")
        ours.recv()
        yield ours, process.pid
        process.join(30)
    finally:
        process.kill()


def measure(subscribers: int, rate: int, directory: Path) -> dict[str, Any]:
    with brokers(directory) as (addresses, pids), publisher(addresses[1], rate) as (traffic, pid):
        moving = [Reader(f"s{n}", addresses[0], n % TOPICS) for n in range(subscribers)]
        staying = [Reader(f"t{n}", addresses[1], n % TOPICS) for n in range(BYSTANDERS)]
        crowd = Crowd(reader.engine for reader in (*moving, *staying))
        _need(crowd.until(lambda: all(reader.state.confirmed for reader in (*moving, *staying)), 120.0))
        say(f"{subscribers} subscribers are confirmed")
        traffic.send("go")
        found = {"subscribers": subscribers, "rate": rate}
        found |= _move(crowd, moving, staying, addresses[0], [os.getpid(), pid, *pids])
        traffic.send("enough")
        _need(crowd.until(traffic.poll, 60.0))
        sent = traffic.recv()
        crowd.wait(2.0)
        assert all(reader.session.state == State.ATTACHED for reader in (*moving, *staying))
        return found | judge(moving, sent)


def _move(
    crowd: Crowd, moving: list[Reader], staying: list[Reader], address: str, pids: list[int]
) -> dict[str, Any]:
    def arrived() -> int:
        return sum(len(reader.came) for reader in staying)

    processes = [psutil.Process(pid) for pid in pids]
    channel = Channel(address, 30.0, None)
    crowd.wait(1.0)
    had, spent, began = arrived(), _processor(processes), time.monotonic()
    crowd.wait(CALM_S)
    calm_s = time.monotonic() - began
    before = (arrived() - had) / calm_s
    calm = [(now - then) / calm_s for now, then in zip(_processor(processes), spent)]
    had, spent, began = arrived(), _processor(processes), time.monotonic()
    order = channel.ask("client.move", all_of="b0", to="b2").body["order"]
    if not crowd.until(lambda: all(r.session.broker_name == "b2" for r in moving), MOVE_S):
        rows = channel.ask("client.moved", order=order).body["rows"]
        why = Counter(row["text"] for row in rows if row["outcome"] != "moved")
        raise SystemExit(f"not all have moved: {dict(why) or 'it takes too long'}")
    seconds = time.monotonic() - began
    during = (arrived() - had) / seconds
    cpu = [now - then for now, then in zip(_processor(processes), spent)]
    channel.close()
    return {
        "seconds": round(seconds, 2),
        "bystanders": round(during / max(before, 1e-9), 2),
        "cpu_s": dict(zip(PROCESSES, (round(each, 2) for each in cpu))),
        "calm_cpu": dict(zip(PROCESSES, (round(each, 3) for each in calm))),
        "move_cpu_s": dict(zip(PROCESSES, (round(a - b * seconds, 2) for a, b in zip(cpu, calm)))),
    }


def _need(came: bool) -> None:
    if not came:
        raise SystemExit("it takes too long")


def _processor(processes: list[psutil.Process]) -> list[float]:
    times = [process.cpu_times() for process in processes]
    return [one.user + one.system for one in times]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.handover", description=__doc__)
    parser.add_argument("--subscribers", type=at_least(1), default=1_000)
    parser.add_argument("--rate", type=at_least(1), default=1_000, help="publications a second")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        row = measure(options.subscribers, options.rate, Path(directory))
    rows = [{**row, "bars": BARS}]
    if options.output == "json":
        print(json.dumps({"schema": SCHEMA, "machine": machine(), "rows": rows}))
    else:
        for name, value in row.items():
            print(f"{name:12} {value}{f'  (bar {BARS[name]})' if name in BARS else ''}")


if __name__ == "__main__":
    main()
