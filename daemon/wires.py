"""Wires: the driver's side of the core's links.

A wire is one dialled DEALER, or one peer of a ROUTER. A peer chooses its own routing id, so on a secured
socket every frame is attributed by the key it came with: a frame whose key is not that of the wire's first
frame belongs to somebody else and is dropped. For strangers nothing is kept.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

import zmq

from daemon.policy import FULL, Grant
from daemon.sockets import Socket
from daemon.watch import Reader, Watch
from grapevine.wire.messages import PROTOCOL_OLDEST
from overlay.links.session import Kind

BROKEN = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
BROKEN |= zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class Wire:
    __slots__ = (
        "address",
        "backlog",
        "backlog_bytes",
        "watched",
        "descriptor",
        "door",
        "grant",
        "heard_at",
        "identity",
        "kind",
        "mistakes",
        "number",
        "protocol",
        "socket",
        "user",
    )

    def __init__(self, number: int, socket: Socket, kind: Kind, address: str, now: float) -> None:
        self.number = number
        self.socket = socket
        self.kind = kind
        self.address = address  # dialled, or the address listened on
        self.identity = b""  # b"": this is a DEALER
        self.door: Door | None = None
        self.descriptor = -1
        self.user = ""  # the key that it was authorised by; for a DEALER, the key that was dialled
        self.grant = FULL
        self.watched: frozenset[int] = frozenset()  # kinds of messages that its key may not always send
        self.protocol = PROTOCOL_OLDEST  # the newest version that a client speaks
        self.mistakes = 0
        self.heard_at = now
        self.backlog: deque[bytes] = deque()
        self.backlog_bytes = 0

    def allow(self, grant: Grant) -> None:
        self.grant = grant
        self.watched = grant.watched

    def __repr__(self) -> str:
        return f"{self.kind.name.lower()} link {self.number} ({self.address})"


class Door:
    """A ROUTER and the peers behind it that have said who they are.

    Its monitor tells which connections end, by descriptor; a frame tells by which one it came. What a peer
    sent before its end is read before it is let go, but who ended before we heard its first word is not
    greeted: a broker that is slow would otherwise answer only those who have given it up. A descriptor may be
    used again before its end is heard of: the wire that had it is then known to be gone, and one ending is
    owed.
    """

    __slots__ = (
        "_by_descriptor",
        "_owed",
        "address",
        "ended",
        "gone",
        "monitor",
        "secured",
        "socket",
        "wires",
    )

    def __init__(self, socket: Socket, address: str, secured: bool) -> None:
        self.socket = socket
        self.address = address
        self.secured = secured
        self.wires: dict[bytes, Wire] = {}
        self.gone: list[Wire] = []  # their connections ended; let go when the socket is empty
        self.ended: set[int] = set()  # descriptors of connections that ended without a word read
        self.monitor = monitor_of(socket, zmq.EVENT_DISCONNECTED | zmq.EVENT_ACCEPTED)
        self._by_descriptor: dict[int, Wire] = {}
        self._owed: dict[int, int] = {}

    def came_by(self, wire: Wire, descriptor: int) -> None:
        wire.descriptor = descriptor
        if (before := self._by_descriptor.get(descriptor)) is not None:
            self.gone.append(before)
            self._owed[descriptor] = self._owed.get(descriptor, 0) + 1
        self._by_descriptor[descriptor] = wire

    def let_go(self, wire: Wire) -> None:
        if self.wires.get(wire.identity) is wire:
            del self.wires[wire.identity]
        if self._by_descriptor.get(wire.descriptor) is wire:
            del self._by_descriptor[wire.descriptor]

    def close(self, linger_ms: int) -> None:
        self.socket.monitor(None, 0)
        self.monitor.close(0)
        self.socket.close(linger_ms)

    def read_monitor(self) -> None:
        while True:
            try:
                event = self.monitor.recv_multipart(zmq.NOBLOCK)[0]
            except zmq.Again:
                return
            descriptor = int.from_bytes(event[2:6], sys.byteorder)
            if int.from_bytes(event[:2], sys.byteorder) == zmq.EVENT_ACCEPTED:
                self.ended.discard(descriptor)
            elif owed := self._owed.pop(descriptor, 0):
                if owed > 1:
                    self._owed[descriptor] = owed - 1
            elif (wire := self._by_descriptor.pop(descriptor, None)) is not None:
                self.gone.append(wire)
            else:
                self.ended.add(descriptor)


_monitors = count(1)


def monitor_of(socket: Socket, events: int) -> Socket:
    """A socket that hears of these events, without a limit: a full one would stop the sender's thread."""
    address = f"inproc://monitor-{next(_monitors)}"
    socket.monitor(address, events)
    monitor: Socket = socket.context.socket(zmq.PAIR)
    monitor.setsockopt(zmq.RCVHWM, 0)
    monitor.setsockopt(zmq.LINGER, 0)
    monitor.connect(address)
    return monitor


class Wires:
    """All wires by their number, which is also the core's link number."""

    def __init__(self, watch: Watch, limit: int) -> None:
        self.limit = limit
        self.by_number: dict[int, Wire] = {}
        self.backlogged: dict[Wire, None] = {}  # frames wait there for their socket
        self.gone: dict[Wire, None] = {}  # sending failed; the core is yet to be told
        self.used = watch.used
        self._watch = watch
        self._monitors: dict[Wire, Socket] = {}
        self._number = 0

    def __iter__(self) -> Iterator[Wire]:
        return iter(self.by_number.values())

    def __len__(self) -> int:
        return len(self.by_number)

    @property
    def full(self) -> bool:
        return len(self.by_number) >= self.limit

    def enter(self, door: Door, identity: bytes, user: str, kind: Kind, now: float) -> Wire:
        """A peer of a ROUTER has said who it is."""
        wire = self._add(door.socket, kind, door.address, now)
        wire.door, wire.identity, wire.user = door, identity, user
        door.wires[identity] = wire
        return wire

    def dialled(
        self,
        dealer: Socket,
        address: str,
        read: Callable[[Wire, float], bool],
        broken: Callable[[Wire, float], None],
        now: float,
    ) -> Wire:
        """A DEALER about to connect; `broken` is called when its connection ends."""
        monitor = monitor_of(dealer, BROKEN)
        wire = self._add(dealer, Kind.PEER, address, now)
        self._monitors[wire] = monitor
        self._watch.add(monitor, self._breaks(wire, monitor, broken))
        self._watch.add(dealer, lambda later: read(wire, later))
        return wire

    def _breaks(self, wire: Wire, monitor: Socket, broken: Callable[[Wire, float], None]) -> Reader:
        def read(now: float) -> bool:
            try:
                monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return False
            broken(wire, now)
            return False

        return read

    def lose(self, wire: Wire) -> None:
        """Sending failed. The core is told between two outboxes, never while one is acted on."""
        self.gone[wire] = None

    def drop(self, wire: Wire) -> None:
        """The wire is no more; what the core should know of it is the caller's business."""
        self.by_number.pop(wire.number, None)
        self.backlogged.pop(wire, None)
        self.gone.pop(wire, None)
        wire.backlog.clear()
        wire.backlog_bytes = 0
        if wire.door is not None:
            wire.door.let_go(wire)
        elif (monitor := self._monitors.pop(wire, None)) is not None:
            self._watch.remove(monitor)
            self._watch.remove(wire.socket)
            wire.socket.monitor(None, 0)
            monitor.close(0)
            wire.socket.close()

    def _add(self, socket: Socket, kind: Kind, address: str, now: float) -> Wire:
        self._number += 1
        wire = self.by_number[self._number] = Wire(self._number, socket, kind, address, now)
        return wire
