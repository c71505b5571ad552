"""The brokers of the demo in a directory of their own, and their end, whatever happens."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from daemon.settings.reference import toml_value
from tools.pubctl.crew import Crew, Progress
from tools.pubctl.demo.scene import FEEDS, SEATS
from tools.pubctl.topology import Generate, Sections, Topology, generated

TOPOLOGY = "topology.toml"
STOP_S = 3.0


class Stage:
    def __init__(self, brokers: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="grapevine-demo-"))
        self.keys = self.directory / "keys"
        self.crew = Crew(self.directory, self.keys)
        plans = generated(Generate(brokers=brokers))
        for plan, port in zip(plans, free_ports(brokers), strict=True):
            plan.listen = [f"tcp://127.0.0.1:{port}"]
        defaults: Sections = {"links": {"ping_s": 1.0, "redial_s": 0.1}, "delivery_log": {"mode": "all"}}
        self.topology = Topology(plans, [], defaults)

    @property
    def file(self) -> Path:
        return self.directory / TOPOLOGY

    def address(self, number: int) -> str:
        """Of the broker with this number, counted from 1; the cast shares brokers if they are few."""
        return self.topology.brokers[(number - 1) % len(self.topology.brokers)].address

    def name(self, number: int) -> str:
        return self.topology.brokers[(number - 1) % len(self.topology.brokers)].name

    def up(self, progress: Progress) -> None:
        self.crew.up(self.topology, progress)

    def down(self) -> None:
        """Their state is thrown away with the directory: whoever still waits for something is killed."""
        self.crew.down(STOP_S)

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def write_topology(self) -> None:
        """The file with which `pubctl local` takes over what is left running."""
        lines: list[str] = []
        for plan in self.topology.brokers:
            lines += _entry("broker", name=plan.name, listen=plan.listen, neighbours=plan.neighbours)
        for feed in FEEDS:
            broker, sample = self.name(feed.broker), feed.make(Random(feed.name))
            lines += _entry("client", kind="publisher", name=feed.name, broker=broker, rate=5.0)
            lines += [f"filter = {toml_value(feed.advertisement)}", "[client.attributes]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in sample.items()]
        for seat in SEATS:
            broker = self.name(seat.broker)
            lines += _entry("client", kind="subscriber", name=seat.name, broker=broker, filter=seat.filter)
        self.file.write_text("\n".join(lines) + "\n")


def _entry(table: str, **values: Any) -> list[str]:
    return [f"[[{table}]]", *(f"{key} = {toml_value(value)}" for key, value in values.items())]


def free_ports(count: int) -> list[int]:
    """All are held until all are found, so that no two are the same."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
