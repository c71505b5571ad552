"""ZMTP 3.1 without encryption, by hand: the bytes that libzmq puts on the wire, without its thread and its copies.

Raw clients of the peers are sockets and prebuilt bytes. Ours through libzmq took two to three times the processor time
of theirs, on cores that the broker shares.
"""  # noqa: E501

from __future__ import annotations

import select
import socket

from bench.systems.base import PATIENCE_S, connect

LONG, COMMAND = 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
PING, PONG = b"\x04PING", b"\x04PONG"
TTL_BYTES = 2  # of a PING, before what a PONG gives back
BUFFER_BYTES = 1 << 20


def framed(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | LONG,)) + len(body).to_bytes(8, "big") + body


class Zmtp:
    """A connection as a DEALER; the other side has said that it is ready."""

    def __init__(self, address: str) -> None:
        self._socket: socket.socket = connect(int(address.rpartition(":")[2]))
        self._socket.settimeout(None)  # with one, Python waits before each receive, even with MSG_DONTWAIT
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._begin = self._end = 0  # of what was received and not handed out
        self._ready = False
        self._socket.sendall(GREETING)
        greeting = b""
        while len(greeting) < len(GREETING):
            greeting += self._socket.recv(len(GREETING) - len(greeting))
        self._socket.sendall(framed(READY, COMMAND))
        while not self._ready:  # an earlier frame would end the connection
            assert self.poll(PATIENCE_S), "no READY"
            self.frames()

    def fileno(self) -> int:
        return self._socket.fileno()

    def poll(self, patience_s: float) -> bool:
        return bool(select.select([self._socket], [], [], patience_s)[0])

    def prepare(self, frame: bytes) -> bytes:
        return framed(frame)

    def send(self, prepared: bytes) -> None:
        self._socket.sendall(prepared)

    def frames(self) -> list[memoryview]:
        """The whole frames among what is there, which last until the next call."""
        self._receive()
        found, buffer, end = [], self._buffer, self._end
        while end - self._begin >= 2:
            begin, flags = self._begin, buffer[self._begin]
            body = begin + (9 if flags & LONG else 2)
            if body > end:
                break
            size = int.from_bytes(buffer[begin + 1 : body], "big")
            if body + size > end:
                break
            self._begin = body + size
            if flags & COMMAND:
                self._command(bytes(buffer[body : self._begin]))
            else:
                found.append(buffer[body : self._begin])
        return found

    def _receive(self) -> None:
        rest = self._end - self._begin
        target = self._buffer
        if rest == len(target):
            target = memoryview(bytearray(2 * rest))
        target[:rest] = self._buffer[self._begin : self._end]
        self._buffer, self._begin, self._end = target, 0, rest
        try:
            count = self._socket.recv_into(target[rest:], 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not count:
            raise ConnectionError("the broker closed the connection")
        self._end += count

    def _command(self, body: bytes) -> None:
        if body.startswith(PING):
            self._socket.sendall(framed(PONG + body[len(PING) + TTL_BYTES :], COMMAND))
        else:
            assert body.startswith(READY[:6]), body
            self._ready = True

    def close(self) -> None:
        self._socket.close()
