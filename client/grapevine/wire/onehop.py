"""Messages of the one-hop overlay (BlueDove), kinds 140-159; `messages` lists them with the others.

An entry is written by its owner alone; of two entries of one owner the higher (incarnation, version) counts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter, Value
from grapevine.wire.fields import Addresses, AttributeBytes, Count, Id, Name, Number, NumberLists, Seconds
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import BATCH_PUBLICATIONS, LIST_ENTRIES

DIMENSIONS_MAX = 8
MEMBERS_MAX = 4_096
SAMPLE_MAX = 64
SEGMENTS_MAX = 8  # of one owner and dimension: two while it takes or hands over, more after neighbours died


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A half-open segment of a dimension's values; None is open, below or above."""

    low: Value | None = None
    high: Value | None = None


Spans: TypeAlias = Annotated[tuple[Span, ...], msgspec.Meta(max_length=SEGMENTS_MAX)]
Segments: TypeAlias = Annotated[tuple[Spans, ...], msgspec.Meta(max_length=DIMENSIONS_MAX)]
Point: TypeAlias = Annotated[
    tuple[Value | None, ...], msgspec.Meta(max_length=DIMENSIONS_MAX)
]  # None: absent

JOINING, SERVING, LEAVING, DEAD, LEFT = range(5)  # dead: by others' verdict; left: by its own word
DISPATCHER, MATCHER = 1, 2


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one member says of itself: its roles, a matcher's segments of every dimension, where it is."""

    owner: Id
    incarnation: Id
    version: Count
    segments: Segments
    name: Name
    addresses: Addresses
    roles: Annotated[int, msgspec.Meta(ge=0, le=3)] = MATCHER
    state: Annotated[int, msgspec.Meta(ge=0, le=LEFT)] = SERVING


class Version(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a digest says of one owner."""

    owner: Id
    incarnation: Id
    version: Count
    dead: bool = False


class DimensionLoad(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of one set: the paper's q, lambda and mu, its size, and the mean time that one publication takes."""

    waiting: Count
    arrivals: Seconds  # a second
    mu: Seconds  # a second
    size: Count
    cost_s: Seconds

    def numbers(self) -> tuple[float, ...]:
        return self.waiting, self.arrivals, self.mu, self.size, self.cost_s


class LoadReport(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A matcher's load, in every answer and pushed when it has moved."""

    kind: ClassVar[int] = 150
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    dimensions: Annotated[tuple[DimensionLoad, ...], msgspec.Meta(max_length=DIMENSIONS_MAX)]
    backlog_s: Seconds  # of work that waits
    busy: Seconds  # share of the last window


class Member(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """First on a link between two members: the sender's own entry. Sent again when it changes; a dispatcher
    that says `serving` waits for the answer with its stamp, after which its clients count."""

    kind: ClassVar[int] = 140
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count
    entry: Entry
    answer: bool = False


class Digest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the sender knows; `asks` wants the same in return if the receiver lacks something."""

    kind: ClassVar[int] = 141
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    versions: Annotated[tuple[Version, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
    asks: bool = True


class Entries(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 142
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Placement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A copy of a subscription: `serial` names it at its home, `client` is the home's number of the session
    and `label` the client's number of the subscription. A spare one is kept whether or not it meets a segment
    of the matcher."""

    serial: Count
    client: Number
    label: Number
    filter: Filter
    spare: bool = False


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Hold these; in which dimensions the matcher decides. Answered by Placed, unless `stamp` is 0."""

    kind: ClassVar[int] = 143
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count
    placements: Annotated[list[Placement], msgspec.Meta(max_length=LIST_ENTRIES)]


class Placed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 144
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count


class Remove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 145
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    serials: Annotated[tuple[Count, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class Fill(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A matcher's segments and those it is about to take: place here whatever meets them, from now on."""

    kind: ClassVar[int] = 146
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    segments: Segments


class Filled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All of the sender's subscriptions that Fill `number` asks for are placed, under this registration."""

    kind: ClassVar[int] = 147
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    registration: Id


class Ask(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who matches these attributes, by the set of this dimension?"""

    kind: ClassVar[int] = 148
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    dimension: Annotated[int, msgspec.Meta(ge=0, le=DIMENSIONS_MAX - 1)]
    attributes: Annotated[list[AttributeBytes], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]


class Registered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that this home has placed under this registration is in the sets."""

    home: Id
    registration: Id


class HomeMatches(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of one home: at which positions of the question somebody matches, and for each of them the clients:
    u32 little-endian, the client's number, how many labels, the labels, and the next client."""

    home: Id
    incarnation: Id  # of the home: clients of an earlier one are gone
    positions: Annotated[list[Number], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]
    clients: NumberLists


class Matched(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer, and for whom it is complete. Refused positions are not the sender's."""

    kind: ClassVar[int] = 149
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    registered: Annotated[tuple[Registered, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
    matches: Annotated[tuple[HomeMatches, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
    refused: Annotated[list[Number], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]
    load: LoadReport


class Split(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A newcomer asks for a part of the receiver's segment."""

    kind: ClassVar[int] = 151
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    dimension: Annotated[int, msgspec.Meta(ge=0, le=DIMENSIONS_MAX - 1)]


class Offer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Take this part; without a span there is nothing to give. `number` is the giver's own count."""

    kind: ClassVar[int] = 152
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    dimension: Annotated[int, msgspec.Meta(ge=0, le=DIMENSIONS_MAX - 1)]
    span: Span | None


class Taken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The part of this offer is the sender's and complete; or it does not take it."""

    kind: ClassVar[int] = 153
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    dimension: Annotated[int, msgspec.Meta(ge=0, le=DIMENSIONS_MAX - 1)]
    span: Span
    taken: bool = True


class Avoid(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender's subscriptions are at this matcher only under a registration from `least` on."""

    kind: ClassVar[int] = 154
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count
    matcher: Id
    least: Id


class Avoided(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 155
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count


class AliveProbe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Is this member alive? Asked of others by who does not hear from it."""

    kind: ClassVar[int] = 156
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    member: Id


class AliveAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 157
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    member: Id
    alive: bool


class PublisherNews(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A publisher at the sender; or that it is gone. A stand-in sends what the publisher had left there, and
    takes nobody's name."""

    kind: ClassVar[int] = 159
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    publisher: Id
    incarnation: Id
    name: Name
    gone: bool = False
    stand_in: bool = False


class Needs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Whose subscriptions, under which registrations, the receiver must have to forward what the sender
    gives it from now on (`delivery = "matcher"`)."""

    kind: ClassVar[int] = 240
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    registered: Annotated[tuple[Registered, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Forwarded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """These publications were forwarded to the homes, those at the refused positions not."""

    kind: ClassVar[int] = 241
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    numbers: Annotated[list[Number], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]
    refused: Annotated[list[Number], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]
    load: LoadReport


class PublicationSample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An even sample of what was published at the sender since its last one: values of the dimensions."""

    kind: ClassVar[int] = 242
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    published: Count
    points: Annotated[list[Point], msgspec.Meta(max_length=SAMPLE_MAX)]


OneHopMessage: TypeAlias = (
    Member | Digest | Entries | Place | Placed | Remove | Fill | Filled | Ask | Matched | LoadReport | Split
    | Offer | Taken | Avoid | Avoided | AliveProbe | AliveAnswer | PublisherNews | Needs | Forwarded
    | PublicationSample
)  # fmt: skip
ONEHOP: tuple[type[OneHopMessage], ...] = (
    Member, Digest, Entries, Place, Placed, Remove, Fill, Filled, Ask, Matched, LoadReport, Split, Offer,
    Taken, Avoid, Avoided, AliveProbe, AliveAnswer, PublisherNews, Needs, Forwarded, PublicationSample,
)  # fmt: skip
