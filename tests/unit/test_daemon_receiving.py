"""Who a frame belongs to: its key decides, never its routing id."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import pytest
import zmq

from daemon.policy import FULL, Grant
from daemon.receiving import Receiver
from daemon.sockets import Socket
from daemon.watch import Watch
from daemon.wires import Door, Wires
from grapevine.wire import encode, identify
from grapevine.wire.messages import Attach, Marks, Publication, Publish
from overlay.core import Core
from overlay.settings import CoreSettings


class Allowed:
    """The keys that may connect."""

    def __init__(self, *keys: str) -> None:
        self.authorised = frozenset(keys)
        self.generation = 0

    def grant(self, key: str) -> Grant | None:
        return FULL if key in self.authorised else None


class Carried:
    """A frame with the metadata of its connection."""

    def __init__(self, frame: bytes, key: str, descriptor: int) -> None:
        self.buffer = memoryview(frame)
        self._properties = {"User-Id": key, "__fd": str(descriptor), "Peer-Address": "127.0.0.1"}

    def get(self, name: str) -> str:
        return self._properties[name]


class Entrance:
    def __init__(self) -> None:
        self.context: zmq.Context[Socket] = zmq.Context()
        router = self.context.socket(zmq.ROUTER)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.bind("inproc://door")
        self.door = Door(router, "inproc://door", secured=True)
        self.wires = Wires(Watch(), 3)
        self.core = Core("b", 1, CoreSettings(), Random(1))
        self.keys = Allowed("one", "two")
        self.receiver = Receiver(self.core, self.wires, self.keys, 16)  # type: ignore[arg-type]

    def comes(self, identity: bytes, key: str, frame: bytes, descriptor: int = 5) -> int:
        """The number of the wire that the frame is taken on; 0 if it is not taken."""
        wire = self.door.wires.get(identity)
        carried = Carried(frame, key, descriptor)
        found = self.receiver._attributed(self.door, identity, wire, carried, 1.0)  # type: ignore[arg-type]
        return 0 if found is None else found.number


GREETING = encode(Attach(1, 1, "c", identify("c"), 1, 1, 10, 0))
MARKS = encode(Marks(1, 0, 0, 10))


@pytest.fixture
def entrance() -> Iterator[Entrance]:
    made = Entrance()
    yield made
    made.context.destroy(0)


def test_a_greeting_makes_a_link_and_others_follow_on_it(entrance: Entrance) -> None:
    assert entrance.comes(b"id", "one", MARKS) == 0
    number = entrance.comes(b"id", "one", GREETING)
    assert number in entrance.core.links
    assert entrance.comes(b"id", "one", MARKS) == number


def test_another_key_under_the_same_routing_id_ends_the_link(entrance: Entrance) -> None:
    number = entrance.comes(b"id", "one", GREETING)
    assert entrance.comes(b"id", "two", MARKS) == 0
    assert number not in entrance.core.links
    assert entrance.receiver.refused["forged"] == 1
    assert entrance.comes(b"id", "two", GREETING) not in (0, number)


def test_a_key_that_is_no_longer_authorised_ends_the_link(entrance: Entrance) -> None:
    number = entrance.comes(b"id", "one", GREETING)
    entrance.keys.authorised = frozenset({"two"})
    assert entrance.comes(b"id", "one", MARKS) == 0
    assert number not in entrance.core.links
    assert entrance.comes(b"id", "one", GREETING) == 0


def test_who_ended_before_its_first_word_is_not_greeted(entrance: Entrance) -> None:
    entrance.door.ended.add(9)
    assert entrance.comes(b"late", "one", GREETING, descriptor=9) == 0
    assert entrance.comes(b"live", "one", GREETING, descriptor=8) != 0


def test_a_descriptor_used_again_means_that_its_wire_is_gone(entrance: Entrance) -> None:
    first = entrance.comes(b"first", "one", GREETING, descriptor=7)
    second = entrance.comes(b"second", "two", GREETING, descriptor=7)
    assert [wire.number for wire in entrance.door.gone] == [first]
    entrance.receiver.drain_door(entrance.door, 1.0)
    assert set(entrance.core.links) == {second}


class Monitor:
    """Has these events to read, of (event, descriptor)."""

    def __init__(self, *events: tuple[int, int]) -> None:
        self._events = list(events)

    def recv_multipart(self, flags: int) -> list[bytes]:
        if not self._events:
            raise zmq.Again
        event, descriptor = self._events.pop(0)
        return [event.to_bytes(2, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)]


def test_who_was_accepted_after_another_one_ended_is_greeted(entrance: Entrance) -> None:
    """Its first word is read before the monitor, which has its beginning to tell."""
    entrance.door.ended.add(9)
    entrance.door.monitor = Monitor((zmq.EVENT_ACCEPTED, 9))  # type: ignore[assignment]
    assert entrance.comes(b"live", "one", GREETING, descriptor=9) != 0


def test_the_end_of_who_had_its_descriptor_before_is_not_its_own(entrance: Entrance) -> None:
    entrance.door.monitor = Monitor(  # type: ignore[assignment]
        (zmq.EVENT_DISCONNECTED, 9), (zmq.EVENT_ACCEPTED, 9)
    )
    number = entrance.comes(b"live", "one", GREETING, descriptor=9)
    entrance.receiver.hear_endings(entrance.door, 1.0)
    assert number in entrance.core.links


def test_connections_are_limited(entrance: Entrance) -> None:
    taken = [entrance.comes(b"%d" % n, "one", GREETING, descriptor=n) for n in range(1, 6)]
    assert [number > 0 for number in taken] == [True, True, True, False, False]
    assert entrance.receiver.refused["connections"] == 2


class Taking:
    """A core that notes what it is told, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int, int]] = []

    def publications(self, number: int, batch: Publish, now: float) -> None:
        self.heard.append((number, batch.first, len(batch.publications)))

    def receive(self, number: int, message: object, now: float) -> None:
        self.heard.append((number, 0, 0))


@pytest.mark.parametrize("newest", [1, 2])
def test_a_wire_knows_the_protocol_of_its_client(entrance: Entrance, newest: int) -> None:
    entrance.comes(b"a", "one", GREETING)
    wire = entrance.door.wires[b"a"]
    assert wire.protocol == 1, "the oldest, until it is said"
    attach = encode(Attach(1, newest, "c", identify("c"), 1, 1, 10, 0))
    entrance.receiver.take(wire, memoryview(attach), 1.0)
    assert wire.protocol == newest


def published(first: int, count: int, epoch: int = 1) -> memoryview:
    some = [Publication(b"\x80", b"", number) for number in range(first, first + count)]
    return memoryview(encode(Publish(epoch, first, some)))


def test_batches_that_follow_each_other_on_a_wire_are_one(entrance: Entrance) -> None:
    entrance.comes(b"a", "one", GREETING, descriptor=1)
    entrance.comes(b"b", "two", GREETING, descriptor=2)
    one, two = entrance.door.wires[b"a"], entrance.door.wires[b"b"]
    core = Taking()
    receiver = entrance.receiver
    receiver.core = core  # type: ignore[assignment]
    for wire, frame in (
        (one, published(1, 3)),
        (one, published(4, 2)),
        (two, published(1, 1)),
        (one, published(6, 1)),
        (one, published(9, 1)),  # a gap
        (one, published(10, 1, epoch=2)),
        (one, memoryview(MARKS)),
        (one, published(11, 1, epoch=2)),
    ):
        receiver.take(wire, frame, 1.0)
    receiver.hand_over(1.0)
    receiver.hand_over(1.0)
    n, m = one.number, two.number
    assert core.heard == [(n, 1, 5), (m, 1, 1), (n, 6, 1), (n, 9, 1), (n, 10, 1), (n, 0, 0), (n, 11, 1)]
    assert receiver.publications == 10


def test_what_was_read_before_a_link_is_closed_reaches_the_core(entrance: Entrance) -> None:
    entrance.comes(b"a", "one", GREETING)
    wire = entrance.door.wires[b"a"]
    heard = []
    entrance.core.publications = lambda number, batch, now: heard.append(number)  # type: ignore[method-assign]
    entrance.receiver.take(wire, published(1, 1), 1.0)
    entrance.receiver.close(wire, 1.0, "a test")
    assert heard == [wire.number] and wire.number not in entrance.core.links
