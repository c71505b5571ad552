"""A second copy of what a broker has in custody, at its keeper: its parent, or of a root its lowest
neighbour. Kinds 17-19; `messages` lists them too.

The owner gives copies in *rounds*, numbered so that they rise for ever: what it has in custody first, then
what comes. A round is complete when all of the custody is kept; the newest complete one says which keeper
has everything.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter
from grapevine.wire.fields import Body, Count, Id, Name, Text
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import KEPT_PUBLISHERS

KEEP_ASK, KEEP_FREE, KEEP_DROP, KEEP_FETCH = 1, 2, 3, 4


class KeptPublisher(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """As a stand-in must appear that publishes what is kept."""

    publisher: Id
    incarnation: Id
    name: Name
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=KEPT_PUBLISHERS)]
    may_publish: Filter
    key: Text = ""


class KeptUpTo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    publisher: Id
    incarnation: Id
    sequence: Count
    done: bool = True  # of what was taken over: nothing of it is under way any more


Publishers: TypeAlias = Annotated[tuple[KeptPublisher, ...], msgspec.Meta(max_length=KEPT_PUBLISHERS)]
Numbers: TypeAlias = Annotated[tuple[KeptUpTo, ...], msgspec.Meta(max_length=KEPT_PUBLISHERS)]


class Keep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Keep these publications, encoded as in Batch: all of the owner's custody up to `position` of its
    journal. `returned`: the keeper gives back what it was asked for, in its own positions."""

    kind: ClassVar[int] = 17
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    round: Count
    position: Count
    publications: Body
    publishers: Publishers = ()  # of which it has not told in this round, or not so
    complete: bool = False
    returned: bool = False


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All up to this position of this round is on the keeper's disk; `room`: else it takes no more. With
    `answers`: how much it has of the owner, and which is its newest complete round."""

    kind: ClassVar[int] = 18
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    round: Count
    position: Count = 0
    complete: bool = False
    room: bool = True
    answers: bool = False
    items: Count = 0


class KeepOrder(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """ASK: what is kept of me? FREE: up to these numbers it is settled; `only`: and everything of others.
    DROP: all of it. FETCH: give back what is kept behind this position."""

    kind: ClassVar[int] = 19
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    order: Count
    position: Count = 0
    settled: Numbers = ()
    only: bool = False


KeepMessage: TypeAlias = Keep | Kept | KeepOrder
KEEPING: tuple[type[KeepMessage], ...] = (Keep, Kept, KeepOrder)
