"""`python -m bench.handover`: subscribers are handed over to another broker under traffic.

python -m bench.handover [--subscribers 1000] [--rate 1000] [-o json|table]

Three brokers in a row, encryption off. The subscribers are at the first and go to the last; bystanders stay at the
middle one, where the publisher is. All subscribers are sessions of one process that is turned round and round, so
the time is an upper bound. Figures: seconds from the order to the last client's word, what was lost, doubled or late,
and the bystanders' rate during the move as a part of that before. Where the time goes: processor seconds of each broker
and of the process that the subscribers and the publisher are in, meanwhile.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

import grapevine
from bench.broker import machine
from bench.options import at_least, end_tidily
from bench.running import say
from grapevine.client.engine import Engine
from grapevine.client.session import Message, Session, SessionSettings, State
from grapevine.filters import parse
from tools.pubctl.channel import Channel

SCHEMA = "bench.handover/1"
TOPICS = 50  # a publication is for one of them, as are subscribers
BYSTANDERS = 20
CALM_S = 4.0  # before the order, for the bystanders' usual rate
MOVE_S = 120.0
READY_S = 60.0
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


def judge(readers: list[Reader], sent: dict[int, list[int]]) -> dict[str, int]:
    """Against what was published for its topic since it was confirmed; the traffic began later."""
    lost = doubled = late = 0
    for place, reader in enumerate(readers):
        wanted = sent[place % TOPICS]
        lost += len(set(wanted) - set(reader.came))
        doubled += len(reader.came) - len(set(reader.came))
        late += sum(b < a for a, b in zip(reader.came, reader.came[1:]))
    return {"lost": lost, "doubled": doubled, "late": late}


@contextmanager
def brokers(directory: Path) -> Iterator[tuple[list[str], list[psutil.Process]]]:
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
        yield addresses, [psutil.Process(process.pid) for process in processes]
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


class Traffic(Thread):
    def __init__(self, client: grapevine.Client, rate: int) -> None:
        super().__init__()
        self.client, self.rate, self.ends = client, rate, False
        self.sent: dict[int, list[int]] = defaultdict(list)

    def run(self) -> None:
        number, began = 0, time.monotonic()
        while not self.ends:
            while number < (time.monotonic() - began) * self.rate:
                topic = number % TOPICS
                number += 1
                self.sent[topic].append(self.client.publish({"topic": topic, "n": number}))
            time.sleep(0.005)
        self.client.flush(60)


def turn(readers: list[Reader]) -> None:
    for reader in readers:
        reader.engine.turn()


def until(readers: list[Reader], what: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        turn(readers)
        if time.monotonic() > deadline:
            raise SystemExit("it takes too long")


def measure(subscribers: int, rate: int, directory: Path) -> dict[str, Any]:
    with (
        brokers(directory) as (addresses, processes),
        grapevine.connect(addresses[1], name="pub", keys=False) as client,
    ):
        moving = [Reader(f"s{n}", addresses[0], n % TOPICS) for n in range(subscribers)]
        staying = [Reader(f"t{n}", addresses[1], n % TOPICS) for n in range(BYSTANDERS)]
        readers = moving + staying
        client.advertise("topic >= 0")
        until(readers, lambda: all(reader.state.confirmed for reader in readers))
        say(f"{subscribers} subscribers are confirmed")
        traffic = Traffic(client, rate)
        traffic.start()
        channel = Channel(addresses[0], 30.0, None)

        def arrived() -> int:
            return sum(len(reader.came) for reader in staying)

        calm_until = time.monotonic() + CALM_S
        until(readers, lambda: time.monotonic() > calm_until)
        before, began = arrived() / CALM_S, time.monotonic()
        had, spent = arrived(), _processor(processes)
        channel.ask("client.move", all_of="b0", to="b2")
        until(readers, lambda: all(r.session.broker_name == "b2" for r in moving), MOVE_S)
        seconds = time.monotonic() - began
        during = (arrived() - had) / seconds
        spent = [round(after - then, 2) for then, after in zip(spent, _processor(processes))]
        calm_until = time.monotonic() + 1.0
        until(readers, lambda: time.monotonic() > calm_until)
        traffic.ends = True
        until(readers, lambda: not traffic.is_alive())
        calm_until = time.monotonic() + 2.0
        until(readers, lambda: time.monotonic() > calm_until)
        assert all(reader.session.state == State.ATTACHED for reader in readers)
        channel.close()
        found = {"subscribers": subscribers, **judge(moving, traffic.sent), "seconds": round(seconds, 2)}
        found |= {"bystanders": round(during / max(before, 1e-9), 2), "rate": rate}
        return found | {"clients_cpu_s": spent[0], "brokers_cpu_s": spent[1:]}


def _processor(processes: list[psutil.Process]) -> list[float]:
    """Seconds so far: our own, and each broker's."""
    times = [process.cpu_times() for process in processes]
    return [time.process_time(), *(one.user + one.system for one in times)]


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
