"""The delay of single publications at a steady rate, well below what any broker here can do.

One process sends and receives, so there is one clock; each publication carries the moment at which it was
due, so that a sender who is late does not flatter the broker.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from bench.systems.amqp import Amqp, delivery_bytes, publication
from bench.systems.base import System, connect
from bench.systems.grapevine import Grapevine
from bench.systems.mosquitto import CONNACK, Mosquitto, hello, packet
from bench.systems.mosquitto import text as mqtt_text
from bench.systems.nats import Nats
from bench.systems.rabbitmq import RabbitMQ
from bench.systems.raw import Raw
from bench.systems.redis import Redis, command
from bench.systems.zmtp import Zmtp
from grapevine.filters import EVERYTHING, parse
from grapevine.wire import decode, encode_attributes, encode_publications, encode_publish
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import ClientAdvertise, Deliver

STAMP = 20  # digits at the start of the payload
PAYLOAD_BYTES = 200


class Delay(NamedTuple):
    p50_us: float
    p99_us: float


class Probe(Protocol):
    def fileno(self) -> int: ...
    def send(self, payload: bytes) -> None: ...
    def received(self) -> list[bytes]:
        """The payloads that are there."""


class TcpProbe:
    """Two connections, and deliveries of a fixed length that end with the payload and `tail` bytes."""

    def __init__(
        self,
        sender: socket.socket,
        receiver: socket.socket,
        frame: Callable[[bytes], bytes],
        length: int,
        tail: int,
        noise: bytes = b"",
    ) -> None:
        self.noise = noise  # what the broker says between deliveries
        self.sender, self.receiver, self.frame = sender, receiver, frame
        self.length, self.offset = length, length - tail - PAYLOAD_BYTES
        self.buffer = b""
        sender.setblocking(False)
        receiver.setblocking(False)

    def fileno(self) -> int:
        return self.receiver.fileno()

    def send(self, payload: bytes) -> None:
        self.sender.send(self.frame(payload))
        try:
            self.sender.recv(65536)  # what answers a publication is not of interest
        except BlockingIOError:
            pass

    def received(self) -> list[bytes]:
        try:
            self.buffer += self.receiver.recv(1 << 16)
        except BlockingIOError:
            return []
        if self.noise and self.noise in self.buffer:
            self.buffer = self.buffer.replace(self.noise, b"")
        count = len(self.buffer) // self.length
        starts = [i * self.length + self.offset for i in range(count)]
        payloads = [self.buffer[start : start + PAYLOAD_BYTES] for start in starts]
        self.buffer = self.buffer[count * self.length :]
        return payloads


class RawProbe:
    """Our own protocol, acknowledged like everywhere."""

    def __init__(self, system: Grapevine) -> None:
        self.reader = Raw(Zmtp(system.addresses[-1]), "reader")
        self.reader.subscribe([(1, parse("topic = 't'"))])
        self.writer = Raw(Zmtp(system.addresses[0]), "writer")
        self.writer.confirmed(ClientAdvertise(1, 1, EVERYTHING))
        self.attributes = encode_attributes({"topic": "t"})
        self.sent = 0

    def fileno(self) -> int:
        return int(self.reader.wire.fileno())  # type: ignore[arg-type]

    def send(self, payload: bytes) -> None:
        self.sent += 1
        publications = encode_publications([Draft(self.attributes, payload, self.sent)])
        self.writer.wire.say(encode_publish(self.writer.epoch, self.sent, publications))
        self.writer.attend()

    def received(self) -> list[bytes]:
        payloads: list[bytes] = []
        for frame in self.reader.wire.frames():
            if self.reader.take(frame):
                message = decode(frame)
                assert isinstance(message, Deliver)
                payloads += [publication.payload for publication in message.publications]
        if payloads:
            self.reader.acknowledge()
        return payloads


def probe(system: System) -> Probe | None:
    """None where nobody has written one."""
    if isinstance(system, Grapevine):
        return RawProbe(system)
    if isinstance(system, Nats):
        return _nats(system)
    if isinstance(system, Redis):
        return _redis(system)
    if isinstance(system, Mosquitto):
        return _mosquitto(system)
    if isinstance(system, RabbitMQ):
        return _rabbitmq(system)
    return None


def _nats(system: Nats) -> Probe:
    ends = []
    for line in (b"SUB t 1\r\n", b""):
        end = connect(system.port)
        end.recv(65536)
        end.sendall(b'CONNECT {"verbose":false}\r\n' + line + b"PING\r\n")
        assert end.recv(65536).endswith(b"PONG\r\n")
        ends.append(end)
    head = b"PUB t %d\r\n" % PAYLOAD_BYTES
    length = len(b"MSG t 1 %d\r\n" % PAYLOAD_BYTES) + PAYLOAD_BYTES + 2
    return TcpProbe(ends[1], ends[0], lambda payload: head + payload + b"\r\n", length, 2, b"PING\r\n")


def _redis(system: Redis) -> Probe:
    reader, writer = connect(system.port), connect(system.port)
    reader.sendall(command(b"SUBSCRIBE", b"t"))
    reader.recv(65536)
    length = len(command(b"message", b"t", b"x" * PAYLOAD_BYTES))
    return TcpProbe(writer, reader, lambda payload: command(b"PUBLISH", b"t", payload), length, 2)


def _mosquitto(system: Mosquitto) -> Probe:
    ends = []
    for name in ("reader", "writer"):
        end = connect(system.port)
        end.sendall(hello(name))
        assert end.recv(4) == CONNACK
        ends.append(end)
    ends[0].sendall(packet(0x82, b"\0\1" + mqtt_text("t") + b"\0"))
    ends[0].recv(5)
    length = len(packet(0x30, mqtt_text("t") + b"x" * PAYLOAD_BYTES))
    return TcpProbe(ends[1], ends[0], lambda payload: packet(0x30, mqtt_text("t") + payload), length, 0)


def _rabbitmq(system: RabbitMQ) -> Probe:
    reader, writer = Amqp(system.port), Amqp(system.port)
    reader.queue("reader", [("amq.direct", "t", {})])
    length = delivery_bytes("amq.direct", "t", b"x" * PAYLOAD_BYTES)
    return TcpProbe(
        writer.socket, reader.socket, lambda payload: publication("amq.direct", "t", payload), length, 1
    )


def delays(probe: Probe, rate_s: float, count: int) -> list[float]:
    """Microseconds from when each publication was due until its payload was read."""
    every = 1 / rate_s
    filling = b"x" * (PAYLOAD_BYTES - STAMP)
    found: list[float] = []
    descriptor = probe.fileno()
    due = time.monotonic() + 0.01
    sent = 0
    deadline = due + count * every + 20
    while len(found) < count:
        now = time.monotonic()
        assert now < deadline, f"{count - len(found)} publications never came"
        if sent < count and now >= due:
            probe.send(b"%020d" % int(due * 1e9) + filling)
            sent, due = sent + 1, due + every
        payloads = probe.received()
        if payloads:
            now = time.monotonic()
            found += [(now - int(payload[:STAMP]) / 1e9) * 1e6 for payload in payloads]
            continue
        wait = due - time.monotonic() if sent < count else 0.05
        if wait > 0:
            select.select([descriptor], [], [], min(wait, 0.05))
    return found


def delay(found: list[float]) -> Delay:
    """Without the first tenth, in which caches fill."""
    ordered = sorted(found[len(found) // 10 :])
    return Delay(ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)])
