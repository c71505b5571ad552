"""Messages of a ring of brokers, kinds 120-139; `messages` lists them with the others.

They travel on ring links. A node is a broker in one of its lives on the ring: after a restart, or after it
was cut off and has joined again, it is another one. What is to reach a key or a node that the sender has no
link to is passed on clockwise, with a count of hops.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.wire.fields import Addresses, Count, Hops, Id, Ids, Name
from grapevine.wire.gates import BROKER, Carrier, Gate
from grapevine.wire.limits import LIST_ENTRIES, RING_NODES


class RingNode(msgspec.Struct, frozen=True, array_like=True, gc=False):
    position: Id
    broker: Id
    incarnation: Id  # rises with every life on the ring
    name: Name
    addresses: Addresses


class Member(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of a topic: a node that has subscribers. `number` is that of its last word about it. With streams it is
    `lasting`: it is owed what is published while it is away."""

    position: Id
    broker: Id
    incarnation: Id
    number: Count = 0
    lasting: bool = False


Members: TypeAlias = Annotated[tuple[Member, ...], msgspec.Meta(max_length=RING_NODES)]
RingNodes: TypeAlias = Annotated[tuple[RingNode, ...], msgspec.Meta(max_length=RING_NODES)]


class TopicEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The members of a topic, as its root knows them."""

    topic: Id
    members: Members


TopicEntries: TypeAlias = Annotated[tuple[TopicEntry, ...], msgspec.Meta(max_length=LIST_ENTRIES)]


class Targets(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Whom those publications of a batch are for that stand at `start` and after, before `end`: positions."""

    start: Count
    end: Count
    positions: Ids


class RingAsk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Your state, and your next hop towards `target`."""

    kind: ClassVar[int] = 120
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    target: Id


class RingState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers RingAsk. `hop` is nearer to the target, before it; none: the sender is the last before it.
    Who is no `member` of a ring waits for one."""

    kind: ClassVar[int] = 121
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    node: RingNode
    member: bool
    predecessor: RingNode | None
    successors: RingNodes
    hop: RingNode | None


class RingNotify(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The receiver is the sender's first successor."""

    kind: ClassVar[int] = 122
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    node: RingNode


class RingForm(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """These, who all wait for a ring, are one from now on."""

    kind: ClassVar[int] = 123
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    nodes: RingNodes


class RingLeave(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender has handed everything on and goes: its neighbours are each other's."""

    kind: ClassVar[int] = 124
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    node: RingNode
    predecessor: RingNode | None
    successors: RingNodes


class RingLookup(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Towards the key: whose is it?"""

    kind: ClassVar[int] = 125
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    key: Id
    asker: Id  # position
    hops: Hops


class RingFound(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers RingLookup, towards the asker."""

    kind: ClassVar[int] = 126
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    asker: Id
    node: RingNode
    hops: Hops


class TopicWant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Towards the roots: the member wants these topics, and no longer those that it has `left`. Repeated
    until it is answered, and once in a while."""

    kind: ClassVar[int] = 127
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    member: Member
    topics: Ids
    left: Ids
    hops: Hops


class TopicKnown(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From a root towards the member: it is known, also to those who would take the root's place. `gone`:
    it was taken for dead and must say again what it wants of these."""

    kind: ClassVar[int] = 128
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    member: Member
    topics: Ids
    gone: bool
    hops: Hops


class RootCopy(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From a root to its successors: what it knows of the topics from `begin` (not included) to its own
    position. `first`: what was copied before is void; an entry without members ends the topic. `given`: the
    topics up to this node's position are on their way to it."""

    kind: ClassVar[int] = 129
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    node: RingNode
    begin: Id
    first: bool
    last: bool
    entries: TopicEntries
    given: RingNode | None = None


class RootCopied(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`number` 0: who has a copy wants to leave, and goes when it is told that it has none any more."""

    kind: ClassVar[int] = 130
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count


class ArcAsk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """From a broker to its successor: which topics am I the root of? Who knows says so: `rooted`.
    `orphan`: the first successor does not know either; asked of those behind it, who may have a copy."""

    kind: ClassVar[int] = 131
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    node: RingNode
    rooted: bool
    orphan: bool = False


class ArcGive(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The receiver is the root of the topics from `begin` (not included) to `end`: its own position, or that
    of the sender, who leaves; with the last part it counts. `given`: in its last life the receiver was giving
    those up to this node's position to it."""

    kind: ClassVar[int] = 132
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count
    begin: Id
    end: Id
    first: bool
    last: bool
    entries: TopicEntries
    given: RingNode | None = None


class ArcTaken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 133
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    number: Count


class MemberGone(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Towards the roots: this node is no longer on the ring, publications for it were cut. Without topics, to
    the node itself: it was given up, and another is the root in its place."""

    kind: ClassVar[int] = 134
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    position: Id
    incarnation: Id  # the last one known; 0: none was
    topics: Ids
    hops: Hops


class PublisherIs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Before the first publication of a publisher on a link."""

    kind: ClassVar[int] = 135
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    publisher: Id
    name: Name
    home_name: Name


class RingIdle(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender does not need this link: 0 does the receiver? 1 nor do I, it is closed; 2 I do."""

    kind: ClassVar[int] = 136
    gate: ClassVar[Gate] = Gate(3, Carrier.PEER, BROKER)
    word: Annotated[int, msgspec.Meta(ge=0, le=2)]


ChordMessage: TypeAlias = (
    RingAsk
    | RingState
    | RingNotify
    | RingForm
    | RingLeave
    | RingLookup
    | RingFound
    | TopicWant
    | TopicKnown
    | RootCopy
    | RootCopied
    | ArcAsk
    | ArcGive
    | ArcTaken
    | MemberGone
    | PublisherIs
    | RingIdle
)
CHORD: tuple[type[ChordMessage], ...] = ChordMessage.__args__
