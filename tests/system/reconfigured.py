"""A ring of real daemons whose brokers change places while publishers and subscribers go on.

`python -m tests.system.reconfigured --brokers 12 --kill` is the proof of it: the manager is killed with -9
while it reconfigures, and whatever it had decided holds. Everything that was published arrives once, and in
order for each publisher and topic.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grapevine
from tests.system.overlay import Daemon, Overlay, eventually
from tests.system.test_pubctl import Pubctl

KILLED_AT = ("overlay", "pubsub", "finish")  # steps; later rounds are left alone
TOPICS = [f"t{number}" for number in range(24)]
SLOW_S = 120.0  # for things that take a second on a machine with nothing else to do


@contextmanager
def a_ring(directory: Path, brokers: int, **reconfiguration: object) -> Iterator[list[Daemon]]:
    settings = {"rule": "off", "report_s": 1.0, "calm_s": 0.5, "step_s": 20.0, **reconfiguration}
    chord = {"stabilise_s": 0.5, "lost_after_s": 5.0}
    with Overlay(directory, overlay={"kind": "chord"}, chord=chord, reconfiguration=settings) as overlay:
        daemons = [overlay.add(f"r{number}") for number in range(brokers)]
        members = [daemon.address for daemon in daemons[:4]]
        for daemon in daemons:
            daemon.sections["chord"] = {**daemon.sections["chord"], "members": members}
            if daemon is daemons[0]:
                daemon.sections["broker"]["roles"] = ["broker", "coordinator"]
            daemon.configure(daemon.sections)
            daemon.start()
        for daemon in daemons:
            daemon.ready(SLOW_S)
        yield daemons


class Traffic:
    """A publisher and a subscriber of two topics at each of some brokers; nobody stops."""

    def __init__(self, daemons: list[Daemon]) -> None:
        keys = daemons[0].keys
        self.over = False
        self.published: dict[str, list[str]] = {}
        self.got: dict[str, list[tuple[str, str, int]]] = {}
        self.failures: list[BaseException] = []
        self._clients: list[grapevine.Client] = []
        self._threads: list[threading.Thread] = []
        for number, daemon in enumerate(daemons):
            reader = grapevine.connect(daemon.address, name=f"reader{number}", keys=keys)
            mine = [TOPICS[(number * 2 + i) % len(TOPICS)] for i in range(2)] + [TOPICS[-1]]
            names = ", ".join(f"'{topic}'" for topic in mine)
            wanted = reader.subscribe(f"topic in ({names})", timeout=SLOW_S)
            self.got[f"reader{number}"] = []
            self.wanted = {**getattr(self, "wanted", {}), f"reader{number}": set(mine)}
            self._start(self._read, f"reader{number}", wanted)
            self._clients.append(reader)
        for number, daemon in enumerate(daemons):
            writer = grapevine.connect(daemon.address, name=f"writer{number}", keys=keys)
            self.published[f"writer{number}"] = []
            self._start(self._write, f"writer{number}", writer)
            self._clients.append(writer)

    def _start(self, call: object, *arguments: object) -> None:
        def run() -> None:
            try:
                call(*arguments)  # type: ignore[operator]
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _write(self, name: str, writer: grapevine.Client) -> None:
        number = 0
        while not self.over:
            topic = TOPICS[number % len(TOPICS)]
            writer.publish({"topic": topic, "n": number, "from": name})
            self.published[name].append(topic)
            number += 1
            time.sleep(0.01)
        writer.flush(timeout=SLOW_S)

    def _read(self, name: str, wanted: grapevine.Subscription) -> None:
        quiet = 0
        while not self.over or quiet < 6:
            batch = wanted.next_batch(1000, timeout=0.5)
            quiet = 0 if batch or any(t.is_alive() for t in self._writers()) else quiet + 1
            for message in batch:
                said = message.attributes
                self.got[name].append((str(said["from"]), str(said["topic"]), int(said["n"])))

    def _writers(self) -> list[threading.Thread]:
        return self._threads[len(self.got) :]

    def end(self) -> None:
        self.over = True
        for thread in self._threads:
            thread.join(2 * SLOW_S)
        for client in self._clients:
            client.close()

    def mistakes(self, without: frozenset[str] = frozenset()) -> list[str]:
        """What was lost, doubled or late; `without`: clients of a broker that was killed."""
        found = [f"{error!r}" for error in self.failures]
        for reader, got in self.got.items():
            if reader in without:
                continue
            for writer, topics in self.published.items():
                if writer in without:
                    continue
                for topic in sorted(self.wanted[reader]):
                    due = [number for number, one in enumerate(topics) if one == topic]
                    had = [n for source, one, n in got if source == writer and one == topic]
                    if had != due:
                        found.append(f"{reader} of {writer}'s {topic}: {len(had)} of {len(due)}, {had[:5]}")
        return found

    @property
    def total(self) -> int:
        return sum(map(len, self.got.values()))


def planes(pubctl: Pubctl) -> list[int]:
    return [row["plane"] for row in pubctl.json("reconfigure", "show")["rows"]]


def prove(brokers: int, kill: bool, rounds: int) -> int:
    with tempfile.TemporaryDirectory() as directory, a_ring(Path(directory), brokers) as daemons:
        pubctl = Pubctl(daemons[0].keys, daemons[1].address)
        traffic = Traffic(daemons[1:])
        time.sleep(3)
        done = 0
        for number in range(rounds):
            applied = pubctl.start("reconfigure", "apply", "--yes", "--anyway")
            if kill and number < len(KILLED_AT):
                step = KILLED_AT[number]
                eventually(lambda: f": {step}" in daemons[0].log(), SLOW_S, 0.001)  # noqa: B023
                daemons[0].kill()
                daemons[0].start().ready(SLOW_S)
            applied.wait(SLOW_S)
            eventually(lambda: len(set(planes(pubctl))) == 1 and len(planes(pubctl)) == brokers, SLOW_S)
            done = planes(pubctl)[0]
            time.sleep(2)
        traffic.end()
        mistakes = traffic.mistakes()
    print(f"{brokers} brokers, {rounds} reconfigurations begun, the ring is plane {done};", end=" ")
    print(f"{traffic.total} deliveries, {len(mistakes)} mistakes")
    for text in mistakes[:10]:
        print("   ", text)
    return bool(mistakes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kill", action="store_true", help="the manager, with -9, while it reconfigures")
    given = parser.parse_args()
    sys.exit(prove(given.brokers, given.kill, given.rounds))
