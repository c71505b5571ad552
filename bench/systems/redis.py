"""Redis by RESP: PUBLISH and SUBSCRIBE."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from bench.systems.base import Outcome, Process, Ready, Workload, connect, count_bytes, free_port
from bench.workloads import Topics


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Redis(Process):
    name = "redis"
    binary = "redis-server"

    def version(self) -> str:
        words = subprocess.run([self.binary, "--version"], capture_output=True, text=True).stdout.split()
        return words[2].removeprefix("v=")

    def start(self, directory: Path) -> None:
        self.port = free_port()
        unlimited = ["--client-output-buffer-limit", "pubsub", "0", "0", "0"]
        listen = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self.run([self.binary, *listen, *unlimited], directory)

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        assert isinstance(workload, Topics)
        connections, expected = [], []
        each = workload.publications // workload.topics
        for topics in workload.subscribers:
            connection = connect(self.port)
            names = [workload.topic(topic).encode() for topic in topics]
            connection.sendall(command(b"SUBSCRIBE", *names))
            answer = b""
            while answer.count(b"subscribe") < len(names):
                answer += connection.recv(65536)
            connections.append(connection)
            expected.append(each * sum(len(command(b"message", n, workload.payload)) for n in names))
        ready()
        return Outcome(count_bytes(connections, expected), sum(workload.expected))

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        assert isinstance(workload, Topics)
        connection = connect(self.port)
        bursts = workload.bursts(lambda topic: command(b"PUBLISH", topic.encode(), workload.payload))
        go()
        answers = threading.Thread(target=_drain, args=(connection, workload.publications), daemon=True)
        answers.start()
        for burst in bursts:
            connection.sendall(burst)
        answers.join()


def _drain(connection: object, count: int) -> None:
    """Each PUBLISH is answered by a line."""
    while count > 0:
        count -= connection.recv(1 << 20).count(b"\n")  # type: ignore[attr-defined]
