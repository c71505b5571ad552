"""Mosquitto by MQTT 3.1.1, quality of service 0."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.systems.base import Outcome, Process, Ready, Workload, connect, count_bytes, free_port
from bench.workloads import Topics

CONNACK = b"\x20\x02\x00\x00"


def packet(kind: int, body: bytes) -> bytes:
    length, size = len(body), bytearray()
    while True:
        length, low = divmod(length, 128)
        size.append(low | (0x80 if length else 0))
        if not length:
            return bytes([kind]) + bytes(size) + body


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def hello(name: str) -> bytes:
    return packet(0x10, text("MQTT") + b"\x04\x02\x00\x00" + text(name))


class Mosquitto(Process):
    name = "mosquitto"
    binary = "mosquitto"

    def version(self) -> str:
        said = subprocess.run([self.binary, "-h"], capture_output=True, text=True).stdout
        found = re.search(r"version (\S+)", said)
        return found[1] if found else "?"

    def start(self, directory: Path) -> None:
        self.port = free_port()
        settings = directory / "mosquitto.conf"
        settings.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            "persistence false\nset_tcp_nodelay true\nuser root\n"
        )
        self.run([self.binary, "-c", str(settings)], directory)

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        assert isinstance(workload, Topics)
        connections, expected = [], []
        each = workload.publications // workload.topics
        for number, topics in enumerate(workload.subscribers):
            connection = connect(self.port)
            connection.sendall(hello(f"reader{number}"))
            assert connection.recv(4) == CONNACK
            names = [workload.topic(topic) for topic in topics]
            wanted = b"".join(text(name) + b"\x00" for name in names)
            connection.sendall(packet(0x82, b"\x00\x01" + wanted))
            answer = connection.recv(4 + len(names))
            assert answer[0] == 0x90, answer
            connections.append(connection)
            expected.append(each * sum(len(packet(0x30, text(n) + workload.payload)) for n in names))
        ready()
        return Outcome(count_bytes(connections, expected), sum(workload.expected))

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        assert isinstance(workload, Topics)
        connection = connect(self.port)
        connection.sendall(hello("writer"))
        assert connection.recv(4) == CONNACK
        bursts = workload.bursts(lambda topic: packet(0x30, text(topic) + workload.payload))
        go()
        for burst in bursts:
            connection.sendall(burst)
        connection.sendall(packet(0xC0, b""))
        assert connection.recv(2) == b"\xd0\x00"
