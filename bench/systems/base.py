"""A broker under test: how to start it, and how raw bytes go in and come out.

Publishers send prebuilt bytes and subscribers count without parsing more than they must, so that the
broker is the bound. Roles run in processes of their own; `ready` and `go` are events between them and
the runner.
"""

from __future__ import annotations

import selectors
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.content import Content
from bench.workloads import Topics

Ready = Callable[[], None]
Workload = Topics | Content
PATIENCE_S = 60.0


class Outcome(NamedTuple):
    """When the last delivery came, how many there were, and what was wrong with them."""

    ended: float
    deliveries: int
    wrong: str = ""


class System(Protocol):
    name: str

    def missing(self) -> str:
        """Why it cannot run here, or nothing."""

    def version(self) -> str: ...
    def can(self, workload: Workload) -> bool: ...
    def start(self, directory: Path) -> None: ...
    def stop(self) -> None: ...
    def pids(self) -> list[int]: ...
    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        """Receive all that the workload's subscribers must get."""

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        """Prepare, wait in `go`, then send everything."""


class Process:
    """A peer started from its Debian package, on the loopback."""

    name = ""
    binary = ""
    start_s = 30.0

    def __init__(self) -> None:
        self.port = 0  # another one at each start: who has it later is not known
        self.process: subprocess.Popen[bytes] | None = None

    def missing(self) -> str:
        return "" if shutil.which(self.binary) else f"{self.binary} is not installed (Debian: {self.binary})"

    def can(self, workload: Workload) -> bool:
        return isinstance(workload, Topics) and not workload.fresh

    def run(self, command: list[str], directory: Path, environment: dict[str, str] | None = None) -> None:
        with open(directory / f"{self.name}.log", "wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
            )
        try:
            wait_for_port(self.port, self.process, self.start_s)
        except RuntimeError as error:
            said = (directory / f"{self.name}.log").read_text(errors="replace")
            raise RuntimeError(f"{error}: {said[-1500:]}") from None

    def pids(self) -> list[int]:
        assert self.process is not None
        return [self.process.pid]

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
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
            time.sleep(0.02)
    raise RuntimeError(f"{process.args!r} does not listen on {port}")


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(PATIENCE_S)
    return connection


def read_until(connection: socket.socket, done: Callable[[bytes], bool]) -> bytes:
    answer = b""
    while not done(answer):
        part = connection.recv(65536)
        assert part, f"closed after {answer[-200:]!r}"
        answer += part
    return answer


def count_bytes(connections: list[socket.socket], expected: list[int]) -> float:
    """Read until every connection has had its bytes; the time of the last."""
    return count(connections, expected, lambda _, part: len(part))


def count(
    connections: list[socket.socket], expected: list[int], measure: Callable[[socket.socket, memoryview], int]
) -> float:
    """Read until every connection has had as much as it must by `measure`; the time of the last."""
    selector = selectors.DefaultSelector()
    buffer = bytearray(1 << 20)
    view = memoryview(buffer)
    left = {c: amount for c, amount in zip(connections, expected, strict=True) if amount}
    for connection in left:
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
    while left:
        events = selector.select(PATIENCE_S)
        if not events:
            raise TimeoutError(f"{sum(left.values())} never came")
        for key, _ in events:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if not (received := connection.recv_into(buffer)):
                raise ConnectionError(f"the broker closed a connection, {sum(left.values())} never came")
            left[connection] -= measure(connection, view[:received])
            if left[connection] <= 0:
                del left[connection]
                selector.unregister(connection)
    return time.monotonic()
