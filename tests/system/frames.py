"""A client of single frames: what the protocol allows and, above all, what it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import zmq

from grapevine.client.keys import KeyPair, find_server
from grapevine.filters.normal import EVERYTHING, Filter
from grapevine.wire import decode, encode, encode_attributes, identify
from grapevine.wire.messages import (
    PROTOCOL,
    PROTOCOL_OLDEST,
    Answer,
    Attach,
    Attached,
    ClientAdvertise,
    ClientSubscribe,
    Command,
    Deliver,
    Detach,
    Done,
    Marks,
    Message,
    Ping,
    Pong,
    Publication,
    Publish,
)
from tests.system.overlay import SOON_S

M = TypeVar("M", bound=Any)


class Frames:
    """One DEALER. Without `keys` the wire is plain; `through` is a place on the way to `address`."""

    def __init__(
        self,
        address: str,
        keys: Path | None = None,
        pair: KeyPair | None = None,
        identity: bytes = b"",
        through: str = "",
    ) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        if identity:
            self.socket.setsockopt(zmq.IDENTITY, identity)
        if keys is not None and pair is not None:
            self.socket.curve_serverkey = find_server(keys, address).public.encode()
            self.socket.curve_publickey, self.socket.curve_secretkey = (
                pair.public.encode(),
                pair.secret.encode(),
            )
        self.socket.connect(through or address)
        self.epoch = time.time_ns() >> 8
        self.attached = False
        self.sent = 0
        self.taken = 0  # settled so far, for whoever keeps a window

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, *error: object) -> None:
        if self.attached:
            self.send(Detach())
        self.context.destroy(200)

    def send(self, message: Message) -> None:
        self.socket.send(encode(message))

    def receive(self, timeout_s: float = SOON_S) -> Message | None:
        if not self.socket.poll(int(timeout_s * 1000)):
            return None
        message = decode(self.socket.recv())
        if isinstance(message, Ping):
            self.send(Pong(message.sent_at))
        return message

    def expect(self, kind: type[M], timeout_s: float = SOON_S) -> M:
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if isinstance(message := self.receive(left), kind):
                return message
        raise AssertionError(f"no {kind.__name__} within {timeout_s} s")

    # --- a client ----------------------------------------------------------------------------------

    def attach(self, name: str, window: int = 100_000, oldest: int = PROTOCOL_OLDEST) -> Attached:
        newest = max(PROTOCOL, oldest)
        self.send(Attach(oldest, newest, name, identify(name), self.epoch, self.epoch, window, 0))
        self.attached = True
        return self.expect(Attached)

    def subscribe(self, filter: Filter = EVERYTHING, number: int = 1) -> None:
        self.send(ClientSubscribe(number, number, filter))
        self.confirmed()

    def advertise(self, filter: Filter = EVERYTHING, number: int = 1) -> None:
        self.send(ClientAdvertise(number, number, filter))
        self.confirmed()

    def confirmed(self) -> None:
        while self.expect(Done).outcome == "local":
            pass

    def publish(self, contents: Iterable[dict[str, Any]], payload: bytes = b"") -> None:
        publications = [
            Publication(encode_attributes(content), payload, self.sent + 1 + index)
            for index, content in enumerate(contents)
        ]
        self.send(Publish(self.epoch, self.sent + 1, publications))
        self.sent += len(publications)

    def settled(self, timeout_s: float = SOON_S) -> None:
        """Wait until all that was published is settled."""
        deadline = time.monotonic() + timeout_s
        while self.taken < self.sent:  # who keeps a window may have read the last mark already
            self.taken = self.expect(Marks, deadline - time.monotonic()).settled

    def deliveries(self, count: int, timeout_s: float = SOON_S) -> list[Publication]:
        """The next `count` publications, acknowledged."""
        got: list[Publication] = []
        while len(got) < count:
            deliver = self.expect(Deliver, timeout_s)
            got += deliver.publications
            last = deliver.first + len(deliver.publications) - 1
            self.send(Marks(self.epoch, last, last, last + 100_000))
        return got

    # --- an administrator --------------------------------------------------------------------------

    def command(self, verb: str, **arguments: Any) -> tuple[Answer, Any]:
        self.send(Command(1, verb, arguments))
        answer = self.expect(Answer)
        return answer, msgspec.json.decode(answer.body)


def exchange(
    address: str, pair: KeyPair | None, keys: Path | None, name: str, count: int, clock: Callable[[], float]
) -> float:
    """`count` publications from one honest client to another, settled: what `clock` went on by meanwhile."""
    with Frames(address, keys, pair) as subscriber, Frames(address, keys, pair) as publisher:
        subscriber.attach(f"{name}-sub")
        subscriber.subscribe()
        publisher.attach(f"{name}-pub")
        publisher.advertise()
        reader = threading.Thread(target=subscriber.deliveries, args=(count, 60.0))
        reader.start()
        began = clock()
        for _ in range(count // 500):
            publisher.publish([{"n": 1}] * 500, b"x" * 100)
            while publisher.sent - publisher.taken > 5_000:
                publisher.taken = publisher.expect(Marks).settled
        publisher.settled(60)
        reader.join()
        return clock() - began
