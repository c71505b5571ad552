"""One connection to one broker: a DEALER with every limit set, and a monitor that tells its fate.

A link does not reconnect by itself: it comes up at most once and goes down at most once, so that a break
is known to be one and the session attaches again. Encryption follows the keys directory.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import zmq

from grapevine.client.keys import client_keys, find_server
from grapevine.errors import Error, Invalid, NotAllowed, Unreachable
from grapevine.wire.limits import FRAME_BYTES

SCHEMES = ("tcp://", "ipc://")
CONNECT_MS = 2_000
HEARTBEAT_MS = 2_000
QUEUE_FRAMES = 1_000
LINGER_MS = 1_000
SOCKETS = 16_384  # of all clients in this process, three each; ZeroMQ's own limit is 1,023
KEPT_BYTES = 8 * 1024 * 1024

UP = "up"
DOWN = "down"

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
)

_EVENT = struct.Struct("=H")  # the head of a monitor's message

_contexts: dict[int, zmq.Context[zmq.Socket[bytes]]] = {}


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """One for the process; a forked child gets its own, since a context does not survive a fork."""
    process = os.getpid()
    if process not in _contexts:
        keep_memory_of_frames()
        made = _contexts[process] = zmq.Context()
        made.set(zmq.MAX_SOCKETS, SOCKETS)
    return _contexts[process]


def keep_memory_of_frames() -> None:
    """glibc gives the memory of large frames back to the system, and asks for it again with the next ones,
    until it has seen a larger block go: show it one. Up to twice as much stays with the process from then on.
    Where the application has set the allocator's limits this changes nothing."""
    bytes(KEPT_BYTES)


def check_address(address: str) -> str:
    if not address.startswith(SCHEMES):
        raise Invalid(f"{address!r} is not a broker's address: tcp://HOST:PORT or ipc://PATH")
    return address


class Link:
    """`keys` is the keys directory; None: nothing is encrypted."""

    def __init__(self, address: str, keys: Path | None) -> None:
        self.address = address
        self._refusal: Error | None = None
        try:
            socket = context().socket(zmq.DEALER)
        except zmq.ZMQError as error:  # no more of them, or of open files
            raise Unreachable(f"{address}: {error.strerror}") from None
        try:
            self._configure(socket, keys)
            self.monitor = socket.get_monitor_socket(_EVENTS)
            socket.connect(address)
        except (zmq.ZMQError, Error) as error:
            socket.close(0)
            if isinstance(error, Error):
                raise
            raise Unreachable(f"{address}: {error.strerror}") from None
        self.socket = socket

    def _configure(self, socket: zmq.Socket[bytes], keys: Path | None) -> None:
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        socket.setsockopt(zmq.HANDSHAKE_IVL, CONNECT_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES)
        socket.setsockopt(zmq.SNDHWM, QUEUE_FRAMES)
        socket.setsockopt(zmq.RCVHWM, QUEUE_FRAMES)
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TTL, 3 * HEARTBEAT_MS)
        socket.setsockopt(zmq.IPV6, 1)
        if keys is not None and self.address.startswith("tcp://"):
            self._encrypt(socket, keys)

    def _encrypt(self, socket: zmq.Socket[bytes], keys: Path) -> None:
        try:
            server = find_server(keys, self.address)
        except LookupError as error:
            hint = "start it with the same keys directory, copy its entry there, or pass keys=False"
            raise Unreachable(f"{error}: {hint}") from None
        if server.public:
            pair = client_keys(keys)
            socket.setsockopt(zmq.CURVE_SERVERKEY, server.public.encode())
            socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode())
            socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())

    def news(self) -> str | None:
        """UP or DOWN, if that has happened since the last call."""
        while True:
            try:
                frames = self.monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.ZMQError:
                return None
            (event,) = _EVENT.unpack_from(frames[0])
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                return UP
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._refusal = NotAllowed(f"{self.address} does not know this client's key")
            elif event in (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL):
                self._refusal = Unreachable(f"{self.address}: keys do not fit, or encryption at one end only")
            else:
                return DOWN

    def why_down(self) -> Error:
        return self._refusal or Unreachable(f"{self.address} cannot be reached")

    def close(self, linger_ms: int = 0) -> None:
        self.socket.disable_monitor()
        self.socket.close(linger_ms)
