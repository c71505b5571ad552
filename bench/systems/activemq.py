"""ActiveMQ by STOMP 1.2: topics, and selectors as its content filters.

A selector's subscription gets a copy of its own, also where others of the same connection match. STOMP's
headers are strings, which ActiveMQ reads as numbers where a selector of STOMP compares them with numbers, so
that it takes the same filters as we do.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from bench.content import Content, text
from bench.systems.base import (
    Outcome,
    Process,
    Ready,
    Workload,
    connect,
    count,
    free_port,
    read_until,
)
from bench.workloads import Topics

HOME = Path("/usr/share/activemq")
CONFIGURATION = """<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" persistent="false" useJmx="false"
          advisorySupport="false" schedulerSupport="false" dataDirectory="{directory}">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry topic=">" memoryLimit="256mb">
        <pendingSubscriberPolicy><vmCursor/></pendingSubscriberPolicy>
      </policyEntry>
    </policyEntries></policyMap></destinationPolicy>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp+nio://127.0.0.1:{port}"/>
    </transportConnectors>
  </broker>
</beans>
"""


def frame(command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


class ActiveMQ(Process):
    name = "activemq"
    binary = "activemq"
    start_s = 90.0

    def version(self) -> str:
        said = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "activemq"], capture_output=True, text=True
        )
        return said.stdout.split("+")[0].split("-")[0] or "?"

    def can(self, workload: Workload) -> bool:
        return super().can(workload) or workload.name.startswith("C1")

    def start(self, directory: Path) -> None:
        self.port = free_port()
        settings = directory / "activemq.xml"
        settings.write_text(CONFIGURATION.format(directory=directory, port=self.port))
        command = ["java", "-Xmx1G", f"-Dactivemq.home={HOME}", f"-Dactivemq.base={directory}"]
        command += ["-jar", str(HOME / "bin" / "activemq.jar"), "start", f"xbean:file:{settings}"]
        self.run(command, directory)
        self._wait_for_service()

    def _wait_for_service(self) -> None:
        """It listens a moment before it serves, and resets who comes in between."""
        deadline = time.monotonic() + self.start_s
        while True:
            try:
                self._connect().close()
                return
            except (OSError, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _connect(self) -> socket.socket:
        connection = connect(self.port)
        connection.sendall(frame("CONNECT", {"accept-version": "1.2", "host": "bench", "heart-beat": "0,0"}))
        answer = read_until(connection, lambda got: b"\0" in got)
        assert answer.startswith(b"CONNECTED"), answer
        return connection

    def _subscriptions(self, workload: Workload) -> list[list[dict[str, str]]]:
        if isinstance(workload, Topics):
            return [
                [{"id": str(t), "destination": f"/topic/{workload.topic(t)}"} for t in topics]
                for topics in workload.subscribers
            ]
        return [
            [
                {
                    "id": str(f + 1),
                    "destination": "/topic/content",
                    "selector": text(workload.filters[f]),
                }
                for f in workload.of(place)
            ]
            for place in range(workload.connections)
        ]

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        connections = []
        for subscriptions in self._subscriptions(workload):
            connection = self._connect()
            for headers in subscriptions:
                asked = {"receipt": "done"} if headers is subscriptions[-1] else {}
                connection.sendall(frame("SUBSCRIBE", {**headers, "ack": "auto", **asked}))
            answer = read_until(connection, lambda got: b"\0" in got)
            assert answer.startswith(b"RECEIPT"), answer
            connections.append(connection)
        ready()
        if isinstance(workload, Topics):
            ended = count(connections, list(workload.expected), lambda _, part: bytes(part).count(0))
            return Outcome(ended, sum(workload.expected))
        return self._content(workload, connections)

    def _content(self, workload: Content, connections: list[socket.socket]) -> Outcome:
        wanted = [workload.wanted(place) for place in range(len(connections))]
        expected = [sum(map(len, each.values())) for each in wanted]
        received: dict[socket.socket, list[bytes]] = {connection: [] for connection in connections}

        def take(connection: socket.socket, part: memoryview) -> int:
            received[connection].append(bytes(part))
            return received[connection][-1].count(0)

        ended = count(connections, expected, take)
        wrong = ""
        for connection, each in zip(connections, wanted, strict=True):
            got = Counter(map(int, re.findall(rb"\nsubscription:(\d+)\n", b"".join(received[connection]))))
            if got != Counter(chain.from_iterable(each.values())):
                wrong = "other subscriptions were served"
        return Outcome(ended, sum(expected), wrong)

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        connection = self._connect()
        if isinstance(workload, Topics):
            bursts = list(
                workload.bursts(
                    lambda topic: frame("SEND", {"destination": f"/topic/{topic}"}, workload.payload)
                )
            )
        else:
            sends = [
                frame("SEND", {"destination": "/topic/content", **{k: str(v) for k, v in each.items()}})
                for each in workload.publications
            ]
            bursts = [b"".join(sends[i : i + workload.batch]) for i in range(0, len(sends), workload.batch)]
        go()
        for burst in bursts:
            connection.sendall(burst)
        connection.sendall(frame("SEND", {"destination": "/topic/nobody", "receipt": "done"}))
        connection.settimeout(170)
        read_until(connection, lambda got: b"\0" in got)
