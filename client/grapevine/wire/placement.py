"""Messages of brokers among which users are placed, kinds 170-179; `messages` lists them with the others.

Each broker of a cluster tells the others which topics its subscribers want, as a difference with a version;
who has missed one asks, and is told everything.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from grapevine.wire.fields import Count, Id, Ids
from grapevine.wire.gates import BROKER, Carrier, Gate


class ClusterTopics(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """For who has version `since`; 0: forget what was said before. Many topics take several messages, of
    which all but the first are since the version itself."""

    kind: ClassVar[int] = 170
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    since: Count
    version: Count
    added: Ids
    gone: Ids
    load: Count  # the sum over subscriptions of how many topics they name
    tally: tuple[Count, Count, Count, Count]  # overlay/chord/placement.py


class ClusterAsk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the sender has of the receiver; answered if there is more."""

    kind: ClassVar[int] = 171
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Count


class ClusterMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client is about to be handed over to the receiver, or (`done`) that has ended, well or not."""

    kind: ClassVar[int] = 172
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    client: Id
    done: bool


PlacementMessage: TypeAlias = ClusterTopics | ClusterAsk | ClusterMove
PLACEMENT: tuple[type[PlacementMessage], ...] = (ClusterTopics, ClusterAsk, ClusterMove)
