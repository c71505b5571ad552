"""NATS by its text protocol."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.systems.base import Outcome, Process, Ready, Workload, connect, count_bytes, free_port, read_until
from bench.workloads import Topics


class Nats(Process):
    name = "nats"
    binary = "nats-server"

    def version(self) -> str:
        return subprocess.run([self.binary, "--version"], capture_output=True, text=True).stdout.split()[-1]

    def start(self, directory: Path) -> None:
        self.port = free_port()
        # A slow reader is cut off after this much, by default 64 MB: the raw publisher outruns anything.
        settings = directory / "nats.conf"
        settings.write_text(f"listen: 127.0.0.1:{self.port}\nmax_pending: 1GB\nwrite_deadline: 60s\n")
        self.run([self.binary, "-c", str(settings)], directory)

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        assert isinstance(workload, Topics)
        connections, expected = [], []
        each = workload.publications // workload.topics
        for topics in workload.subscribers:
            connection = connect(self.port)
            connection.recv(65536)
            connection.sendall(b'CONNECT {"verbose":false}\r\n')
            total = 0
            for sid, topic in enumerate(topics, 1):
                name = workload.topic(topic)
                connection.sendall(f"SUB {name} {sid}\r\n".encode())
                head = f"MSG {name} {sid} {len(workload.payload)}\r\n"
                total += each * (len(head) + len(workload.payload) + 2)
            connection.sendall(b"PING\r\n")
            assert connection.recv(65536).endswith(b"PONG\r\n")
            connections.append(connection)
            expected.append(total)
        ready()
        return Outcome(count_bytes(connections, expected), sum(workload.expected))

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        assert isinstance(workload, Topics)
        connection = connect(self.port)
        connection.recv(65536)
        connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert connection.recv(65536) == b"PONG\r\n"
        size = len(workload.payload)
        bursts = workload.bursts(
            lambda topic: f"PUB {topic} {size}\r\n".encode() + workload.payload + b"\r\n"
        )
        go()
        for burst in bursts:
            connection.sendall(burst)
        connection.sendall(b"PING\r\n")
        read_until(connection, lambda said: b"PONG\r\n" in said)
