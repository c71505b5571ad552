"""Messages that move the brokers of a ring to other positions, kinds 160-179; `messages` lists them.

A plane is one version of the ring. The manager leads all brokers through five steps, each acknowledged by
everybody (docs/adr/0011); whoever hears of a step again answers again. A version is the manager's: its id,
its incarnation, and a number.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.wire.chord import RingNode, RingNodes
from grapevine.wire.fields import Body, Count, Id, Number, Text
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import LIST_ENTRIES


class Version(msgspec.Struct, frozen=True, array_like=True, gc=False):
    manager: Id
    incarnation: Id
    number: Count


class Process(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker between two restarts."""

    broker: Id
    incarnation: Id


Processes: TypeAlias = Annotated[tuple[Process, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class OnPlane(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What brokers say of a plane other than the first: the frame of a message of the ring."""

    kind: ClassVar[int] = 160
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    plane: Number
    frame: Body


class PlaneIs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The ring is this plane; what the receiver has said of another one was not heard."""

    kind: ClassVar[int] = 161
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    plane: Number


class RingPlace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Before the sender's first publication on a link: where it is."""

    kind: ClassVar[int] = 162
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    position: Id


class RcfgInit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Nobody but these comes or goes from now on. Answered with the sender's place."""

    kind: ClassVar[int] = 163
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Version
    plane: Number  # the next one
    participants: Processes


class RcfgOverlay(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The receiver's place in the next plane, and whom it knows there."""

    kind: ClassVar[int] = 164
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Version
    node: RingNode
    predecessor: RingNode
    successors: RingNodes
    fingers: RingNodes


class RcfgPubsub(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everybody has the next plane: say there what is wanted."""

    kind: ClassVar[int] = 165
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Version


class RcfgFinish(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """It is decided: publications enter the next plane from now on."""

    kind: ClassVar[int] = 166
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Version


class RcfgNullify(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Nothing is left in the old plane: it goes."""

    kind: ClassVar[int] = 167
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Version


class RcfgAbort(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """It was not decided and will not be: the next plane goes."""

    kind: ClassVar[int] = 168
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Version


class RcfgDone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender is through with a step, named by its message's kind; a `refusal` says why it is not and
    will not be. With the first step: where it is, and who is before it."""

    kind: ClassVar[int] = 169
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    version: Version
    step: Number
    refusal: Text = ""
    node: RingNode | None = None
    predecessor: RingNode | None = None


ReconfigurationMessage: TypeAlias = (
    OnPlane
    | PlaneIs
    | RingPlace
    | RcfgInit
    | RcfgOverlay
    | RcfgPubsub
    | RcfgFinish
    | RcfgNullify
    | RcfgAbort
    | RcfgDone
)
RECONFIGURATION: tuple[type[ReconfigurationMessage], ...] = ReconfigurationMessage.__args__
STEPS: tuple[type[RcfgInit | RcfgOverlay | RcfgPubsub | RcfgFinish | RcfgNullify], ...] = (
    RcfgInit,
    RcfgOverlay,
    RcfgPubsub,
    RcfgFinish,
    RcfgNullify,
)
