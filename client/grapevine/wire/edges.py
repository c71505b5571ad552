"""Who is whose parent, and who may become it: kinds 29-31; `messages` lists them too."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from grapevine.wire.fields import Addresses, Count, Id, Name
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import EDGES


class Edge(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker and its parent, 0: it has none. Of its edges the one with the highest number of its latest
    incarnation counts, and of two words of the same edge the one that says more."""

    broker: Id
    name: Name
    incarnation: Count
    number: Count  # only the broker itself raises it
    parent: Id
    addresses: Addresses
    synced: bool = False  # tables have been exchanged with this parent
    gone: bool = False  # it has left


class Edges(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Flooded, and told whole to a neighbour that comes, before any table."""

    kind: ClassVar[int] = 29
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    edges: Annotated[tuple[Edge, ...], msgspec.Meta(max_length=EDGES)]


class JoinAsk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """May this broker, with all that is below it, become a child of `target`? Climbs to the root, which
    lets one edge change at a time."""

    kind: ClassVar[int] = 30
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    target: Id
    number: Count  # of the target's questions
    asker: Id
    incarnation: Count  # the asker's
    edge: Count  # the number of its edge


class JoinAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """To the target, by the way that the question came."""

    kind: ClassVar[int] = 31
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    target: Id
    number: Count
    granted: bool
