"""What brokers of a tree say to each other: who leaves, 10-12, 16; what is advertised, subscribed, 20-39."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter
from grapevine.wire.draining import Accepted, Drain, Drained, Missing
from grapevine.wire.edges import Edges, JoinAnswer, JoinAsk
from grapevine.wire.fields import Addresses, Count, Id, Ids, Name, Path
from grapevine.wire.gates import BROKER, Carrier, Gate


class Leaving(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Hold publications for me. After LeaveDone, `heirs` dial `successor`. A leaver without a parent tells
    the successor, in place of its own addresses, where it looked for one."""

    kind: ClassVar[int] = 10
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    successor: Id
    successor_name: Name
    successor_addresses: Addresses
    heirs: Ids


class LeaveHeld(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From here on nothing is sent to the leaver."""

    kind: ClassVar[int] = 11
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)


class LeaveDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Nothing unsettled is left at the leaver."""

    kind: ClassVar[int] = 12
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)


class LeaveDelayed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Send to the leaver again: it asks once more later."""

    kind: ClassVar[int] = 16
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)


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
    stand_in: bool = False  # it publishes what a publisher left behind, and keeps nobody's name taken


class Subscription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    origin: Id
    serial: Count
    home: Id  # the subscriber's first broker
    path: Path  # the last Delta brokers, farthest first, the sender last: path[0] is the anchor
    filter: Filter


class Advertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 20
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    stamp: Count  # numbers announcements on this link; Confirmed answers it
    advertisement: Advertisement


class Unadvertise(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 21
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    serial: Count


class Subscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 22
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    stamp: Count
    subscription: Subscription


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 23
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    origin: Id
    serial: Count


class Confirmed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every broker that must know the announcement `stamp` knows it."""

    kind: ClassVar[int] = 24
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER, BROKER)
    stamp: Count


TreeMessage: TypeAlias = (
    Leaving | LeaveHeld | LeaveDone | LeaveDelayed | Advertise | Unadvertise | Subscribe | Unsubscribe
    | Confirmed | Drain | Accepted | Drained | Missing | Edges | JoinAsk | JoinAnswer
)  # fmt: skip

TREE: tuple[type[TreeMessage], ...] = (
    Leaving, LeaveHeld, LeaveDone, LeaveDelayed, Advertise, Unadvertise, Subscribe, Unsubscribe,
    Confirmed, Drain, Accepted, Drained, Missing, Edges, JoinAsk, JoinAnswer,
)  # fmt: skip
