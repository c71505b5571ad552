"""A side was lost: what was on its way to it from before? Kinds 34-36; `messages` lists them too."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from grapevine.wire.fields import Count, Id
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import ACCEPTED


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
