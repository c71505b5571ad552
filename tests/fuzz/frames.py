"""Frames that nobody should send: samples of every kind, mutated, and random bytes; all from a seed.

`python -m tests.fuzz.frames --frames 1000000 --seed 1` runs that many through `decode` and the daemon's
own reading of them, which must agree, and what was taken
through a broker and a client's session, and prints how many were taken per kind. Anything but WireError ends
the run with the frame.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import msgspec

from daemon.packing import unpack
from grapevine.filters import parse
from grapevine.filters.normal import Filter
from grapevine.wire import (
    WireError,
    decode,
    decode_attributes,
    decode_publications,
    encode,
    encode_attributes,
    encode_extension,
    encode_publications,
    encode_publish,
)
from grapevine.wire import messages as wire
from grapevine.wire.drafts import Draft
from grapevine.wire.keeping import KEEP_FREE, Keep, KeepOrder, Kept, KeptPublisher, KeptUpTo
from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import KINDS, Message, Publication
from tests.fuzz.receivers import Broker, Client, Member
from tests.messages import sample

Target = Callable[[Message], None]


def keeping(publications: list[Publication], *filters: Filter) -> list[Message]:
    """What brokers say of copies."""
    told = (KeptPublisher(77, 5, "quotes", filters, filters[0], "key"),)
    return [
        Keep(7, 12, bytes(encode_publications(publications)), told, True),
        Kept(7, 12, True, True, True, 3),
        KeepOrder(KEEP_FREE, 12, (KeptUpTo(77, 5, 4),), True),
    ]


def samples() -> list[Message]:
    """At least one message of every kind, with every optional part filled in."""
    body = encode_attributes({"class": "STOCK", "volume": 6200, "close": 10.5, "halted": False})
    extension = encode_extension([(1, b"one"), (2, b"")])
    plain = Publication(body, b"payload", 3)
    full = Publication(body, b"x" * 40, 4, wire.EXTENDED | wire.DURABLE, 77, 5, 1.7e9, 2, 1, extension)
    cuts = (wire.Cut(77, 5, 3, 4, wire.CUT_LINK_LOST),)
    resume = wire.Resume(9, 4, 3, cuts, 0)
    simple = parse("class = 'STOCK' and volume > 1000")
    rich = parse(
        "(a in (1, 'b', true) or b prefix 'x' or within(lat, lon, circle(1, 2, 30))) and not exists c"
    )
    settings = {"overlay.kind": "tree", "overlay.delta": "1"}
    rich_ones: list[Message] = [
        wire.Hello(2, 2, "b1", 1, 2, 3, False, 100, settings, (1, 2), ("tcp://b1:1",), resume, 4),
        wire.Refuse("name", "taken"),
        wire.Reset(),
        wire.Marks(9, 4, 3, 100, 2, cuts, 0, 1),
        wire.Batch(9, 3, 4, 3, 100, [plain, full]),
        wire.ExcludingBatch(9, 3, 4, 3, 100, [plain, full], [Exclusion(1, 2, (7, 8))]),
        wire.LaneBatch(9, 3, 4, 3, 100, [plain, full], 1, [Exclusion(1, 2, (7, 8))]),
        wire.HomeBatch(9, 3, 4, 3, 100, [plain, full], [b"\1\0\0\0" * 3, b""]),
        wire.Ping(12.5, (1, 2)),
        wire.Pong(12.5, (1, 2)),
        wire.TablesSent(),
        wire.SyncDone(),
        wire.Leaving(2, "b2", ("tcp://b2:1",), (3, 4)),
        wire.LeaveHeld(),
        wire.LeaveDone(),
        wire.LeaveDelayed(),
        wire.Advertise(1, wire.Advertisement(1, 1, 1, "b1", 77, 5, "quotes", simple)),
        wire.Unadvertise(1, 1),
        wire.Subscribe(2, wire.Subscription(1, 2, 1, (1, 2), rich)),
        wire.Unsubscribe(1, 2),
        wire.Confirmed(2),
        wire.Drain(3),
        wire.Drained(3),
        wire.Accepted(3, (wire.AcceptedUpTo(77, 5, 12),), True),
        wire.CensusRequest(1, 2, 3, "status", b"{}", 2.5),
        wire.CensusAnswer(1, 2, 3, (b"{}", b'{"a": 1}'), ("b4",)),
        wire.TraceRequest(1, 2, 3, body, 4, 2.5),
        wire.TraceAnswer(1, 2, 3, (b"{}", b'{"a": 1}'), ("b4",)),
        wire.Attach(1, 1, "quotes", 77, 5, 9, 100, wire.DROP_NEWEST, resume),
        wire.Attached(1, "b1", 9, True, 4, 3, 100, ("tcp://b2:1",), True, True),
        wire.ClientSubscribe(1, 1, rich),
        wire.ClientUnsubscribe(2, 1),
        wire.ClientAdvertise(3, 2, simple),
        wire.ClientUnadvertise(4, 2),
        wire.Done(1, "filter", "too long"),
        wire.Publish(9, 3, [plain, full]),
        wire.Deliver(9, 3, 4, 3, 100, [plain, full], [b"\1\0\0\0", b"\1\0\0\0\2\0\0\0"]),
        wire.Names(77, "quotes", "b1"),
        wire.Detach(),
        wire.GoAway(("tcp://b2:1",)),
        wire.Dropped(12),
        wire.Partial(("b2", "b7")),
        wire.Missing(77, 5, 12, 0.5, (wire.MissingBroker(78, "b2", 31.0),)),
        wire.Edges((wire.Edge(77, "b1", 5, 12, 78, ("tcp://b1:1",), True),)),
        wire.JoinAsk(77, 3, 78, 5, 2),
        *keeping([plain, full], simple, rich),
        wire.JoinAnswer(77, 3, True),
        wire.Command(1, "status", {"a": "b", "n": 1, "x": 1.5, "y": True, "z": None}),
        wire.Answer(1, "ok", b"{}", "fine"),
    ]
    covered = set(map(type, rich_ones))
    return [*rich_ones, *(sample(cls) for cls in KINDS.values() if cls not in covered)]


EDGES = [b"\xc0", b"\xc3", b"\xff", b"\x90", b"\x80", b"\xa0", b"\xc4\x00", b"\xcb\x7f\xf8\0\0\0\0\0\0",
         b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7), b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
         b"\xc6\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xd9\x02\xff\xfe"]  # fmt: skip

STRANGE: list[object] = [
    *(0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -1.0, float("nan"), float("inf")),
    *("", "a", "é" * 300, b"", b"\x80", b"abc", None, True, [], [[]], [[], []], {}, {"a": 1}),
]


DRAFTS = [
    Draft(encode_attributes({"topic": "a", "n": n}), b"x" * n, n + 1) for n in range(3)
]  # as clients send


class Mutator:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.frames = [*map(encode, samples()), encode_publish(9, 3, encode_publications(DRAFTS))]
        self.trees = [msgspec.msgpack.decode(frame[1:]) for frame in self.frames]

    def frame(self) -> bytes:
        pick = self.random.random()
        if pick < 0.1:
            return self.random.randbytes(self.random.randrange(200))
        if pick < 0.2:
            return bytes((self.random.choice(list(KINDS)),)) + self.random.randbytes(
                self.random.randrange(80)
            )
        index = self.random.randrange(len(self.frames))
        if pick < 0.6:
            return self.frames[index][:1] + msgspec.msgpack.encode(self._tree(self.trees[index]))
        return self._bytes(bytearray(self.frames[index]))

    def _bytes(self, frame: bytearray) -> bytes:
        random = self.random
        for _ in range(random.randrange(1, 5)):
            at, way = random.randrange(len(frame) + 1), random.randrange(6)
            if way == 0 and at < len(frame):
                frame[at] ^= 1 << random.randrange(8)
            elif way == 1 and at < len(frame):
                frame[at] = random.randrange(256)
            elif way == 2:
                del frame[at:]
            elif way == 3:
                frame[at:at] = random.choice(EDGES)
            elif way == 4:
                frame[at : at + random.randrange(1, 9)] = random.choice(EDGES)
            else:
                other = random.choice(self.frames)
                frame[at:] = other[random.randrange(len(other)) :]
            if not frame:
                break
        return bytes(frame)

    def _tree(self, node: object) -> object:
        """The same message with a few values replaced by others, well-formed as msgpack."""
        random = self.random
        if random.random() < 0.08:
            return random.choice(STRANGE)
        if isinstance(node, list):
            changed = [self._tree(part) for part in node]
            if changed and random.random() < 0.05:
                changed.append(random.choice(changed))
            if changed and random.random() < 0.05:
                changed.pop(random.randrange(len(changed)))
            return changed
        if isinstance(node, dict):
            return {key: self._tree(value) for key, value in node.items()}
        return node


def _read(frame: bytes) -> Message:
    """By the codec and by the daemon, which must agree."""
    by_daemon, by_codec = _told(unpack, frame), _told(decode, frame)
    assert by_daemon == by_codec, f"the daemon has {by_daemon!r}, the codec {by_codec!r}"
    return decode(frame)


def _told(read: Callable[[memoryview], Message], frame: bytes) -> bytes | str:
    try:
        return encode(read(memoryview(frame)))  # as bytes, because NaN is not equal to itself
    except WireError as error:
        return str(error)


def _kept(encoded: bytes) -> list[Publication]:
    try:
        return decode_publications(encoded)
    except WireError:
        return []


def run(frames: Iterator[bytes], target: Target | None = None) -> Counter[str]:
    """How many frames were taken, by name of the message; the rest were refused by WireError."""
    taken: Counter[str] = Counter()
    for frame in frames:
        try:
            message = _read(frame)
            publications = getattr(message, "publications", ())
            if isinstance(publications, bytes):  # of a stream: who asked for them reads them, or refuses
                publications = _kept(publications)
            for publication in publications:
                decode_attributes(publication.attributes)
            taken[type(message).__name__] += 1
            if target is not None:
                target(message)
        except WireError:
            taken["refused"] += 1
        except BaseException:
            print(f"frame: {frame.hex()}", file=sys.stderr)
            raise
    return taken


def everybody(seed: int) -> Target:
    broker, member, client = Broker(seed), Member(seed), Client(seed)

    def receive(message: Message) -> None:
        for taker in (broker, member, client):
            taker(decode(encode(message)))  # each its own: brokers change what they are given

    return receive


def mutated(seed: int, frames: int) -> Iterator[bytes]:
    mutator = Mutator(seed)
    for _ in range(frames):
        yield mutator.frame()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    taken = run(mutated(arguments.seed, arguments.frames), everybody(arguments.seed))
    for name, count in sorted(taken.items()):
        print(f"{count:9}  {name}")
    missing = {cls.__name__ for cls in KINDS.values()} - taken.keys()
    print(f"{arguments.frames} frames, seed {arguments.seed}; kinds never taken: {sorted(missing) or 'none'}")


if __name__ == "__main__":
    main()
