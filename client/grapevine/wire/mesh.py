"""Messages of soft links, kinds 80-99; `messages` lists them with the others.

They travel on primary links, but for SoftReady. An operation is named by (origin, incarnation, number): the
broker that began it, in which of its lives, and its own count there.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.wire.fields import Addresses, Count, Id, Name, Seconds, Text
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import BATCH_PUBLICATIONS, NEARBY_BROKERS, PATH_BROKERS


class Nearby(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker of the sender's side; `via` is the one before it as the sender sees it, 0 for itself."""

    broker: Id
    name: Name
    addresses: Addresses
    via: Id = 0


class Exclusion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The exclude list of those publications of a batch that stand at `start` and after, before `end`."""

    start: Count
    end: Count
    names: Annotated[tuple[Id, ...], msgspec.Meta(max_length=NEARBY_BROKERS)]


Exclusions: TypeAlias = Annotated[list[Exclusion], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]


class Load(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How busy a broker is and how far it is from the broker before it, as the sender sees it."""

    broker: Id
    rate: Seconds  # publications a second that it sends to brokers
    capacity: Seconds = 0.0  # what it could send; 0: not known
    round_trip_s: Seconds = 0.0


Branch: TypeAlias = Annotated[tuple[Nearby, ...], msgspec.Meta(min_length=1, max_length=NEARBY_BROKERS)]
MovePath: TypeAlias = Annotated[tuple[Id, ...], msgspec.Meta(min_length=3, max_length=PATH_BROKERS + 1)]
LoadList: TypeAlias = Annotated[tuple[Load, ...], msgspec.Meta(max_length=NEARBY_BROKERS)]


class Neighbourhood(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender and what is behind it, Delta - 1 hops deep, nearest first. Sent again when it changes."""

    kind: ClassVar[int] = 80
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    branch: Branch


class Loads(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of the sender and of those behind it. `asks` wants the receiver's in return."""

    kind: ClassVar[int] = 81
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    asks: bool
    loads: LoadList


class SoftReady(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On a soft link, from the broker that was dialled: it takes publications."""

    kind: ClassVar[int] = 82
    gate: ClassVar[Gate] = Gate(1, Carrier.SOFT, BROKER)


class BypassBan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Drop every link that passes or ends at `broker`, make no new one, and answer when they are gone; tell
    those behind you up to `hops` more hops."""

    kind: ClassVar[int] = 83
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    broker: Id
    hops: Count


class BypassGone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers BypassBan: neither the sender nor anybody behind it passes the broker any more. `complete`:
    everybody within reach has said so, nobody was silent."""

    kind: ClassVar[int] = 84
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    complete: bool = True


class BypassAllowed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The ban has ended."""

    kind: ClassVar[int] = 85
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    hops: Count


# A Delta-move. Its (origin, incarnation, number) is the epoch that the coordinator gave with its permission.
# `path` is the mover, then the primary path from its old neighbour to its new one.


class MoveInit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the mover along its path: keep everybody off yourself, pass this on, and answer."""

    kind: ClassVar[int] = 86
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    path: MovePath


class MoveReady(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers MoveInit for the sender and all after it on the path; a `refusal` says why not."""

    kind: ClassVar[int] = 87
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    refusal: Text = ""


class MoveAbort(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Along the path: the mover stays where it is."""

    kind: ClassVar[int] = 88
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count


class MoveTurn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the mover over its new link, then back along the path: the mover has moved. What it and those
    behind it announce comes from this side from now on, in the new plane."""

    kind: ClassVar[int] = 89
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    path: MovePath


class MoveAnnounced(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """After MoveTurn: everything that lies behind the mover has been announced on this link."""

    kind: ClassVar[int] = 90
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count


class MoveSwitched(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Along the path towards the mover's new link: nothing of the sender or of those after it is left in the
    old plane."""

    kind: ClassVar[int] = 91
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count


class MoveEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the mover: the old plane is empty, drop it."""

    kind: ClassVar[int] = 92
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count


class MoveBroken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker of the path has lost what it held of the old plane: send again, in the new one, what you sent
    there and is not settled."""

    kind: ClassVar[int] = 93
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Id
    number: Count


MoveMessage: TypeAlias = (
    MoveInit | MoveReady | MoveAbort | MoveTurn | MoveAnnounced | MoveSwitched | MoveEnd | MoveBroken
)
MOVE: tuple[type[MoveMessage], ...] = (
    MoveInit, MoveReady, MoveAbort, MoveTurn, MoveAnnounced, MoveSwitched, MoveEnd, MoveBroken,
)  # fmt: skip
MeshMessage: TypeAlias = (
    MoveMessage | Neighbourhood | Loads | SoftReady | BypassBan | BypassGone | BypassAllowed
)
MESH: tuple[type[MeshMessage], ...] = (
    Neighbourhood, Loads, SoftReady, BypassBan, BypassGone, BypassAllowed, *MOVE,
)  # fmt: skip
