"""Messages of publisher relocation, kinds 100-119; `messages` lists them with the others.

POP and GRAPE trace publications and ask for what was traced; a migration moves a publisher's attachment
and all its advertisements from a source broker to a target along the path between them. An operation is
named by (origin, incarnation, number): the broker that began it, in which of its lives, and a number.
"""

from __future__ import annotations

from struct import Struct
from typing import Annotated, ClassVar, NamedTuple, TypeAlias

import msgspec

from grapevine.wire.fields import Addresses, AttributeBytes, Count, Id, Name, NameList, Number, Seconds
from grapevine.wire.gates import BROKER, CLIENT, PUBLISHER, Carrier, Gate
from grapevine.wire.limits import LIST_ENTRIES, ROOT_PATH_BROKERS

TRACE = 1  # type of the extension record of a traced publication
_TRACE = Struct(">QQQHB")


class SessionId(NamedTuple):
    origin: int
    incarnation: int
    number: int


def encode_trace(id: SessionId, index: int, single: bool) -> bytes:
    """`single`: one traced publication (POP), else the publication of this index in a session (GRAPE)."""
    return _TRACE.pack(*id, index, single)


def decode_trace(value: bytes) -> tuple[SessionId, int, bool] | None:
    if len(value) != _TRACE.size:
        return None
    origin, incarnation, number, index, single = _TRACE.unpack(value)
    return SessionId(origin, incarnation, number), index, bool(single)


Way: TypeAlias = Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=ROOT_PATH_BROKERS * 2)]
Ways: TypeAlias = Annotated[tuple[Way, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class NeighbourDelay(msgspec.Struct, frozen=True, array_like=True, gc=False):
    broker: Id
    output_delay_s: Seconds
    round_trip_s: Seconds


NeighbourDelays: TypeAlias = Annotated[tuple[NeighbourDelay, ...], msgspec.Meta(max_length=LIST_ENTRIES)]
Bits: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=8192)]


class BrokerTrace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one broker noted of a session, and how long things take there."""

    broker: Id
    name: Name
    addresses: Addresses
    neighbours: NeighbourDelays
    bits: Bits
    deliveries: Count
    input_delay_s: Seconds
    matching_delay_s: Seconds
    client_delay_s: Seconds


BrokerTraces: TypeAlias = Annotated[tuple[BrokerTrace, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class MovedAdvertisement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An advertisement by its client's number and by its key in the tree."""

    number: Number
    origin: Id
    serial: Count


Moved: TypeAlias = Annotated[tuple[MovedAdvertisement, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class TraceResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """POP's TRM: so many subscribers at and behind the sender got the traced publication. `complete` is
    false when somebody there did not answer."""

    kind: ClassVar[int] = 100
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    subscribers: Count
    complete: bool


class RelocationRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """POP's RRM: is there a closer broker behind you? `subscribers` are all those not behind you."""

    kind: ClassVar[int] = 101
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    publisher: Id
    publisher_incarnation: Id
    subscribers: Seconds
    path: Way  # from the source, the sender last


class RelocationAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """POP's RAM: the last broker of `path` is the closest. Goes back along the path."""

    kind: ClassVar[int] = 102
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    publisher: Id
    publisher_incarnation: Id
    path: Way
    name: Name
    addresses: Addresses


class TraceInformationRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """GRAPE's TIR: what did you and those behind you note of this session? `direct` are primary paths, the
    first broker of each a neighbour of the receiver, to brokers that soft links past it served; `served` is
    whether it got any of the session itself."""

    kind: ClassVar[int] = 103
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    publisher: Id
    publisher_incarnation: Id
    deadline_s: Seconds
    served: bool = True
    direct: Ways = ()


class TraceInformationAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """GRAPE's TIA."""

    kind: ClassVar[int] = 104
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    traces: BrokerTraces
    missing: NameList = ()


class Relocate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """To a client: publish at another broker. `path` leads there from the source."""

    kind: ClassVar[int] = 105
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    name: Name
    addresses: Addresses
    path: Way
    advertisements: Moved
    moves: Count  # how often they have been moved, this time included


class Paused(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the client to the source: nothing is published here after position `sent`."""

    kind: ClassVar[int] = 106
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    origin: Id
    incarnation: Id
    number: Count
    sent: Count


class Migrate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the client to the target, the migration advertisement: take these over."""

    kind: ClassVar[int] = 107
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    origin: Id
    incarnation: Id
    number: Count
    path: Way
    advertisements: Moved
    moves: Count  # how often they have been moved, this time included


class MigrationUpdate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """MUM, from the target along the path to the source: the publisher's advertisements come from here."""

    kind: ClassVar[int] = 108
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    publisher: Id
    publisher_incarnation: Id
    name: Name  # of the target
    path: Way
    advertisements: Moved
    moves: Count  # how often they have been moved, this time included


class MigrationComplete(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """MCM, from the source along the path to the target: everything published before is settled, up to
    sequence number `accepted`; 0 if the source does not know."""

    kind: ClassVar[int] = 109
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    publisher: Id
    publisher_incarnation: Id
    accepted: Count


class Relocated(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the target to the client: resume here, after `accepted`; or why not."""

    kind: ClassVar[int] = 110
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    outcome: Name  # "moved"; "refused", nothing has been touched; or "void"
    accepted: Count = 0


class RelocateEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the client to source and target: "moved", "declined" before anything happened, or "aborted": its
    advertisements are void and will be made anew at the source."""

    kind: ClassVar[int] = 111
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, CLIENT)
    origin: Id
    incarnation: Id
    number: Count
    outcome: Name


class BrokerAddress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    broker: Id
    addresses: Addresses


BrokerAddresses: TypeAlias = Annotated[tuple[BrokerAddress, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class RoundTripsRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """To a client: how far are these brokers from you?"""

    kind: ClassVar[int] = 112
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    number: Count
    brokers: BrokerAddresses


class RoundTrip(msgspec.Struct, frozen=True, array_like=True, gc=False):
    broker: Id
    round_trip_s: Seconds


RoundTrips: TypeAlias = Annotated[tuple[RoundTrip, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class RoundTripsAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 113
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, CLIENT)
    number: Count
    round_trips: RoundTrips


class Probe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """POP's, over a primary link: a traced publication with these attributes passed you by a soft link, or
    came to you without all that is behind you. How many subscribers at and behind you get it?"""

    kind: ClassVar[int] = 114
    gate: ClassVar[Gate] = Gate(2, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    publisher: Id
    publisher_incarnation: Id
    attributes: AttributeBytes


RelocationMessage: TypeAlias = (
    TraceResult | RelocationRequest | RelocationAnswer | TraceInformationRequest | TraceInformationAnswer
    | Relocate | Paused | Migrate | MigrationUpdate | MigrationComplete | Relocated | RelocateEnd
    | RoundTripsRequest | RoundTripsAnswer | Probe
)  # fmt: skip
RELOCATION: tuple[type[RelocationMessage], ...] = (
    TraceResult, RelocationRequest, RelocationAnswer, TraceInformationRequest, TraceInformationAnswer,
    Relocate, Paused, Migrate, MigrationUpdate, MigrationComplete, Relocated, RelocateEnd,
    RoundTripsRequest, RoundTripsAnswer, Probe,
)  # fmt: skip
