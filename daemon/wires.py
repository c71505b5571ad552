"""Wires: the driver's side of the core's links.

A wire is one dialled DEALER, or one peer of a ROUTER. A peer chooses its own routing id, so on a secured
socket every frame is attributed by the key it came with: a frame whose key is not that of the wire's first
frame belongs to somebody else and is dropped. For strangers nothing is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import zmq

from daemon.sockets import Socket
from daemon.watch import Reader, Watch
from overlay.links.session import Kind

BROKEN = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
BROKEN |= zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class Wire:
    __slots__ = (
        "address",
        "backlog",
        "backlog_bytes",
        "door",
        "heard_at",
        "identity",
        "kind",
        "mistakes",
        "number",
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
        self.user = ""
        self.mistakes = 0
        self.heard_at = now
        self.backlog: deque[bytes] = deque()
        self.backlog_bytes = 0

    def __repr__(self) -> str:
        return f"{self.kind.name.lower()} link {self.number} ({self.address})"


class Door:
    """A ROUTER and the peers behind it that have said who they are."""

    __slots__ = ("address", "secured", "socket", "wires")

    def __init__(self, socket: Socket, address: str, secured: bool) -> None:
        self.socket = socket
        self.address = address
        self.secured = secured
        self.wires: dict[bytes, Wire] = {}


class Wires:
    """All wires by their number, which is also the core's link number."""

    def __init__(self, watch: Watch, limit: int) -> None:
        self.limit = limit
        self.by_number: dict[int, Wire] = {}
        self.backlogged: dict[Wire, None] = {}  # frames wait there for their socket
        self.gone: dict[Wire, None] = {}  # sending failed; the core is yet to be told
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
        wire = self._add(dealer, Kind.PEER, address, now)
        monitor: Socket = dealer.get_monitor_socket(BROKEN)
        self._monitors[wire] = monitor
        self._watch.add(monitor, self._breaks(wire, monitor, broken))
        self._watch.add(dealer, lambda later: read(wire, later))
        return wire

    def _breaks(self, wire: Wire, monitor: Socket, broken: Callable[[Wire, float], None]) -> Reader:
        def read(now: float) -> bool:
            monitor.recv_multipart(zmq.NOBLOCK)
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
            if wire.door.wires.get(wire.identity) is wire:
                del wire.door.wires[wire.identity]
        elif (monitor := self._monitors.pop(wire, None)) is not None:
            self._watch.remove(monitor)
            self._watch.remove(wire.socket)
            wire.socket.disable_monitor()
            monitor.close(0)
            wire.socket.close()

    def _add(self, socket: Socket, kind: Kind, address: str, now: float) -> Wire:
        self._number += 1
        wire = self.by_number[self._number] = Wire(self._number, socket, kind, address, now)
        return wire
