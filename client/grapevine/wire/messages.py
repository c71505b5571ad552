"""One class per message. `kind` numbers are the first byte of a frame: append only, never reused.

A message is a flat array of its fields in the order written here. Ids are 64-bit (`identity`),
positions and marks count publications on one link within one epoch, from 1. The types of `fields` carry
the limits, which `codec.decode` enforces. `docs/PROTOCOL.md` tells who sends what when, and a test compares.

Ranges of kinds: 1-19 link session, 20-39 tree, 40-59 clients, 60-69 administration, 70-79 handover,
80-99 soft links, 100-119 relocation, 120-139 ring, 140-159 one-hop cluster, 160-179 coordination,
180-199 back end, 200-219 feeding.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter
from grapevine.wire.administration import ADMINISTRATION, AdministrationMessage
from grapevine.wire.administration import RESERVED as RESERVED
from grapevine.wire.administration import Answer as Answer
from grapevine.wire.administration import CensusAnswer as CensusAnswer
from grapevine.wire.administration import CensusRequest as CensusRequest
from grapevine.wire.administration import Command as Command
from grapevine.wire.administration import TraceAnswer as TraceAnswer
from grapevine.wire.administration import TraceRequest as TraceRequest
from grapevine.wire.channels import CHANNELS, ChannelMessage
from grapevine.wire.chord import CHORD, ChordMessage
from grapevine.wire.drafts import Draft
from grapevine.wire.draining import Accepted as Accepted
from grapevine.wire.draining import AcceptedUpTo as AcceptedUpTo
from grapevine.wire.draining import Drain as Drain
from grapevine.wire.draining import Drained as Drained
from grapevine.wire.draining import Missing as Missing
from grapevine.wire.draining import MissingBroker as MissingBroker
from grapevine.wire.edges import Edge as Edge
from grapevine.wire.edges import Edges as Edges
from grapevine.wire.edges import JoinAnswer as JoinAnswer
from grapevine.wire.edges import JoinAsk as JoinAsk
from grapevine.wire.feeding import FEEDING, FeedingMessage
from grapevine.wire.fields import (
    Addresses,
    Count,
    ExtensionBytes,
    Hops,
    Id,
    Location,
    Name,
    NameList,
    Number,
    NumberLists,
    Policy,
    RootPath,
    Seconds,
    Settings,
    Text,
)
from grapevine.wire.gates import (
    ANY,
    ANYBODY,
    BROKER,
    CLIENT,
    PUBLISHER,
    REMOTE,
    STREAMING,
    STREAMS,
    SUBSCRIBER,
    Carrier,
    Gate,
)
from grapevine.wire.handover import HANDOVER, HandoverMessage
from grapevine.wire.keeping import KEEPING, KeepMessage
from grapevine.wire.limits import BATCH_PUBLICATIONS, CUTS
from grapevine.wire.mesh import MESH, Exclusions, MeshMessage
from grapevine.wire.onehop import ONEHOP, OneHopMessage
from grapevine.wire.placement import PLACEMENT, PlacementMessage
from grapevine.wire.reconfiguration import RECONFIGURATION, ReconfigurationMessage
from grapevine.wire.relocation import RELOCATION, RelocationMessage
from grapevine.wire.streams import STREAM_MESSAGES, StreamMessage
from grapevine.wire.tree import TREE, TreeMessage
from grapevine.wire.tree import Advertise as Advertise
from grapevine.wire.tree import Advertisement as Advertisement
from grapevine.wire.tree import Confirmed as Confirmed
from grapevine.wire.tree import LeaveDelayed as LeaveDelayed
from grapevine.wire.tree import LeaveDone as LeaveDone
from grapevine.wire.tree import LeaveHeld as LeaveHeld
from grapevine.wire.tree import Leaving as Leaving
from grapevine.wire.tree import Subscribe as Subscribe
from grapevine.wire.tree import Subscription as Subscription
from grapevine.wire.tree import Unadvertise as Unadvertise
from grapevine.wire.tree import Unsubscribe as Unsubscribe

PROTOCOL = 3  # the version this code speaks; HELLO and Attach carry the range a side accepts
PROTOCOL_OLDEST = 1  # of clients
BROKERS_OLDEST = 2  # of brokers: an ExcludingBatch cannot be said in other words
SHARED_LISTS = 2  # from this version on one list of subscriptions may stand for all publications of a Deliver

# --- publications ------------------------------------------------------------------------------

DURABLE, TRACED = 1, 2
EXTENDED = 4  # `extension` holds at least one block
REPLAYED = 32  # by its first broker, after everything older of its publisher that is not settled
ASKS = 16  # a request: its publisher wants to hear at once if nobody is there to answer
OLDEST = 64  # on a ring: of what its first broker replays of this topic, the first
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
CUT_NO_ROOM = 4  # durable, and the disk of its first broker is full
CUT_ROTTEN = 5  # durable, and the disk has damaged it
CUT_EXPIRED = 6  # durable, and in custody for too long
CUT_NO_RESPONDERS = 7  # a request that nobody has subscribed to
CUT_OVERTAKEN = 8  # durable, and newer ones of its publisher were delivered before it came


# --- link session: 1-19 ------------------------------------------------------------------------


class Resume(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a side still knows of an epoch: taken up to `received`, settled up to `settled`."""

    epoch: Id
    received: Count
    settled: Count
    cuts: Cuts = ()
    cuts_first: Count = 0
    cuts_open: Count = 0  # as in Marks


LaneResumes: TypeAlias = Annotated[tuple[tuple[Count, Resume], ...], msgspec.Meta(max_length=64)]


class Hello(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """First message in both directions. The dialler proposes `epoch`; the answer carries the epoch in
    force: the one in `resume` where both sides still know it, else the proposal."""

    kind: ClassVar[int] = 1
    gate: ClassVar[Gate] = Gate(1, Carrier.GREETING, BROKER)
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
    staged: bool = False  # of a broker that moves: not of the tree before MoveTurn
    resumes: LaneResumes = ()  # what `resume` is to lane 0, for the session's other lanes
    backend: bool = False  # to a back end, beside the overlay
    coordinator: bool = False  # to a coordinator, beside the overlay


class Refuse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A greeting that cannot be accepted; the link closes."""

    kind: ClassVar[int] = 2
    gate: ClassVar[Gate] = Gate(1, Carrier.GREETING, BROKER)
    reason: Name  # a word of REFUSALS
    text: Text


REFUSALS = ("version", "settings", "cycle", "name", "not-ready", "not-allowed", "leaving", "twice")


class Reset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender does not know this link or its epoch: greet again."""

    kind: ClassVar[int] = 3
    gate: ClassVar[Gate] = Gate(1, Carrier.GREETING, ANYBODY)


class Marks(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Acknowledgement of a stream of publications; on a client's link also what PublishAck is."""

    kind: ClassVar[int] = 4
    gate: ClassVar[Gate] = Gate(1, STREAMS, STREAMING)
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
    gate: ClassVar[Gate] = Gate(1, REMOTE, BROKER)
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
    gate: ClassVar[Gate] = Gate(2, REMOTE, BROKER)
    exclusions: Exclusions


class LaneBatch(Batch, array_like=True, gc=False):
    """Publications on a lane of the session other than its first."""

    kind: ClassVar[int] = 14
    gate: ClassVar[Gate] = Gate(3, REMOTE, BROKER)
    lane: Count
    exclusions: Exclusions = []  # on a ring: the positions that publications are for


class HomeBatch(Batch, array_like=True, gc=False):
    """Publications for clients of the receiver; for each of them whom, packed as in HomeMatches. Or for whom
    the receiver is to find out: then a question instead (overlay/onehop/packed.py)."""

    kind: ClassVar[int] = 158
    gate: ClassVar[Gate] = Gate(3, REMOTE, BROKER)
    clients: NumberLists
    lane: Count = 0


class LaneMarks(Marks, frozen=True, array_like=True, gc=False):
    """Marks of such a lane."""

    kind: ClassVar[int] = 15
    gate: ClassVar[Gate] = Gate(3, REMOTE, BROKER)
    lane: Count = 0


class Ping(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 6
    gate: ClassVar[Gate] = Gate(1, ANY, ANYBODY)
    sent_at: Seconds
    root_path: RootPath = ()


class Pong(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 7
    gate: ClassVar[Gate] = Gate(1, ANY, ANYBODY)
    sent_at: Seconds  # of the ping
    root_path: RootPath = ()


class TablesSent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that the sender knew when the link came up has been announced."""

    kind: ClassVar[int] = 8
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)


class SyncDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everything announced on this link is known on the sender's side: publications may flow."""

    kind: ClassVar[int] = 9
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)


# --- clients: 40-59 ----------------------------------------------------------------------------


class Attach(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 40
    gate: ClassVar[Gate] = Gate(1, Carrier.GREETING, CLIENT)
    oldest: Count
    newest: Count
    name: Name
    client: Id
    incarnation: Id
    epoch: Id
    window: Count  # deliveries beyond the settled mark that the client takes
    on_slow: Policy  # DROP_OLDEST, DROP_NEWEST, DISCONNECT
    resume: Resume | None = None
    place: Name = ""  # a coordinator is asked for a broker: a word of PLACES; "": whoever was dialled
    location: Location | None = None  # for the nearest one


PLACES = ("", "assigned", "nearest", "round_robin", "random")  # "assigned": by balancing.assign there

DROP_OLDEST, DROP_NEWEST, DISCONNECT = 0, 1, 2


class Attached(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`epoch` is the one in force; `resumed` says that subscriptions and advertisements are still held."""

    kind: ClassVar[int] = 41
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
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
    may_publish: Text = ""  # the filter that the client's key is limited to; "": anything
    protocol: Count = 2  # that both sides speak
    ordered_by: NameList = ()  # not ordered as a whole, but what is alike in these terms (filters/topics.py)


class ClientSubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 42
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, SUBSCRIBER)
    request: Count
    number: Number  # the client's own, listed with each delivery
    filter: Filter


class ClientUnsubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 43
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, CLIENT)
    request: Count
    number: Number


class ClientAdvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 44
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    request: Count
    number: Number
    filter: Filter


class ClientUnadvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 45
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, CLIENT)
    request: Count
    number: Number


class Done(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers a client's request: "local" when the first broker has it, "confirmed" when every broker that
    must know does, else why it was refused."""

    kind: ClassVar[int] = 46
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    request: Count
    outcome: Name  # a word of OUTCOMES
    text: Text = ""


OUTCOMES = ("local", "confirmed", "filter", "not-allowed", "limit")


class Publish(msgspec.Struct, array_like=True, gc=False):
    """A client's publications at consecutive positions of its link."""

    kind: ClassVar[int] = 47
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    epoch: Id
    first: Count
    publications: Publications


class ExtendedPublish(Publish, array_like=True, gc=False):
    """The same, where some of them bring an extension block: a traceparent, nothing else is taken."""

    kind: ClassVar[int] = 220
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, PUBLISHER)


class Deliver(msgspec.Struct, array_like=True, gc=False):
    """Publications for a client, each with the numbers of its matching subscriptions (u32, little-endian).
    On the wire one list of numbers may stand for all; decoded, each has its own."""

    kind: ClassVar[int] = 48
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
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
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    publisher: Id
    name: Name
    broker_name: Name


class Detach(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The client has no more to say; its subscriptions and advertisements go."""

    kind: ClassVar[int] = 50
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, CLIENT)


class GoAway(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The broker stops, or another one is to serve this client: attach to one of `addresses`, in order."""

    kind: ClassVar[int] = 51
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    addresses: Addresses = ()


class Partial(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who of the overlay cannot be reached from this broker: nobody, if it is whole."""

    kind: ClassVar[int] = 221
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    brokers: NameList = ()


class Dropped(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many deliveries this client has lost so far to its own slowness."""

    kind: ClassVar[int] = 52
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    total: Count


PeerMessage: TypeAlias = (
    Hello | Refuse | Reset | Marks | Batch | ExcludingBatch | LaneBatch | HomeBatch | LaneMarks | Ping | Pong
    | TablesSent | SyncDone | TreeMessage
)  # fmt: skip
ClientMessage: TypeAlias = (
    Attach | Attached | ClientSubscribe | ClientUnsubscribe | ClientAdvertise | ClientUnadvertise | Done
    | Publish | ExtendedPublish | Deliver | Names | Detach | GoAway | Dropped | Partial
)  # fmt: skip
Message: TypeAlias = (
    PeerMessage | ClientMessage | AdministrationMessage | MeshMessage | RelocationMessage | FeedingMessage
    | StreamMessage | ChordMessage | ReconfigurationMessage | PlacementMessage | OneHopMessage
    | ChannelMessage | HandoverMessage | KeepMessage
)  # fmt: skip

MESSAGES: tuple[type[Message], ...] = (
    Hello, Refuse, Reset, Marks, Batch, ExcludingBatch, LaneBatch, HomeBatch, LaneMarks, Ping, Pong,
    TablesSent, SyncDone, *TREE,
    Attach, Attached, ClientSubscribe, ClientUnsubscribe, ClientAdvertise, ClientUnadvertise, Done, Publish,
    ExtendedPublish, Deliver, Names, Detach, GoAway, Dropped, Partial,
    *ADMINISTRATION, *MESH, *RELOCATION, *FEEDING, *STREAM_MESSAGES, *CHORD, *RECONFIGURATION, *PLACEMENT,
    *ONEHOP, *CHANNELS, *HANDOVER, *KEEPING,
)  # fmt: skip
KINDS: dict[int, type[Message]] = {cls.kind: cls for cls in MESSAGES}
