"""Messages of soft links, kinds 80-99; `messages` lists them with the others.

They travel on primary links, but for SoftReady. An operation is named by (origin, incarnation, number): the
broker that began it, in which of its lives, and its own count there.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.wire.fields import Addresses, Count, Id, Name, Seconds
from grapevine.wire.limits import NEARBY_BROKERS


class Nearby(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker of the sender's side; `via` is the one before it as the sender sees it, 0 for itself."""

    broker: Id
    name: Name
    addresses: Addresses
    via: Id = 0


class Load(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How busy a broker is and how far it is from the broker before it, as the sender sees it."""

    broker: Id
    rate: Seconds  # publications a second that it sends to brokers
    capacity: Seconds = 0.0  # what it could send; 0: not known
    round_trip_s: Seconds = 0.0


Branch: TypeAlias = Annotated[tuple[Nearby, ...], msgspec.Meta(min_length=1, max_length=NEARBY_BROKERS)]
LoadList: TypeAlias = Annotated[tuple[Load, ...], msgspec.Meta(max_length=NEARBY_BROKERS)]


class Neighbourhood(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender and what is behind it, Delta - 1 hops deep, nearest first. Sent again when it changes."""

    kind: ClassVar[int] = 80
    branch: Branch


class Loads(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of the sender and of those behind it. `asks` wants the receiver's in return."""

    kind: ClassVar[int] = 81
    asks: bool
    loads: LoadList


class SoftReady(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On a soft link, from the broker that was dialled: it takes publications."""

    kind: ClassVar[int] = 82


class BypassBan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Drop every link that passes or ends at `broker`, make no new one, and answer when they are gone; tell
    those behind you up to `hops` more hops."""

    kind: ClassVar[int] = 83
    origin: Id
    incarnation: Id
    number: Count
    broker: Id
    hops: Count


class BypassGone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers BypassBan: neither the sender nor anybody behind it passes the broker any more."""

    kind: ClassVar[int] = 84
    origin: Id
    incarnation: Id
    number: Count


class BypassAllowed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The ban has ended."""

    kind: ClassVar[int] = 85
    origin: Id
    incarnation: Id
    number: Count
    hops: Count


MeshMessage: TypeAlias = Neighbourhood | Loads | SoftReady | BypassBan | BypassGone | BypassAllowed
MESH: tuple[type[MeshMessage], ...] = (
    Neighbourhood, Loads, SoftReady, BypassBan, BypassGone, BypassAllowed,
)  # fmt: skip
