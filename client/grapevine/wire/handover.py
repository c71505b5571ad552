"""A client is handed over to another broker, kinds 70-73; `messages` lists them with the others.

Its broker offers (HandoverOffer). The client attaches to the other broker as well, makes its subscriptions
there, holds what comes from there, and says when all of them are confirmed (HandoverReady). When everything
that was accepted anywhere before is settled, its broker says up to which delivery it must go on here
(HandoverDone); then the client takes what it has held, says so (HandoverEnd) and leaves.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from grapevine.wire.fields import Addresses, Count, Id, Name, Text
from grapevine.wire.gates import BROKER, CLIENT, STREAMING, Carrier, Gate


class HandoverOffer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 70
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    number: Id  # of this handover, never given twice by this broker
    broker: Id
    broker_name: Name
    addresses: Addresses


class HandoverReady(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that the client subscribes is confirmed there. A later round takes the place of the one before: the
    client has subscribed more meanwhile, or the other broker had forgotten it."""

    kind: ClassVar[int] = 71
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, CLIENT)
    number: Id
    round: Count


class HandoverDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was accepted before this round is among the deliveries up to `position` of this session."""

    kind: ClassVar[int] = 72
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    number: Id
    round: Count
    position: Count


class HandoverEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From the client: how it ended. From the broker: it knows of no such handover, so the client stays."""

    kind: ClassVar[int] = 73
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, STREAMING)
    number: Id
    outcome: Name  # a word of HANDOVER_OUTCOMES
    text: Text = ""


MOVED, STAYS = "moved", "stays"
HANDOVER_OUTCOMES = (MOVED, STAYS)

HandoverMessage: TypeAlias = HandoverOffer | HandoverReady | HandoverDone | HandoverEnd
HANDOVER: tuple[type[HandoverMessage], ...] = (HandoverOffer, HandoverReady, HandoverDone, HandoverEnd)
