"""The part of AMQP 0-9-1 that a benchmark needs: frames, methods, tables; a connection with one channel."""

from __future__ import annotations

import socket
import struct

from bench.systems.base import connect

METHOD, HEADER, BODY = 1, 2, 3
FRAME_OVERHEAD = 8


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(number: tuple[int, int], arguments: bytes = b"", channel: int = 1) -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", *number) + arguments)


def short(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def long(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def table(values: dict[str, str | int]) -> bytes:
    fields = b""
    for name, value in values.items():
        fields += short(name)
        fields += b"S" + long(value.encode()) if isinstance(value, str) else b"I" + struct.pack(">i", value)
    return long(fields)


START, START_OK, TUNE, TUNE_OK = (10, 10), (10, 11), (10, 30), (10, 31)
OPEN, OPEN_OK = (10, 40), (10, 41)
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
CHANNEL_FLOW, CHANNEL_FLOW_OK = (20, 20), (20, 21)
QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
QUEUE_BIND, QUEUE_BIND_OK = (50, 20), (50, 21)
CONSUME, CONSUME_OK = (60, 20), (60, 21)
PUBLISH = (60, 40)


class Amqp:
    """A connection as guest, with channel 1 open."""

    def __init__(self, port: int) -> None:
        self.socket: socket.socket = connect(port)
        self._buffer = b""
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self.expect(START)
        self.socket.sendall(
            method(START_OK, table({}) + short("PLAIN") + long(b"\0guest\0guest") + short("en_US"), 0)
        )
        self.expect(TUNE)
        self.socket.sendall(method(TUNE_OK, struct.pack(">HIH", 1, 131072, 0), 0))
        self.call(OPEN, short("/") + b"\0\0", OPEN_OK, 0)
        self.call(CHANNEL_OPEN, b"\0", CHANNEL_OPEN_OK)

    def call(
        self, number: tuple[int, int], arguments: bytes, answer: tuple[int, int], channel: int = 1
    ) -> bytes:
        self.socket.sendall(method(number, arguments, channel))
        return self.expect(answer)

    def expect(self, number: tuple[int, int]) -> bytes:
        """The arguments of the next method, which must be this one."""
        while len(self._buffer) < 7 or len(self._buffer) < self._size():
            part = self.socket.recv(65536)
            assert part, "closed"
            self._buffer += part
        size = self._size()
        payload, self._buffer = self._buffer[7 : size - 1], self._buffer[size:]
        got = struct.unpack(">HH", payload[:4])
        assert got == number, f"method {got} instead of {number}: {payload[:200]!r}"
        return payload[4:]

    def _size(self) -> int:
        return int(struct.unpack(">I", self._buffer[3:7])[0]) + FRAME_OVERHEAD

    def queue(self, name: str, bindings: list[tuple[str, str, dict[str, str | int]]]) -> None:
        """A queue of our own, bound by (exchange, routing key, arguments), and its consumer without
        acknowledgements."""
        self.call(QUEUE_DECLARE, b"\0\0" + short(name) + b"\x0c" + table({}), QUEUE_DECLARE_OK)
        for exchange, key, arguments in bindings:  # no-wait, except for the last
            last = (exchange, key, arguments) == bindings[-1]
            bind = b"\0\0" + short(name) + short(exchange) + short(key) + (b"\0" if last else b"\1")
            self.socket.sendall(method(QUEUE_BIND, bind + table(arguments)))
        self.expect(QUEUE_BIND_OK)
        self.call(CONSUME, b"\0\0" + short(name) + short("c") + b"\x02" + table({}), CONSUME_OK)


def publication(exchange: str, key: str, body: bytes, headers: dict[str, str | int] | None = None) -> bytes:
    properties = struct.pack(">H", 0x2000) + table(headers) if headers else b"\0\0"
    content = struct.pack(">HHQ", 60, 0, len(body)) + properties
    sent = method(PUBLISH, b"\0\0" + short(exchange) + short(key) + b"\0") + frame(HEADER, 1, content)
    return sent + frame(BODY, 1, body) if body else sent


def delivery_bytes(exchange: str, key: str, body: bytes, headers: dict[str, str | int] | None = None) -> int:
    """How long a delivery to the consumer of `queue` is."""
    arguments = 4 + len(short("c")) + 8 + 1 + len(short(exchange)) + len(short(key))
    content = 12 + 2 + (len(table(headers)) if headers else 0)
    frames = 3 if body else 2
    return arguments + content + len(body) + frames * FRAME_OVERHEAD
