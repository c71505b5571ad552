"""A client of our own protocol as thin as it may be: raw frames, with every duty of a client (credit,
acknowledgement)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeVar

import zmq

from grapevine.client.keys import client_keys, find_server
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
Kind = TypeVar("Kind", bound=Message)


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


class Raw:
    """One client on one DEALER. `keys` is the keys directory where the wire is encrypted."""

    def __init__(
        self, context: Context, address: str, name: str, keys: Path | None = None, window: int = WINDOW
    ) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.set_hwm(0)
        self.socket.linger = 0
        if keys is not None:
            pair = client_keys(keys)
            self.socket.curve_serverkey = find_server(keys, address).public.encode()
            self.socket.curve_publickey = pair.public.encode()
            self.socket.curve_secretkey = pair.secret.encode()
        self.socket.connect(address)
        self.epoch = time.time_ns() >> 8
        self.taken = 0
        self.settled = 0
        attach = Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), self.epoch, self.epoch, window, 0)
        self.send(attach)
        self.credit = self.expect(Attached).credit

    def send(self, message: Message) -> None:
        self.socket.send(encode(message))

    def expect(self, kind: type[Kind]) -> Kind:
        while True:
            assert self.socket.poll(60_000), f"no {kind.__name__}"
            message = decode(self.socket.recv())
            if isinstance(message, kind):
                return message
            self.answer(message)

    def answer(self, message: Message) -> None:
        if isinstance(message, Ping):
            self.send(Pong(message.sent_at))
        elif isinstance(message, Marks):
            self.credit, self.settled = message.credit, message.settled

    def attend(self) -> None:
        """Answer what the broker asks while there is nothing else to read."""
        while self.socket.poll(0):
            self.answer(decode(self.socket.recv()))

    def confirmed(self, *requests: Message) -> None:
        """Send them and wait until all are confirmed everywhere."""
        waiting = 0
        for request in requests:
            self.send(request)
            waiting += 1
            while waiting >= PIPELINED:
                waiting -= self._confirmation()
        while waiting:
            waiting -= self._confirmation()

    def _confirmation(self) -> int:
        done = self.expect(Done)
        assert done.outcome in ("local", "confirmed"), done
        return int(done.outcome == "confirmed")

    def subscribe(self, numbered: list[tuple[int, Filter]]) -> None:
        self.confirmed(*[ClientSubscribe(number, number, wanted) for number, wanted in numbered])

    def take(self, frame: memoryview) -> int:
        """Count a delivery's publications and remember to acknowledge them."""
        if frame[0] != Deliver.kind:
            self.answer(decode(frame))
            return 0
        first, count = head(frame)
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
        self.frames: list[list[bytes]] = [[] for _ in clients]

    def read(self) -> float:
        """Until every client has had what it must; the time of the last."""
        poller = zmq.Poller()
        places = {}
        left = list(self.expected)
        for place, client in enumerate(self.clients):
            poller.register(client.socket, zmq.POLLIN)
            places[client.socket] = place
        missing = sum(amount > 0 for amount in left)
        owed: dict[int, int] = {}
        while missing:
            events = poller.poll(0)
            if not events:
                self._acknowledge(owed)
                events = poller.poll(60_000)
            if not events:
                raise TimeoutError(f"{sum(left)} deliveries never came")
            for ready_socket, _ in events:
                place = places[ready_socket]
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
        return ended

    def _acknowledge(self, owed: dict[int, int]) -> None:
        for place in owed:
            self.clients[place].acknowledge()
        owed.clear()

    def _drain(self, place: int) -> int:
        client = self.clients[place]
        recv, count = client.socket.recv, 0
        for _ in range(16):
            try:
                frame = recv(zmq.NOBLOCK, False)
            except zmq.Again:
                break
            taken = client.take(frame.buffer)
            if taken and self.keep:
                self.frames[place].append(frame.bytes)
            count += taken
        return count

    def surplus(self) -> int:
        """Deliveries beyond what was expected that are there already."""
        return sum(self._drain(place) for place in range(len(self.clients)))

    def deliveries(self, place: int) -> list[Deliver]:
        messages = [decode(frame) for frame in self.frames[place]]
        return [message for message in messages if isinstance(message, Deliver)]
