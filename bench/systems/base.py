"""A broker under test: how to start it, and how raw bytes go in and come out.

Publishers send prebuilt bytes and subscribers count without parsing more than they must, so that the
broker is the bound. Roles run in processes of their own; `ready` and `go` are events between them and
the runner.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from bench.workloads import Topics

Ready = Callable[[], None]


class System(Protocol):
    name: str

    def missing(self) -> str:
        """Why it cannot run here, or nothing."""

    def version(self) -> str: ...
    def start(self, directory: Path) -> None: ...
    def stop(self) -> None: ...
    def pid(self) -> int: ...
    def subscribe(self, workload: Topics, ready: Ready) -> float:
        """Receive all that the workload's subscribers must get; the time of the last arrival."""

    def publish(self, workload: Topics, go: Callable[[], None]) -> None:
        """Prepare, wait in `go`, then send everything."""


class Process:
    """A peer started from its Debian package, on the loopback."""

    binary = ""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def missing(self) -> str:
        return "" if shutil.which(self.binary) else f"{self.binary} is not installed (Debian: {self.binary})"

    def run(self, command: list[str], directory: Path, log: str) -> None:
        with open(directory / log, "wb") as output:
            self.process = subprocess.Popen(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        wait_for_port(self.port, self.process)

    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not listen on {port}")


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(60)
    return connection


def count_bytes(connections: list[socket.socket], expected: list[int]) -> float:
    """Read until every connection has had its bytes; the time of the last."""
    import selectors

    selector = selectors.DefaultSelector()
    buffer = bytearray(1 << 20)
    left = dict(zip(connections, expected, strict=True))
    for connection in connections:
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
    while left:
        events = selector.select(60)
        if not events:
            raise TimeoutError(f"{sum(left.values())} bytes never came")
        for key, _ in events:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            left[connection] -= connection.recv_into(buffer)
            if left[connection] <= 0:
                del left[connection]
                selector.unregister(connection)
    return time.monotonic()
