"""A side was lost: what was on its way to it from before, and who cannot be reached now? Kinds 34-37;
`messages` lists them too."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from grapevine.wire.fields import Count, Id, Name, Seconds
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import ACCEPTED, MISSING


class Drain(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A side was lost: say at once how far publishers behind you have come (Accepted), and when all of that
    is settled or cut (Drained)."""

    kind: ClassVar[int] = 34
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count


class Drained(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 35
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count


class AcceptedUpTo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    publisher: Id
    incarnation: Id
    sequence: Count


class Accepted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 36
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    stamp: Count
    publishers: Annotated[tuple[AcceptedUpTo, ...], msgspec.Meta(max_length=ACCEPTED)] = ()
    complete: bool = False  # whoever is not listed had published nothing: nobody behind is away


class MissingBroker(msgspec.Struct, frozen=True, array_like=True, gc=False):
    broker: Id
    name: Name
    age_s: Seconds  # since it was given up


class Missing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Flooded: whom `origin` misses. Of its lists the one with the highest number counts; who is named says
    its own again."""

    kind: ClassVar[int] = 37
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    origin: Id
    incarnation: Count
    number: Count
    age_s: Seconds  # since it said so
    brokers: Annotated[tuple[MissingBroker, ...], msgspec.Meta(max_length=MISSING)] = ()
