"""A client of our own protocol as thin as it may be: raw frames, with every duty of a client (credit,
acknowledgement)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import zmq

from bench.systems.base import PATIENCE_S
from grapevine.client.keys import client_keys, find_server
from grapevine.client.link import keep_memory_of_frames
from grapevine.filters import Filter
from grapevine.wire import decode, encode, identify
from grapevine.wire.messages import (
    PROTOCOL,
    PROTOCOL_OLDEST,
    Attach,
    Attached,
    ClientSubscribe,
    Deliver,
    Done,
    Marks,
    Message,
    Ping,
    Pong,
)

WINDOW = 1 << 20
PIPELINED = 500  # requests on their way
Context = zmq.Context[zmq.Socket[bytes]]


def new_epoch() -> int:
    return time.time_ns() >> 8


def _number(frame: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number in msgpack and where the next field begins."""
    code = frame[at]
    if code < 0x80:
        return code, at + 1
    end = at + 1 + (1 << code - 0xCC)
    return int.from_bytes(frame[at + 1 : end], "big"), end


def head(frame: memoryview) -> tuple[int, int]:
    """Of a Deliver the position of its first publication, and how many there are; they stay bytes."""
    _, at = _number(frame, 2)  # after the kind and the array of fields
    first, at = _number(frame, at)
    for _ in range(3):
        _, at = _number(frame, at)
    code = frame[at]
    count = (
        code & 0x0F if code < 0xDC else int.from_bytes(frame[at + 1 : at + (3 if code == 0xDC else 5)], "big")
    )
    return first, count


class Forged(AssertionError):
    """A frame that nobody has sent who has the key."""


class Wire(Protocol):
    """A connection to a broker: Zmtp, Curve where it is encrypted, or Libzmq."""

    def fileno(self) -> int | zmq.Socket[bytes]:
        """What zmq.Poller takes."""

    def poll(self, patience_s: float) -> bool: ...
    def prepare(self, frame: bytes) -> bytes:
        """The bytes to send later, in the order in which they were prepared."""

    def send(self, prepared: bytes) -> None: ...
    def say(self, frame: bytes) -> None:
        """Send it now, whatever was prepared."""

    def frames(self) -> Iterable[memoryview]:
        """What is there, as it came; each lasts until the next call, if it is not kept."""

    def keep(self, frame: memoryview) -> memoryview | bytes: ...

    def peek(self, frame: memoryview) -> memoryview:
        """What is read of a delivery while the clock runs: at least all before its publications."""

    def open(self, frame: memoryview | bytes) -> memoryview:
        """The whole frame, authentic where the wire is encrypted."""


class Libzmq:
    """A DEALER. `keys` is the keys directory where the wire is encrypted."""

    def __init__(self, context: Context, address: str, keys: Path | None) -> None:
        keep_memory_of_frames()
        self._socket = context.socket(zmq.DEALER)
        self._socket.set_hwm(0)
        self._socket.linger = 0
        if keys is not None:
            pair = client_keys(keys)
            self._socket.curve_serverkey = find_server(keys, address).public.encode()
            self._socket.curve_publickey = pair.public.encode()
            self._socket.curve_secretkey = pair.secret.encode()
        self._socket.connect(address)

    def fileno(self) -> zmq.Socket[bytes]:
        return self._socket

    def poll(self, patience_s: float) -> bool:
        return bool(self._socket.poll(int(patience_s * 1000)))

    def prepare(self, frame: bytes) -> bytes:
        return frame

    def send(self, prepared: bytes) -> None:
        self._socket.send(prepared)

    def say(self, frame: bytes) -> None:
        self._socket.send(frame)

    def keep(self, frame: memoryview) -> bytes:
        return bytes(frame)

    def peek(self, frame: memoryview) -> memoryview:
        return frame

    def open(self, frame: memoryview | bytes) -> memoryview:
        return memoryview(frame)

    def frames(self) -> Iterator[memoryview]:
        for _ in range(16):
            try:
                yield self._socket.recv(zmq.NOBLOCK, False).buffer
            except zmq.Again:
                return


class Raw:
    """One client."""

    def __init__(self, wire: Wire, name: str, window: int = WINDOW, epoch: int | None = None) -> None:
        self.wire = wire
        self.epoch = epoch or new_epoch()
        self.taken = 0
        self.settled = 0
        self.credit = -1  # until attached
        self.unconfirmed = 0
        self.send(Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), self.epoch, self.epoch, window, 0))
        while self.credit < 0:
            self.wait()

    def send(self, message: Message) -> None:
        self.wire.say(encode(message))

    def answer(self, message: Message) -> None:
        if isinstance(message, Ping):
            self.send(Pong(message.sent_at))
        elif isinstance(message, Attached):
            self.credit = message.credit
        elif isinstance(message, Marks):
            self.credit, self.settled = message.credit, message.settled
        elif isinstance(message, Done):
            assert message.outcome in ("local", "confirmed"), message
            self.unconfirmed -= message.outcome == "confirmed"

    def attend(self) -> None:
        """Answer what the broker asks while there is nothing else to read."""
        for frame in self.wire.frames():
            self.answer(decode(self.wire.open(frame)))

    def wait(self) -> None:
        """Until the broker has said something, and attend to it."""
        assert self.wire.poll(PATIENCE_S), "the broker says nothing"
        self.attend()

    def confirmed(self, *requests: Message) -> None:
        """Send them and wait until all are confirmed everywhere."""
        for request in requests:
            self.send(request)
            self.unconfirmed += 1
            while self.unconfirmed >= PIPELINED:
                self.wait()
        while self.unconfirmed:
            self.wait()

    def subscribe(self, numbered: list[tuple[int, Filter]]) -> None:
        self.confirmed(*[ClientSubscribe(number, number, wanted) for number, wanted in numbered])

    def take(self, frame: memoryview) -> int:
        """Count a delivery's publications and remember to acknowledge them."""
        peeked = self.wire.peek(frame)
        if peeked[0] != Deliver.kind:
            self.answer(decode(self.wire.open(frame)))
            return 0
        first, count = head(peeked)
        self.taken = first + count - 1
        return count

    def acknowledge(self) -> None:
        self.send(Marks(self.epoch, self.taken, self.taken, self.taken + WINDOW))


class Readers:
    """Subscribers on one poller: everything that comes is counted, acknowledged and, if wanted, kept."""

    def __init__(self, clients: list[Raw], expected: list[int], keep: bool, every: int) -> None:
        self.clients = clients
        self.expected = expected
        self.keep = keep
        self.every = every  # acknowledge after so many publications, and whenever there is nothing to read
        self.frames: list[list[memoryview | bytes]] = [[] for _ in clients]
        self.over = 0  # publications beyond what was expected, in the frames that ended it

    def read(self) -> float:
        """Until every client has had what it must; the time of the last."""
        poller = zmq.Poller()
        places = {}
        left = list(self.expected)
        for place, client in enumerate(self.clients):
            poller.register(client.wire.fileno(), zmq.POLLIN)
            places[client.wire.fileno()] = place
        missing = sum(amount > 0 for amount in left)
        owed: dict[int, int] = {}
        while missing:
            events = poller.poll(0)
            if not events:
                self._acknowledge(owed)
                events = poller.poll(PATIENCE_S * 1000)
            if not events:
                raise TimeoutError(f"{sum(left)} deliveries never came")
            for readable, _ in events:
                place = places[readable]
                count = self._drain(place)
                before = left[place]
                left[place] = before - count
                missing -= before > 0 >= left[place]
                if count and owed.get(place, 0) + count >= self.every:
                    self._acknowledge({place: count})
                    owed.pop(place, None)
                elif count:
                    owed[place] = owed.get(place, 0) + count
        ended = time.monotonic()
        self._acknowledge(owed)
        self.over = -sum(left)
        return ended

    def _acknowledge(self, owed: dict[int, int]) -> None:
        for place in owed:
            self.clients[place].acknowledge()
        owed.clear()

    def _drain(self, place: int) -> int:
        client, count = self.clients[place], 0
        for frame in client.wire.frames():
            taken = client.take(frame)
            if taken and self.keep:
                self.frames[place].append(client.wire.keep(frame))
            count += taken
        return count

    def surplus(self) -> int:
        """Deliveries beyond what was expected that are there, or come within a moment."""
        time.sleep(0.05)
        return self.over + sum(self._drain(place) for place in range(len(self.clients)))

    def forged(self) -> str:
        """Of what was kept, in words, what is not authentic where the wire is encrypted."""
        for client, frames in zip(self.clients, self.frames, strict=True):
            for frame in frames:
                try:
                    client.wire.open(frame)
                except Forged as error:
                    return str(error)
        return ""

    def deliveries(self, place: int) -> list[Deliver]:
        messages = [decode(self.clients[place].wire.open(frame)) for frame in self.frames[place]]
        return [message for message in messages if isinstance(message, Deliver)]
