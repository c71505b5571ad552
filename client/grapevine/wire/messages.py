"""One class per message. `kind` numbers are the first byte of a frame: append only, never reused.

A message is a flat array of its fields in the order written here. Ids are 64-bit (`identity`),
positions and marks count publications on one link within one epoch, from 1. `docs/PROTOCOL.md` tells
who sends what when; a test keeps its table equal to this file.

Ranges of kinds: 1-19 link session, 20-39 tree, 40-59 clients, 60-69 administration, 70-79 handover,
80-99 soft links, 100-119 relocation, 120-139 ring, 140-159 one-hop cluster, 160-179 coordination,
180-199 back end.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter

PROTOCOL = 1  # the version this code speaks; HELLO and Attach carry the range a side accepts
PROTOCOL_OLDEST = 1

# --- publications ------------------------------------------------------------------------------

DURABLE = 1
TRACED = 2
EXTENDED = 4  # `extension` holds at least one block
RESENT = 8  # sent again after a break: route as new, a duplicate only at a local delivery


class Publication(msgspec.Struct, array_like=True, gc=False):
    """Attributes (a map in msgpack) and payload stay the bytes they came in. A client sends the first
    four fields; its first broker fills in the rest."""

    attributes: bytes
    payload: bytes
    sequence: int  # the publisher's own count within one incarnation, rising
    flags: int = 0
    publisher: int = 0
    incarnation: int = 0
    accepted_at: float = 0.0  # seconds since 1970 by the first broker's clock
    hops: int = 0
    plane: int = 0
    extension: bytes = b""


class Cut(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publications that a mark passes although they were not delivered everywhere."""

    publisher: int
    incarnation: int
    first: int
    last: int
    reason: int


CUT_LINK_LOST = 1
CUT_NOT_ALLOWED = 2
CUT_TOO_FAR = 3


# --- link session: 1-19 ------------------------------------------------------------------------


class Resume(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a side still knows of an epoch: taken up to `received`, settled up to `settled`."""

    epoch: int
    received: int
    settled: int
    cuts: tuple[Cut, ...] = ()
    cuts_first: int = 0


class Hello(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """First message in both directions. The dialler proposes `epoch`; the answer carries the epoch in
    force: the one in `resume` where both sides still know it, else the proposal."""

    kind: ClassVar[int] = 1
    oldest: int
    newest: int
    name: str
    broker: int
    incarnation: int
    epoch: int
    answer: bool
    window: int  # publications beyond the settled mark that this side takes
    settings: dict[str, str]  # cluster-wide; a difference is refused
    root_path: tuple[int, ...]  # this broker first, the root last
    addresses: tuple[str, ...] = ()
    resume: Resume | None = None
    replaces: int = 0  # the leaving broker in whose place this link is dialled


class Refuse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A greeting that cannot be accepted; the link closes."""

    kind: ClassVar[int] = 2
    reason: str  # a word of REFUSALS
    text: str


REFUSALS = ("version", "settings", "cycle", "name", "not-ready", "not-allowed", "leaving", "twice")


class Reset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender does not know this link or its epoch: greet again."""

    kind: ClassVar[int] = 3


class Marks(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Acknowledgement of a stream of publications; on a client's link also what PublishAck is."""

    kind: ClassVar[int] = 4
    epoch: int
    received: int
    settled: int
    credit: int  # the peer may send up to this position
    persisted: int = 0
    cuts: tuple[Cut, ...] = ()
    cuts_first: int = 0  # number of the first entry of `cuts` within the epoch
    cuts_seen: int = 0  # how many of the peer's cuts have been taken


class Batch(msgspec.Struct, array_like=True, gc=False):
    """Publications from broker to broker, at consecutive positions."""

    kind: ClassVar[int] = 5
    epoch: int
    first: int
    received: int
    settled: int
    credit: int
    publications: list[Publication]


class Ping(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 6
    sent_at: float
    root_path: tuple[int, ...] = ()


class Pong(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 7
    sent_at: float  # of the ping
    root_path: tuple[int, ...] = ()


class TablesSent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that the sender knew when the link came up has been announced."""

    kind: ClassVar[int] = 8


class SyncDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everything announced on this link is known on the sender's side: publications may flow."""

    kind: ClassVar[int] = 9


class Leaving(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Hold publications for me. After LeaveDone, `heirs` dial `successor`."""

    kind: ClassVar[int] = 10
    successor: int
    successor_name: str
    successor_addresses: tuple[str, ...]
    heirs: tuple[int, ...]


class LeaveHeld(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From here on nothing is sent to the leaver."""

    kind: ClassVar[int] = 11


class LeaveDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Nothing unsettled is left at the leaver."""

    kind: ClassVar[int] = 12


# --- tree: 20-39 -------------------------------------------------------------------------------


class Advertisement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    origin: int  # the broker that numbered it
    serial: int
    home: int  # the publisher's first broker
    home_name: str
    publisher: int
    incarnation: int
    publisher_name: str
    filter: Filter


class Subscription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    origin: int
    serial: int
    home: int  # the subscriber's first broker
    path: tuple[int, ...]  # the last Delta brokers, farthest first, the sender last: path[0] is the anchor
    filter: Filter


class Advertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 20
    stamp: int  # numbers announcements on this link; Confirmed answers it
    advertisement: Advertisement


class Unadvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 21
    origin: int
    serial: int


class Subscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 22
    stamp: int
    subscription: Subscription


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 23
    origin: int
    serial: int


class Confirmed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every broker that must know the announcement `stamp` knows it."""

    kind: ClassVar[int] = 24
    stamp: int


class CensusRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 25
    origin: int
    incarnation: int
    number: int
    question: str  # which reports: a behaviour's name, or "" for the short one
    argument: bytes = b""
    deadline_s: float = 5.0


class CensusAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 26
    origin: int
    incarnation: int
    number: int
    reports: tuple[bytes, ...]  # one JSON object per broker
    missing: tuple[int, ...] = ()  # neighbours that did not answer


# --- clients: 40-59 ----------------------------------------------------------------------------


class Attach(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 40
    oldest: int
    newest: int
    name: str
    client: int
    incarnation: int
    epoch: int
    window: int  # deliveries beyond the settled mark that the client takes
    on_slow: int  # DROP_OLDEST, DROP_NEWEST, DISCONNECT
    resume: Resume | None = None


DROP_OLDEST, DROP_NEWEST, DISCONNECT = 0, 1, 2


class Attached(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`epoch` is the one in force; `resumed` says that subscriptions and advertisements are still held."""

    kind: ClassVar[int] = 41
    broker: int
    broker_name: str
    epoch: int
    resumed: bool
    received: int
    settled: int
    credit: int
    addresses: tuple[str, ...] = ()  # other brokers to try when this one is gone


class ClientSubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 42
    request: int
    number: int  # the client's own, listed with each delivery
    filter: Filter


class ClientUnsubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 43
    request: int
    number: int


class ClientAdvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 44
    request: int
    number: int
    filter: Filter


class ClientUnadvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 45
    request: int
    number: int


class Done(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers a client's request: "local" at the first broker's word, "" when confirmed everywhere, else
    why it was refused."""

    kind: ClassVar[int] = 46
    request: int
    outcome: str  # a word of OUTCOMES
    text: str = ""


OUTCOMES = ("local", "confirmed", "filter", "not-allowed", "limit")


class Publish(msgspec.Struct, array_like=True, gc=False):
    """A client's publications at consecutive positions of its link."""

    kind: ClassVar[int] = 47
    epoch: int
    first: int
    publications: list[Publication]


class Deliver(msgspec.Struct, array_like=True, gc=False):
    """Publications for a client, each with the numbers of its matching subscriptions (u32, little-endian)."""

    kind: ClassVar[int] = 48
    epoch: int
    first: int
    received: int
    settled: int
    credit: int
    publications: list[Publication]
    subscriptions: list[bytes]


class Names(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Before the first delivery of a publisher: its name and its first broker's."""

    kind: ClassVar[int] = 49
    publisher: int
    name: str
    broker_name: str


class Detach(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The client has no more to say; its subscriptions and advertisements go."""

    kind: ClassVar[int] = 50


class GoAway(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The broker stops: attach to one of `addresses`."""

    kind: ClassVar[int] = 51
    addresses: tuple[str, ...] = ()


class Dropped(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many deliveries this client has lost so far to its own slowness."""

    kind: ClassVar[int] = 52
    total: int


# --- administration: 60-69 ---------------------------------------------------------------------


class Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 60
    request: int
    verb: str
    arguments: dict[str, str | int | float | bool | None]


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 61
    request: int
    outcome: str  # "ok", "partial", "usage", "not-allowed", "not-found", "failed"
    body: bytes  # JSON
    text: str = ""


# Kinds promised to later parts, so that no earlier one takes them.
RESERVED: dict[int, str] = {
    53: "ResumeAttach: a second attachment of one session",
    54: "Fetch: deliveries kept for an absent client",
    70: "HandoverRequest",
    71: "HandoverAnswer",
    72: "HandoverDone",
    180: "BackendRegister",
    181: "BackendNotify",
    182: "BackendPull",
    183: "BackendResult",
}

PeerMessage: TypeAlias = (
    Hello | Refuse | Reset | Marks | Batch | Ping | Pong | TablesSent | SyncDone | Leaving | LeaveHeld | LeaveDone
    | Advertise | Unadvertise | Subscribe | Unsubscribe | Confirmed | CensusRequest | CensusAnswer
)  # fmt: skip
ClientMessage: TypeAlias = (
    Attach | Attached | ClientSubscribe | ClientUnsubscribe | ClientAdvertise | ClientUnadvertise | Done | Publish
    | Deliver | Names | Detach | GoAway | Dropped
)  # fmt: skip
Message: TypeAlias = PeerMessage | ClientMessage | Command | Answer

MESSAGES: tuple[type[Message], ...] = (
    Hello, Refuse, Reset, Marks, Batch, Ping, Pong, TablesSent, SyncDone, Leaving, LeaveHeld, LeaveDone,
    Advertise, Unadvertise, Subscribe, Unsubscribe, Confirmed, CensusRequest, CensusAnswer,
    Attach, Attached, ClientSubscribe, ClientUnsubscribe, ClientAdvertise, ClientUnadvertise, Done, Publish,
    Deliver, Names, Detach, GoAway, Dropped, Command, Answer,
)  # fmt: skip
KINDS: dict[int, type[Message]] = {cls.kind: cls for cls in MESSAGES}
