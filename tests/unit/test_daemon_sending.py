"""From the outbox to frames: shared encodings, split batches, back-pressure without loss or disorder."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import monotonic, sleep

import pytest
import zmq
from msgspec import Raw

from daemon import sending
from daemon.packing import pack
from daemon.sending import BACKLOG_FRAMES, Sender
from daemon.sockets import Socket
from daemon.watch import Watch
from daemon.wires import Door, Wire, Wires
from grapevine.wire import decode, encode
from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import Batch, Deliver, ExcludingBatch, Ping, Publication
from overlay.core import Core
from overlay.links.outgoing import Chunk
from overlay.links.session import Kind
from overlay.settings import CoreSettings


class Pipe:
    """A ROUTER as the daemon has it, and DEALERs on its other side."""

    def __init__(self, batch_bytes: int = 1 << 20, frames: int = 4) -> None:
        self.context: zmq.Context[Socket] = zmq.Context()
        router = self.context.socket(zmq.ROUTER)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.setsockopt(zmq.SNDHWM, frames)
        router.setsockopt(zmq.LINGER, 0)
        router.bind("inproc://door")
        self.door = Door(router, "inproc://door", secured=False)
        self.wires = Wires(Watch(), 100)
        self.core = Core("b", 1, CoreSettings(), Random(1))
        self.sender = Sender(self.core, self.wires, batch_bytes)
        self.dealers: dict[int, Socket] = {}

    def connect(self) -> Wire:
        dealer = self.context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.RCVHWM, 4)
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect("inproc://door")
        dealer.send(b"hello")
        identity = self.door.socket.recv()
        self.door.socket.recv()
        wire = self.wires.enter(self.door, identity, "", Kind.PEER, 0.0)
        self.core.link_up(wire.number, "", Kind.PEER, 0.0)
        self.dealers[wire.number] = dealer
        return wire

    def read(self, wire: Wire) -> list[bytes]:
        frames = []
        while self.dealers[wire.number].poll(50):
            frames.append(self.dealers[wire.number].recv())
        return frames


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.context.destroy(0)


def publications(count: int, payload: bytes = b"x" * 100) -> list[Publication]:
    return [Publication(b"\x80", payload, number) for number in range(1, count + 1)]


def test_equal_batches_are_encoded_once(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(publications: list[Publication]) -> Raw:
        calls.append(len(publications))
        return pack(publications)

    monkeypatch.setattr(sending, "pack", counted)
    one, two, three = pipe.connect(), pipe.connect(), pipe.connect()
    same = publications(5)
    other = [*same[:2], Publication(b"\x80", b"other", 9), *same[3:]]
    pipe.sender.send_batches(
        [
            (one.number, Deliver(1, 1, 0, 0, 0, same, [b"\1\0\0\0"] * 5)),
            (two.number, Deliver(2, 7, 0, 0, 0, list(same), [b"\2\0\0\0"] * 5)),
            (three.number, Deliver(3, 1, 0, 0, 0, other, [b"\1\0\0\0"] * 5)),
        ]
    )
    assert calls == [5, 5], "same ends, but not the same in the middle"
    got = [decode(pipe.read(wire)[0]) for wire in (one, two, three)]
    assert [m.publications for m in got] == [same, same, other]  # type: ignore[union-attr]
    assert [(m.epoch, m.first) for m in got] == [(1, 1), (2, 7), (3, 1)]  # type: ignore[union-attr]


def test_what_left_is_kept_as_bytes_that_destinations_share(pipe: Pipe) -> None:
    one, two, gone = pipe.connect(), pipe.connect(), pipe.connect()
    same, other = publications(5), publications(3)
    chunks = [Chunk(1, list(same), []), Chunk(7, list(same), []), Chunk(1, other, [])]
    batches = [
        (wire.number, Batch(1, 1, 0, 0, 0, chunk.publications))
        for wire, chunk in zip((one, two, gone), chunks)
    ]
    pipe.wires.drop(gone)
    pipe.sender.send_batches(batches, chunks)
    first, second, unsent = chunks
    assert first._packed is not None and first._packed is second._packed and not first._publications
    assert first.publications == second.publications == same and first.publications[0] is not same[0]
    assert unsent.publications is other, "it never left"


def test_a_client_of_the_older_protocol_gets_one_list_each(pipe: Pipe) -> None:
    older, newer = pipe.connect(), pipe.connect()
    newer.protocol = 2
    lists = [b"\1\0\0\0"] * 5
    deliver = Deliver(1, 1, 0, 0, 0, publications(5), lists)
    pipe.sender.send_batches([(older.number, deliver), (newer.number, deliver)])
    (old,), (new,) = pipe.read(older), pipe.read(newer)
    assert decode(old) == decode(new) == deliver
    assert old == encode(deliver) and len(new) == len(old) - 4 * 6


@pytest.mark.parametrize("kind", ["batch", "deliver", "excluding"])
def test_a_long_batch_is_split_at_consecutive_positions(kind: str) -> None:
    pipe = Pipe(batch_bytes=5_000, frames=1000)
    wire = pipe.connect()
    pipe.dealers[wire.number].setsockopt(zmq.RCVHWM, 0)
    sent = publications(100)
    ids = [number.to_bytes(4, "little") for number in range(100)]
    message: Batch | Deliver = Batch(1, 11, 1, 2, 3, sent)
    if kind == "deliver":
        message = Deliver(1, 11, 1, 2, 3, sent, ids)
    if kind == "excluding":
        message = ExcludingBatch(1, 11, 1, 2, 3, sent, [Exclusion(5, 60, (7,)), Exclusion(60, 61, (8,))])
    pipe.sender.send_batches([(wire.number, message)])
    frames = pipe.read(wire)
    while pipe.sender.retry(1.0) or pipe.wires.backlogged:
        frames += pipe.read(wire)
    assert len(frames) > 3 and max(map(len, frames)) <= 5_000
    position, had, had_ids, named = 11, [], [], []
    for part in map(decode, frames):
        assert isinstance(part, Batch | Deliver) and part.first == position
        position += len(part.publications)
        had += part.publications
        had_ids += part.subscriptions if isinstance(part, Deliver) else []
        named += [
            (each.names, publication.sequence)
            for each in (part.exclusions if isinstance(part, ExcludingBatch) else [])
            for publication in part.publications[each.start : each.end]
        ]
    assert had == sent
    assert had_ids == (ids if kind == "deliver" else [])
    right = [((7,), number) for number in range(6, 61)] + [((8,), 61)]
    assert named == (right if kind == "excluding" else [])
    pipe.context.destroy(0)


def test_a_batch_of_many_frames_is_encoded_once_as_it_is_kept_and_once_in_parts(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is encoded is there until the turn ends: steps between would multiply long payloads."""
    encoded: list[int] = []

    def counted(publications: list[Publication]) -> Raw:
        encoded.append(len(publications))
        return pack(publications)

    monkeypatch.setattr(sending, "pack", counted)
    wire = pipe.connect()
    pipe.sender.limit = 2_000
    pipe.sender.send_batches([(wire.number, Batch(1, 1, 0, 0, 0, publications(256)))])
    whole, *parts = encoded
    assert whole == sum(parts) == 256 and len(parts) > 10
    assert len(pipe.sender._buffer) <= 2_000


def test_a_publication_too_long_to_split_goes_alone(pipe: Pipe) -> None:
    wire = pipe.connect()
    pipe.sender.limit = 50
    pipe.sender.send_batches([(wire.number, Batch(1, 1, 0, 0, 0, publications(2)))])
    assert [decode(frame).first for frame in pipe.read(wire)] == [1, 2]  # type: ignore[union-attr]


def test_what_a_socket_does_not_take_waits_in_order(pipe: Pipe) -> None:
    wire = pipe.connect()
    pings = [Ping(float(number)) for number in range(50)]
    pipe.sender.send_all([(ping, (wire.number,)) for ping in pings])
    assert wire in pipe.wires.backlogged and wire.backlog
    got: list[bytes] = []
    deadline = monotonic() + 5
    while len(got) < 50 and monotonic() < deadline:
        got += pipe.read(wire)
        pipe.sender.retry(1.0)
    assert got == [encode(ping) for ping in pings]
    assert not pipe.wires.backlogged


def test_nothing_overtakes_what_waits(pipe: Pipe) -> None:
    wire = pipe.connect()
    pings = [encode(Ping(float(number))) for number in range(50)]
    for ping in pings[:-1]:
        pipe.sender.send(wire, ping)
    got = pipe.read(wire)  # there is room again, and older frames still wait
    pipe.sender.send(wire, pings[-1])
    deadline = monotonic() + 5
    while len(got) < 50 and monotonic() < deadline:
        got += pipe.read(wire)
        pipe.sender.retry(1.0)
    assert got == pings


def test_a_peer_that_takes_nothing_is_given_up(pipe: Pipe) -> None:
    wire = pipe.connect()
    for number in range(BACKLOG_FRAMES + 20):
        pipe.sender.send(wire, encode(Ping(float(number))))
    assert wire in pipe.wires.gone
    assert pipe.sender.overflows > 0


def test_a_peer_that_is_gone_is_noticed(pipe: Pipe) -> None:
    wire = pipe.connect()
    pipe.dealers[wire.number].close(0)
    sleep(0.05)
    for _ in range(3):
        pipe.sender.send(wire, encode(Ping(1.0)))
    assert wire in pipe.wires.gone
