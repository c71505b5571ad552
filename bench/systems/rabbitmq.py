"""RabbitMQ by AMQP 0-9-1: a direct exchange for topics, a headers exchange for content.

A headers exchange knows equality only: content is C1eq. A queue gets one copy, however many bindings match.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.content import Content
from bench.systems.amqp import CHANNEL_FLOW, CHANNEL_FLOW_OK, Amqp, delivery_bytes, publication
from bench.systems.base import Outcome, Process, Ready, Workload, count_bytes, free_port
from bench.workloads import Topics

Headers = dict[str, str | int]


class RabbitMQ(Process):
    name = "rabbitmq"
    binary = "rabbitmq-server"
    script = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # without Debian's wrapper, which changes the user
    start_s = 120.0
    _epmd = 0

    def version(self) -> str:
        query = ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"]
        return subprocess.run(query, capture_output=True, text=True).stdout.split("-")[0] or "?"

    def can(self, workload: Workload) -> bool:
        return super().can(workload) or workload.name.startswith("C1eq")

    def start(self, directory: Path) -> None:
        self.port = free_port()
        (directory / "plugins").write_text("[].\n")
        (directory / "advanced.config").write_text("[].\n")
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\nlog.console = false\n"
            "disk_free_limit.absolute = 1MB\nvm_memory_high_watermark.relative = 0.8\n"
        )
        self._epmd = free_port()
        environment = {
            **os.environ,
            "HOME": str(directory),
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_SERVER_START_ARGS": "-setcookie bench",
            "ERL_EPMD_PORT": str(self._epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self.run([self.script], directory, environment)

    def stop(self) -> None:
        """Everything that was started here, and nothing else: the tree of our process, and our epmd."""
        family = [process for process in psutil.process_iter() if self._our_epmd(process)]
        if self.process is not None and self.process.poll() is None:
            parent = psutil.Process(self.process.pid)
            family = [*parent.children(recursive=True), parent, *family]
        for process in family:
            _end(process)
        psutil.wait_procs(family, 20)
        if self.process is not None:
            self.process.wait()

    def _our_epmd(self, process: psutil.Process) -> bool:
        try:
            return process.name() == "epmd" and process.environ().get("ERL_EPMD_PORT") == str(self._epmd)
        except psutil.Error:
            return False

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        connections, expected, copies = [], [], 0
        for place, (bindings, amount, deliveries) in enumerate(_wants(workload)):
            client = Amqp(self.port)
            client.queue(f"reader{place}", bindings)
            connections.append(client.socket)
            expected.append(amount)
            copies += deliveries
        ready()
        ended = count_bytes(connections, expected)
        return Outcome(ended, copies, "too many deliveries" if _more(connections) else "")

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        client = Amqp(self.port)
        if isinstance(workload, Topics):
            bursts = list(workload.bursts(lambda topic: publication("amq.direct", topic, workload.payload)))
        else:
            sends = [
                publication("amq.headers", "", b"", {"symbol": str(each["symbol"])})
                for each in workload.publications
            ]
            bursts = [b"".join(sends[i : i + workload.batch]) for i in range(0, len(sends), workload.batch)]
        go()
        for burst in bursts:
            client.socket.sendall(burst)
        client.socket.settimeout(170)
        client.call(CHANNEL_FLOW, b"\1", CHANNEL_FLOW_OK)  # answered after everything before it


def _wants(workload: Workload) -> list[tuple[list[tuple[str, str, Headers]], int, int]]:
    """Of each connection: its bindings, the bytes it must get, the deliveries these are."""
    if isinstance(workload, Topics):
        each = workload.publications // workload.topics
        return [
            (
                [("amq.direct", workload.topic(t), {}) for t in topics],
                each * sum(delivery_bytes("amq.direct", workload.topic(t), workload.payload) for t in topics),
                each * len(topics),
            )
            for topics in workload.subscribers
        ]
    return [_content_of(workload, place) for place in range(workload.connections)]


def _content_of(workload: Content, place: int) -> tuple[list[tuple[str, str, Headers]], int, int]:
    bindings: list[tuple[str, str, Headers]] = []
    for number in workload.of(place):  # x-... does not take part in the match: it keeps bindings apart
        symbol = str(workload.filters[number][0][2])
        bindings.append(("amq.headers", "", {"x-match": "all", "symbol": symbol, "x-number": number}))
    copies = len(workload.wanted(place))
    return bindings, copies * delivery_bytes("amq.headers", "", b"", {"symbol": "S000"}), copies


def _more(connections: list[socket.socket]) -> bool:
    """Whether some connection has bytes beyond what was expected."""
    for connection in connections:
        connection.setblocking(False)
        try:
            if connection.recv(1):
                return True
        except BlockingIOError:
            pass
    return False


def _end(process: psutil.Process) -> None:
    try:
        process.terminate()
    except psutil.NoSuchProcess:
        pass
