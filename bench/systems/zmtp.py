"""ZMTP 3.1 by hand: the bytes that libzmq puts on the wire, without its thread and its copies.

Raw clients of the peers are sockets and prebuilt bytes. Ours through libzmq took two to three times the processor time
of theirs, on cores that the broker shares.
"""  # noqa: E501

from __future__ import annotations

import select
import socket

from bench.systems.base import PATIENCE_S, connect

LONG, COMMAND = 2, 4
SIGNATURE = b"\xff" + bytes(8) + b"\x7f\x03\x01"
GREETING_BYTES = 64
READY = b"\x05READY"
METADATA = b"\x0bSocket-Type\x00\x00\x00\x06DEALER"
PING, PONG = b"\x04PING", b"\x04PONG"
TTL_BYTES = 2  # of a PING, before what a PONG gives back
BUFFER_BYTES = 1 << 20


def framed(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | LONG,)) + len(body).to_bytes(8, "big") + body


class Zmtp:
    """A connection as a DEALER, without encryption; the other side has said that it is ready."""

    mechanism = b"NULL"

    def __init__(self, address: str, room: int = BUFFER_BYTES) -> None:
        self._socket: socket.socket = connect(int(address.rpartition(":")[2]))
        self._socket.settimeout(None)  # with one, Python waits before each receive, even with MSG_DONTWAIT
        self._buffer = memoryview(bytearray(room))
        self._begin = self._end = 0  # of what was received and not handed out
        self._commands: list[bytes] = []
        self._socket.sendall((SIGNATURE + self.mechanism).ljust(GREETING_BYTES, b"\0"))
        greeting = b""
        while len(greeting) < GREETING_BYTES:
            greeting += self._socket.recv(GREETING_BYTES - len(greeting))
        self._shake_hands(METADATA)

    def _shake_hands(self, metadata: bytes) -> None:
        """An earlier frame would end the connection."""
        self._command_frame(READY + metadata)
        answer = self._answer()
        assert answer.startswith(READY), answer

    def _command_frame(self, body: bytes) -> None:
        self._socket.sendall(framed(body, COMMAND))

    def _answer(self) -> bytes:
        """The next command of the handshake."""
        while not self._commands:
            assert self.poll(PATIENCE_S), "no answer"
            Zmtp.frames(self)
        return self._commands.pop(0)

    def fileno(self) -> int:
        return self._socket.fileno()

    def poll(self, patience_s: float) -> bool:
        return bool(select.select([self._socket], [], [], patience_s)[0])

    def prepare(self, frame: bytes) -> bytes:
        return framed(frame)

    def send(self, prepared: bytes) -> None:
        self._socket.sendall(prepared)

    def say(self, frame: bytes) -> None:
        self.send(framed(frame))

    def peek(self, frame: memoryview) -> memoryview:
        return frame

    def open(self, frame: memoryview | bytes) -> memoryview:
        return memoryview(frame)

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

    def keep(self, frame: memoryview) -> memoryview | bytes:
        return bytes(frame)

    def _make_room(self) -> None:
        """What was handed out is over; a frame as long as the buffer needs a longer one."""
        rest = self._end - self._begin
        self._move(memoryview(bytearray(2 * rest)) if rest == len(self._buffer) else self._buffer)

    def _move(self, target: memoryview) -> None:
        """What was not handed out to the beginning of `target`."""
        rest = self._end - self._begin
        target[:rest] = self._buffer[self._begin : self._end]
        self._buffer, self._begin, self._end = target, 0, rest

    def _receive(self) -> None:
        self._make_room()
        try:
            count = self._socket.recv_into(self._buffer[self._end :], 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not count:
            raise ConnectionError("the broker closed the connection")
        self._end += count

    def _command(self, body: bytes) -> None:
        if pong := self.pong(body):
            self._command_frame(pong)
        else:
            self._commands.append(body)

    @staticmethod
    def pong(body: bytes) -> bytes:
        """What answers a heartbeat, or nothing."""
        return PONG + body[len(PING) + TTL_BYTES :] if body.startswith(PING) else b""

    def close(self) -> None:
        self._socket.close()
