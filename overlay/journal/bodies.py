"""What the kinds of records say. The publications of a PUBS record stand behind its head, so that an index
can leave them out."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from grapevine.filters.normal import Filter
from overlay.journal.index import HEAD_LENGTH_BYTES
from overlay.journal.record import Buffer

Source = tuple[int, int]  # (publisher, incarnation)
Ordered = tuple[int, ...]  # within what publications have an order: a source, or a source and a topic
Body = TypeVar("Body", bound=msgspec.Struct)


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publications of one publisher that stand together in a record, from index `start` on. `held`: this is
    their first broker, and they are durable."""

    publisher: int
    incarnation: int
    first: int  # sequence numbers, rising but not dense
    last: int
    start: int
    items: int
    held: bool

    @property
    def source(self) -> Source:
        return self.publisher, self.incarnation


class Wanted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a stream keeps of a record: its next offset before, and a bit for each publication, lowest first;
    none at all: every publication."""

    stream: int
    offset: int
    bits: bytes = b""


class PubsHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    runs: list[Run]
    wanted: list[Wanted] = []


class TopicsHead(PubsHead, frozen=True, array_like=True, gc=False):
    """Where order is kept for each publisher and topic: the last of each that streams want of this record."""

    topics: list[tuple[int, int, int, int]] = []  # publisher, incarnation, topic, sequence number


class Settled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of these publishers everything up to `sequence` is settled: its custody ends."""

    marks: list[tuple[int, int, int]]  # publisher, incarnation, sequence


class CursorBody(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`state` is "open", or "gone" once it has ended; `used_at` is when its reader was last there."""

    stream: int
    name: str
    owner: str  # key of who made it
    acknowledged: int
    exceptions: list[int] = []
    parked: list[int] = []
    state: str = "open"
    used_at: float = 0.0
    expires_s: float = 0.0
    group: bool = False  # several read it together


class StreamBody(msgspec.Struct, frozen=True, array_like=True, gc=False):
    number: int
    name: str
    version: int
    filter: Filter
    owner: str
    retention: str  # "acked" or "limits"
    age_s: float
    bytes: int
    state: str = "open"  # or "gone"
    first: int = 1  # the oldest offset kept
    next: int = 1  # the next offset, when this was written
    key: str = ""  # an attribute: readers may ask for the newest of each of its values


class Advert(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A durable publisher as its stand-in must appear."""

    publisher: int
    incarnation: int
    name: str
    filters: list[Filter]
    may_publish: Filter
    key: str = ""  # whose name it is


class CopyHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of publications in another broker's custody."""

    owner: int
    runs: list[Run]


class CopyFreed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What of an owner's is settled."""

    owner: int
    marks: list[tuple[int, int, int]]  # publisher, incarnation, sequence
    only: bool = False  # nothing is kept of other publishers


class CopyState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who an owner is, and up to which round all of its custody is here. `state`: "kept", "taken" (what is
    here is this broker's custody from now on) or "gone"."""

    owner: int
    name: str
    round: int
    adverts: list[Advert] = []
    taken: list[tuple[int, int, int]] = []  # once taken over: publisher, incarnation, sequence
    taken_at: float = 0.0
    state: str = "kept"


class KeeperBody(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who has had all that this broker has in custody, and since which life of it this journal lacks nothing
    that an earlier round gave."""

    keeper: int
    name: str
    round: int
    since: int


class Sources(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last sequence number of each publisher that is in the streams' log."""

    marks: list[tuple[int, int, int]]


class TopicSources(Sources, frozen=True, array_like=True, gc=False):
    """The same of each publisher and topic."""

    topics: list[tuple[int, int, int, int]] = []


class Names(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What publishers in the streams' log are called, and the brokers that accepted from them."""

    publishers: list[tuple[int, str, str]]


_encode = msgspec.msgpack.Encoder().encode
_pubs = msgspec.msgpack.Decoder(TopicsHead)
_copy = msgspec.msgpack.Decoder(CopyHead)


def encode_body(body: msgspec.Struct) -> bytes:
    return _encode(body)


def decode_body(body: Buffer, kind: type[Body]) -> Body:
    return msgspec.msgpack.decode(body, type=kind)


def encode_pubs(head: PubsHead | CopyHead, publications: Buffer) -> bytes:
    encoded = _encode(head)
    return b"".join((len(encoded).to_bytes(HEAD_LENGTH_BYTES, "little"), encoded, publications))


def decode_head(body: Buffer) -> TopicsHead:
    end = HEAD_LENGTH_BYTES + int.from_bytes(body[:HEAD_LENGTH_BYTES], "little")
    return _pubs.decode(memoryview(body)[HEAD_LENGTH_BYTES:end])


def decode_copy(body: Buffer) -> CopyHead:
    end = HEAD_LENGTH_BYTES + int.from_bytes(body[:HEAD_LENGTH_BYTES], "little")
    return _copy.decode(memoryview(body)[HEAD_LENGTH_BYTES:end])


def publications_of(body: Buffer) -> memoryview:
    """The encoded publications of a PUBS or COPY record."""
    return memoryview(body)[HEAD_LENGTH_BYTES + int.from_bytes(body[:HEAD_LENGTH_BYTES], "little") :]


def bits_of(wanted: list[int], items: int) -> bytes:
    """Which of the publications of a record, by index; nothing for all."""
    if len(wanted) == items:
        return b""
    bits = 0
    for index in wanted:
        bits |= 1 << index
    return bits.to_bytes(-(-items // 8), "little")


def indexes(bits: bytes, items: int) -> list[int]:
    if not bits:
        return list(range(items))
    number = int.from_bytes(bits, "little")
    return [index for index in range(items) if number >> index & 1]
