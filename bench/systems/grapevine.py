"""Our own daemon by its own protocol, with the settings of its tests: one broker, or a chain of several."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import zmq

from bench.content import Content, form
from bench.systems.base import Outcome, Ready, Workload, free_port
from bench.systems.raw import Context, Libzmq, Raw, Readers, Wire, new_epoch
from bench.systems.zmtp import Zmtp
from bench.workloads import Topics
from grapevine.filters import EVERYTHING, Filter, parse
from grapevine.wire import encode_attributes, encode_publications, encode_publish
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import ClientAdvertise

READY_S = 30.0
ACKNOWLEDGED = 1_024
AT_ONCE = 5_000  # subscriptions, well within the time after which a silent client is let go


class Grapevine:
    """`sections` are added to every broker's configuration; `libzmq`: the bench's clients go through it;
    `packages`: where another version of the broker is installed, this tree's otherwise."""

    def __init__(
        self,
        name: str = "grapevine",
        brokers: int = 1,
        curve: bool = False,
        acknowledge_every: int = ACKNOWLEDGED,
        libzmq: bool = False,
        packages: Path | None = None,
        **sections: dict[str, Any],
    ) -> None:
        self.name = name
        self.brokers = brokers
        self.curve = curve
        self.acknowledge_every = acknowledge_every
        self.libzmq = libzmq
        self.packages = packages
        self.sections = sections
        self.processes: list[subprocess.Popen[bytes]] = []
        self.addresses: list[str] = []
        self.keys: Path | None = None

    @property
    def sealed(self) -> bool:
        """Whether its clients do CURVE by hand."""
        return self.curve and not self.libzmq

    def missing(self) -> str:
        if self.sealed and not find_spec("nacl"):
            return "the Python package pynacl is not installed (uv sync --group bench)"
        return ""

    def version(self) -> str:
        return version("grapevine-broker")

    def can(self, workload: Workload) -> bool:
        return True

    # --- brokers -----------------------------------------------------------------------------------

    def start(self, directory: Path) -> None:
        self.processes, self.addresses = [], []
        self.keys = directory / "keys" if self.curve else None
        for number in range(self.brokers):
            self._start_one(directory, number)

    def _start_one(self, directory: Path, number: int, **more: Any) -> None:
        name = f"bench{number}"
        address = f"tcp://127.0.0.1:{free_port()}"
        lines = [
            "[broker]",
            f'name = "{name}"',
            f'listen = ["{address}"]',
            f'state_dir = "{directory / name}"',
            *[f"{key} = {_toml(value)}" for key, value in more.items()],
            "[security]",
            f"curve = {str(self.curve).lower()}",
            f'keys = "{directory / "keys"}"',
        ]
        sections = {section: dict(values) for section, values in self.sections.items()}
        if self.addresses and "onehop" not in sections:
            sections.setdefault("tree", {})["neighbours"] = [self.addresses[-1]]
        for section, values in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
        config = directory / f"{name}.toml"
        config.write_text("\n".join(lines) + "\n")
        log = directory / f"{name}.log"
        with open(log, "wb") as output:
            command = [sys.executable, "-m", "daemon.main", "--config", str(config)]
            environment = None if self.packages is None else {**os.environ, "PYTHONPATH": str(self.packages)}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.packages,
                env=environment,
            )
        self.processes.append(process)
        self.addresses.append(address)
        deadline = time.monotonic() + READY_S
        while b"ready after" not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not ready: {log.read_text()[-2000:]}")
            time.sleep(0.01)

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # --- roles ---------------------------------------------------------------------------------------

    def client(self, context: Context, name: str, broker: int = 0) -> Raw:
        """Whose heartbeats libzmq answers, whatever else it does."""
        return Raw(Libzmq(context, self.addresses[broker], self.keys), name)

    def _thin(self, context: Context, name: str, broker: int, room: int = 0, epoch: int | None = None) -> Raw:
        return Raw(self._wire(context, self.addresses[broker], room), name, epoch=epoch)

    def _wire(self, context: Context, address: str, room: int) -> Wire:
        if self.libzmq:
            return Libzmq(context, address, self.keys)
        if self.keys is None:
            return Zmtp(address)
        from bench.systems.curve import Curve  # its library is in the group `bench` only

        return Curve(address, self.keys, room)

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        context: Context = zmq.Context()
        wanted, expected = _wants(workload)
        clients: list[Raw] = []
        for place, numbered in enumerate(wanted):
            room = expected[place] * _most_bytes(workload)
            clients.append(self._thin(context, f"reader{place}", -1, room))
            for start in range(0, len(numbered), AT_ONCE):
                clients[-1].subscribe(numbered[start : start + AT_ONCE])
                for client in clients:
                    client.attend()  # who is silent for too long is let go
        keep = self.sealed or isinstance(workload, Content)
        readers = Readers(clients, expected, keep, self.acknowledge_every)
        ready()
        ended = readers.read()
        surplus = readers.surplus()
        wrong = f"{surplus} deliveries too many" if surplus else readers.forged()
        if isinstance(workload, Content) and not wrong:
            wrong = _wrong(workload, readers)
        context.destroy(200)
        return Outcome(ended, sum(expected), wrong)

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        context: Context = zmq.Context()
        epoch = new_epoch()
        frames = list(_frames(workload, epoch))  # which takes longer than a client may be silent
        client = self._thin(context, "writer", 0, epoch=epoch)
        client.confirmed(ClientAdvertise(1, 1, EVERYTHING))
        wire, sent = client.wire, 0
        prepared = [(count, wire.prepare(frame)) for count, frame in frames]
        go()
        for count, frame in prepared:
            while sent + count > client.credit:
                client.wait()
            wire.send(frame)
            sent += count
        while client.settled < sent:
            client.wait()
        context.destroy(0)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _wants(workload: Workload) -> tuple[list[list[tuple[int, Filter]]], list[int]]:
    """Of each subscriber the numbered filters, and how many publications it must get."""
    if isinstance(workload, Content):
        places = range(workload.connections)
        numbered = [[(f + 1, form(workload.filters[f])) for f in workload.of(place)] for place in places]
        return numbered, [len(workload.wanted(place)) for place in places]
    numbered = [
        [(label, parse(f"topic = '{workload.topic(topic)}'")) for label, topic in enumerate(topics, 1)]
        for topics in workload.subscribers
    ]
    return numbered, list(workload.expected)


def _most_bytes(workload: Workload) -> int:
    """Of a delivery, with all that is around its payload: hardly ever more."""
    return len(workload.payload) + 100 if isinstance(workload, Topics) else 1_000


def _frames(workload: Workload, epoch: int) -> Iterator[tuple[int, bytes]]:
    for first, publications in _batches(workload):
        yield len(publications), encode_publish(epoch, first, encode_publications(publications))


def _batches(workload: Workload) -> Iterator[tuple[int, list[Draft]]]:
    if isinstance(workload, Topics):
        topics = [encode_attributes({"topic": workload.topic(i)}) for i in range(workload.topics)]
        total = workload.publications
    else:
        total = len(workload.publications)
    for first in range(0, total, workload.batch):
        publications = []
        for i in range(first, min(first + workload.batch, total)):
            if isinstance(workload, Content):
                attributes, payload = encode_attributes(workload.publications[i]), b""
            elif workload.fresh:
                attributes = encode_attributes({"topic": workload.topic(i % workload.topics), "n": i})
                payload = workload.payload
            else:
                attributes, payload = topics[i % workload.topics], workload.payload
            publications.append(Draft(attributes, payload, i + 1))
        yield first + 1, publications


def _wrong(workload: Content, readers: Readers) -> str:
    """Every delivery of every subscriber against what it must get, subscription by subscription."""
    for place in range(workload.connections):
        got = {}
        for deliver in readers.deliveries(place):
            for publication, packed in zip(deliver.publications, deliver.subscriptions, strict=True):
                ids = [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]
                got[publication.sequence - 1] = sorted(ids)
        if got != workload.wanted(place):
            return f"subscriber {place} got something else than it must"
    return ""
