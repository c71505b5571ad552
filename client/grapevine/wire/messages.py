"""One class per message. `kind` numbers are the first byte of a frame: append only, never reused.

A message is a flat array of its fields in the order written here. Ids are 64-bit (`identity`),
positions and marks count publications on one link within one epoch, from 1. The types of `fields` carry
the limits, which `codec.decode` enforces. `docs/PROTOCOL.md` tells
who sends what when; a test keeps its table equal to this file.

Ranges of kinds: 1-19 link session, 20-39 tree, 40-59 clients, 60-69 administration, 70-79 handover,
80-99 soft links, 100-119 relocation, 120-139 ring, 140-159 one-hop cluster, 160-179 coordination,
180-199 back end, 200-219 feeding.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter
from grapevine.wire.drafts import Draft
from grapevine.wire.feeding import FEEDING, FeedingMessage
from grapevine.wire.fields import (
    Addresses,
    Arguments,
    AttributeBytes,
    Body,
    Count,
    ExtensionBytes,
    Hops,
    Id,
    Ids,
    Name,
    NameList,
    Number,
    NumberLists,
    Path,
    Policy,
    Reports,
    RootPath,
    Seconds,
    Settings,
    Text,
)
from grapevine.wire.limits import BATCH_PUBLICATIONS, CUTS
from grapevine.wire.mesh import MESH, Exclusions, MeshMessage
from grapevine.wire.relocation import RELOCATION, RelocationMessage

PROTOCOL = 2  # the version this code speaks; HELLO and Attach carry the range a side accepts
PROTOCOL_OLDEST = 1
SHARED_LISTS = 2  # from this version on one list of subscriptions may stand for all publications of a Deliver

# --- publications ------------------------------------------------------------------------------

DURABLE = 1
TRACED = 2
EXTENDED = 4  # `extension` holds at least one block
RESENT = 8  # sent again after a break: route as new, a duplicate only at a local delivery


class Publication(Draft, array_like=True, gc=False):
    """A client sends the draft; its first broker fills in the rest."""

    publisher: Id = 0
    incarnation: Id = 0
    accepted_at: Seconds = 0.0  # seconds since 1970 by the first broker's clock
    hops: Hops = 0
    plane: Count = 0
    extension: ExtensionBytes = b""


Publications: TypeAlias = Annotated[list[Publication], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]


class Cut(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publications that a mark passes although they were not delivered everywhere."""

    publisher: Id
    incarnation: Id
    first: Count
    last: Count
    reason: Count


Cuts: TypeAlias = Annotated[tuple[Cut, ...], msgspec.Meta(max_length=CUTS)]

CUT_LINK_LOST = 1
CUT_NOT_ALLOWED = 2
CUT_TOO_FAR = 3


# --- link session: 1-19 ------------------------------------------------------------------------


class Resume(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a side still knows of an epoch: taken up to `received`, settled up to `settled`."""

    epoch: Id
    received: Count
    settled: Count
    cuts: Cuts = ()
    cuts_first: Count = 0
    cuts_open: Count = 0  # as in Marks


class Hello(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """First message in both directions. The dialler proposes `epoch`; the answer carries the epoch in
    force: the one in `resume` where both sides still know it, else the proposal."""

    kind: ClassVar[int] = 1
    oldest: Count
    newest: Count
    name: Name
    broker: Id
    incarnation: Id
    epoch: Id
    answer: bool
    window: Count  # publications beyond the settled mark that this side takes
    settings: Settings  # cluster-wide; a difference is refused
    root_path: RootPath  # this broker first, the root last
    addresses: Addresses = ()
    resume: Resume | None = None
    replaces: Id = 0  # the leaving broker in whose place this link is dialled
    soft: bool = False  # a shortcut for the dialler's publications, not a link of the tree
    apart: bool = False  # of a broker that moves: not of the tree before MoveTurn


class Refuse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A greeting that cannot be accepted; the link closes."""

    kind: ClassVar[int] = 2
    reason: Name  # a word of REFUSALS
    text: Text


REFUSALS = ("version", "settings", "cycle", "name", "not-ready", "not-allowed", "leaving", "twice")


class Reset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender does not know this link or its epoch: greet again."""

    kind: ClassVar[int] = 3


class Marks(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Acknowledgement of a stream of publications; on a client's link also what PublishAck is."""

    kind: ClassVar[int] = 4
    epoch: Id
    received: Count
    settled: Count
    credit: Count  # the peer may send up to this position
    persisted: Count = 0
    cuts: Cuts = ()
    cuts_first: Count = 0  # number of the first entry of `cuts` within the epoch
    cuts_seen: Count = 0  # how many of the peer's cuts have been taken
    cuts_open: Count = 0  # the last so many told are of positions after `settled`, and more may follow


class Batch(msgspec.Struct, array_like=True, gc=False):
    """Publications from broker to broker, at consecutive positions."""

    kind: ClassVar[int] = 5
    epoch: Id
    first: Count
    received: Count
    settled: Count
    credit: Count
    publications: Publications


class ExcludingBatch(Batch, array_like=True, gc=False):
    """Some have a list of brokers whose paths the receiver must not serve: who cannot read this kind must
    not take them."""

    kind: ClassVar[int] = 13
    exclusions: Exclusions


class Ping(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 6
    sent_at: Seconds
    root_path: RootPath = ()


class Pong(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 7
    sent_at: Seconds  # of the ping
    root_path: RootPath = ()


class TablesSent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that the sender knew when the link came up has been announced."""

    kind: ClassVar[int] = 8


class SyncDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everything announced on this link is known on the sender's side: publications may flow."""

    kind: ClassVar[int] = 9


class Leaving(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Hold publications for me. After LeaveDone, `heirs` dial `successor`. A leaver without a parent tells
    the successor, in place of its own addresses, where it looked for one."""

    kind: ClassVar[int] = 10
    successor: Id
    successor_name: Name
    successor_addresses: Addresses
    heirs: Ids


class LeaveHeld(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From here on nothing is sent to the leaver."""

    kind: ClassVar[int] = 11


class LeaveDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Nothing unsettled is left at the leaver."""

    kind: ClassVar[int] = 12


# --- tree: 20-39 -------------------------------------------------------------------------------


class Advertisement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    origin: Id  # the broker that numbered it
    serial: Count
    home: Id  # the publisher's first broker
    home_name: Name
    publisher: Id
    incarnation: Id
    publisher_name: Name
    filter: Filter
    moves: Count = 0  # how often the publisher was relocated with it


class Subscription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    origin: Id
    serial: Count
    home: Id  # the subscriber's first broker
    path: Path  # the last Delta brokers, farthest first, the sender last: path[0] is the anchor
    filter: Filter


class Advertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 20
    stamp: Count  # numbers announcements on this link; Confirmed answers it
    advertisement: Advertisement


class Unadvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 21
    origin: Id
    serial: Count


class Subscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 22
    stamp: Count
    subscription: Subscription


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 23
    origin: Id
    serial: Count


class Confirmed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every broker that must know the announcement `stamp` knows it."""

    kind: ClassVar[int] = 24
    stamp: Count


class CensusRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 25
    origin: Id
    incarnation: Id
    number: Count
    question: Name  # which reports: a behaviour's name, or "" for the short one
    argument: Body = b""
    deadline_s: Seconds = 5.0


class CensusAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 26
    origin: Id
    incarnation: Id
    number: Count
    reports: Reports  # one JSON object per broker
    missing: NameList = ()  # neighbours that did not answer


class TraceRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where would a publication with these attributes go from you? Sent along the path it would take."""

    kind: ClassVar[int] = 27
    origin: Id
    incarnation: Id
    number: Count
    attributes: AttributeBytes
    hops: Hops
    deadline_s: Seconds = 5.0
    excluded: Ids = ()  # brokers that this copy does not serve


class TraceAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 28
    origin: Id
    incarnation: Id
    number: Count
    reports: Reports  # one JSON object per broker on the path
    missing: NameList = ()


# --- clients: 40-59 ----------------------------------------------------------------------------


class Attach(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 40
    oldest: Count
    newest: Count
    name: Name
    client: Id
    incarnation: Id
    epoch: Id
    window: Count  # deliveries beyond the settled mark that the client takes
    on_slow: Policy  # DROP_OLDEST, DROP_NEWEST, DISCONNECT
    resume: Resume | None = None


DROP_OLDEST, DROP_NEWEST, DISCONNECT = 0, 1, 2


class Attached(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`epoch` is the one in force; `resumed` says that subscriptions and advertisements are still held."""

    kind: ClassVar[int] = 41
    broker: Id
    broker_name: Name
    epoch: Id
    resumed: bool
    received: Count
    settled: Count
    credit: Count
    addresses: Addresses = ()  # other brokers to try when this one is gone
    ordered: bool = True  # each publisher's order is kept, so the last sequence number tells duplicates
    journal: bool = False  # the broker has one: publications can become persisted


class ClientSubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 42
    request: Count
    number: Number  # the client's own, listed with each delivery
    filter: Filter


class ClientUnsubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 43
    request: Count
    number: Number


class ClientAdvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 44
    request: Count
    number: Number
    filter: Filter


class ClientUnadvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 45
    request: Count
    number: Number


class Done(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers a client's request: "local" at the first broker's word, "" when confirmed everywhere, else
    why it was refused."""

    kind: ClassVar[int] = 46
    request: Count
    outcome: Name  # a word of OUTCOMES
    text: Text = ""


OUTCOMES = ("local", "confirmed", "filter", "not-allowed", "limit")


class Publish(msgspec.Struct, array_like=True, gc=False):
    """A client's publications at consecutive positions of its link."""

    kind: ClassVar[int] = 47
    epoch: Id
    first: Count
    publications: Publications


class Deliver(msgspec.Struct, array_like=True, gc=False):
    """Publications for a client, each with the numbers of its matching subscriptions (u32, little-endian).
    On the wire one list of numbers may stand for all; decoded, each has its own."""

    kind: ClassVar[int] = 48
    epoch: Id
    first: Count
    received: Count
    settled: Count
    credit: Count
    publications: Publications
    subscriptions: NumberLists


class Names(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Before the first delivery of a publisher: its name and its first broker's."""

    kind: ClassVar[int] = 49
    publisher: Id
    name: Name
    broker_name: Name


class Detach(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The client has no more to say; its subscriptions and advertisements go."""

    kind: ClassVar[int] = 50


class GoAway(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The broker stops: attach to one of `addresses`."""

    kind: ClassVar[int] = 51
    addresses: Addresses = ()


class Dropped(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many deliveries this client has lost so far to its own slowness."""

    kind: ClassVar[int] = 52
    total: Count


# --- administration: 60-69 ---------------------------------------------------------------------


class Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 60
    request: Count
    verb: Name
    arguments: Arguments


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 61
    request: Count
    outcome: Name  # "ok", "partial", "usage", "not-allowed", "not-found", "failed"
    body: Body  # JSON
    text: Text = ""


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
    Hello | Refuse | Reset | Marks | Batch | ExcludingBatch | Ping | Pong | TablesSent | SyncDone | Leaving
    | LeaveHeld | LeaveDone | Advertise | Unadvertise | Subscribe | Unsubscribe | Confirmed | CensusRequest
    | CensusAnswer | TraceRequest | TraceAnswer
)  # fmt: skip
ClientMessage: TypeAlias = (
    Attach | Attached | ClientSubscribe | ClientUnsubscribe | ClientAdvertise | ClientUnadvertise | Done
    | Publish | Deliver | Names | Detach | GoAway | Dropped
)  # fmt: skip
Message: TypeAlias = (
    PeerMessage | ClientMessage | MeshMessage | RelocationMessage | FeedingMessage | Command | Answer
)  # fmt: skip

MESSAGES: tuple[type[Message], ...] = (
    Hello, Refuse, Reset, Marks, Batch, ExcludingBatch, Ping, Pong, TablesSent, SyncDone, Leaving, LeaveHeld,
    LeaveDone,
    Advertise, Unadvertise, Subscribe, Unsubscribe, Confirmed, CensusRequest, CensusAnswer,
    TraceRequest, TraceAnswer,
    Attach, Attached, ClientSubscribe, ClientUnsubscribe, ClientAdvertise, ClientUnadvertise, Done, Publish,
    Deliver, Names, Detach, GoAway, Dropped, Command, Answer,
    *MESH, *RELOCATION, *FEEDING,
)  # fmt: skip
KINDS: dict[int, type[Message]] = {cls.kind: cls for cls in MESSAGES}
