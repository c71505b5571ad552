"""Administration, kinds 25-28 and 60-69: questions to all brokers (census), along a path (trace), and to one
by its administrator; and the kinds that are promised to later parts. `messages` lists them with the others.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from grapevine.wire.fields import (
    Arguments,
    AttributeBytes,
    Body,
    Count,
    Hops,
    Id,
    Ids,
    Name,
    NameList,
    Reports,
    Seconds,
    Text,
)
from grapevine.wire.gates import ANY, ASKING, BROKER, REMOTE, Carrier, Gate


class CensusRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 25
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER | Carrier.BESIDE, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    question: Name  # which reports: a behaviour's name, or "" for the short one
    argument: Body = b""
    deadline_s: Seconds = 5.0
    end: Id = 0  # on a ring: the receiver asks those before this position


class CensusAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 26
    gate: ClassVar[Gate] = Gate(1, Carrier.PEER | Carrier.BESIDE, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    reports: Reports  # one JSON object per broker
    missing: NameList = ()  # neighbours that did not answer
    cut_off: NameList = ()  # brokers known to be behind these


class TraceRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where would a publication with these attributes go from you? Sent along the path it would take."""

    kind: ClassVar[int] = 27
    gate: ClassVar[Gate] = Gate(1, REMOTE, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    attributes: AttributeBytes
    hops: Hops
    deadline_s: Seconds = 5.0
    excluded: Ids = ()  # brokers that this copy does not serve


class TraceAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 28
    gate: ClassVar[Gate] = Gate(1, REMOTE, BROKER)
    origin: Id
    incarnation: Id
    number: Count
    reports: Reports  # one JSON object per broker on the path
    missing: NameList = ()


class Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 60
    gate: ClassVar[Gate] = Gate(1, ANY | Carrier.GREETING, ASKING)
    request: Count
    verb: Name
    arguments: Arguments


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 61
    gate: ClassVar[Gate] = Gate(1, Carrier.ADMIN, BROKER)
    request: Count
    outcome: Name  # "ok", "partial", "usage", "not-allowed", "not-found", "failed"
    body: Body  # JSON
    text: Text = ""


AdministrationMessage: TypeAlias = (
    CensusRequest | CensusAnswer | TraceRequest | TraceAnswer | Command | Answer
)
ADMINISTRATION: tuple[type[AdministrationMessage], ...] = (
    CensusRequest, CensusAnswer, TraceRequest, TraceAnswer, Command, Answer,
)  # fmt: skip

# Kinds promised to later parts, so that no earlier one takes them.
RESERVED: dict[int, str] = {
    53: "ResumeAttach: a second attachment of one session",
}
