"""Messages of streams, kinds 54-59; `messages` lists them with the others.

A stream is a filter whose matches a broker keeps in its journal, with dense offsets from 1. A reader of it
has a *cursor*: how far it has acknowledged. A reader asks (Fetch) and is given (Fetched); what is not
acknowledged in time is given again. Without a cursor a range is read, as often as anybody likes. A *group* is
a cursor that several clients read together.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter
from grapevine.wire.fields import Addresses, Body, Count, Name, Seconds, Text
from grapevine.wire.gates import BROKER, SUBSCRIBER, Carrier, Gate
from grapevine.wire.limits import BATCH_PUBLICATIONS

Offsets: TypeAlias = Annotated[tuple[Count, ...], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]
Delays: TypeAlias = Annotated[tuple[Seconds, ...], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]


class Fetch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Give me up to `most`, now or within `wait_s`: by a cursor, or, without one, from offset `first` on.
    `last`: of a stream that keeps one per key, and what is newest of each key only."""

    kind: ClassVar[int] = 54
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, SUBSCRIBER)
    request: Count
    stream: Name
    cursor: Name
    first: Count = 0
    most: Count = 1_000
    wait_s: Seconds = 30.0
    last: bool = False


class StreamGap(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Offsets that cannot be given, and why: "expired"; "rotten" just now, or "lost" to a disk
    before, damaged or full."""

    first: Count
    last: Count
    reason: Name


Gaps: TypeAlias = Annotated[tuple[StreamGap, ...], msgspec.Meta(max_length=BATCH_PUBLICATIONS)]


class Fetched(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The publications as in Publish, encoded, with the offset of each; `again` are those given before."""

    kind: ClassVar[int] = 55
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    request: Count
    publications: Body
    offsets: Offsets
    gaps: Gaps = ()
    again: Offsets = ()
    end: Count = 0  # the offset after the last in the stream
    outcome: Name = "ok"  # or "gone", "taken", "not-allowed"


class Acknowledge(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All up to `up_to`, and these one by one; `refused` are to come again after their delay, `working` take
    longer."""

    kind: ClassVar[int] = 56
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, SUBSCRIBER)
    stream: Name
    cursor: Name
    up_to: Count = 0
    offsets: Offsets = ()
    refused: Offsets = ()
    delays_s: Delays = ()
    working: Offsets = ()


class StreamRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Be a reader: the cursor is made if there is none, and its stream if there is none of that filter or of
    that name. `start` is "new", "first", "offset" or "time", and `at` which."""

    kind: ClassVar[int] = 57
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, SUBSCRIBER)
    request: Count
    stream: Name  # "": whichever has the filter
    cursor: Name  # "": none, only ask how the stream stands, and where `start` would begin
    filter: Filter | None = None
    start: Name = "new"
    at: Seconds = 0.0
    ack_wait_s: Seconds = 30.0
    in_flight: Count = 1_000
    max_deliver: Count = 0  # 0: without a limit
    expires_s: Seconds = 604_800.0
    fresh: bool = False  # forget an old cursor of this name
    end: bool = False  # end the cursor
    group: bool = False  # the cursor is a group's: become a member of it, wherever it is
    last: bool = False  # no cursor: where is the stream that keeps the last of each key for this filter


class StreamState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How it stands, when everybody who must know of it knows and it is on disk."""

    kind: ClassVar[int] = 58
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    request: Count
    outcome: Name  # "ok", "gone", "taken", "not-allowed", "filter", "no-journal", "elsewhere", "busy"
    stream: Name = ""
    version: Count = 0
    first: Count = 0  # the oldest offset kept
    end: Count = 0
    acknowledged: Count = 0
    text: Text = ""
    addresses: Addresses = ()  # "elsewhere": of the broker that has it


class Acknowledged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """To a member of a group: these acknowledgements of its own count and are on disk, so nobody gets these
    offsets again; those in `late` do not, because another member has got them meanwhile."""

    kind: ClassVar[int] = 59
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    stream: Name
    cursor: Name
    offsets: Offsets
    late: Offsets = ()


StreamMessage: TypeAlias = Fetch | Fetched | Acknowledge | Acknowledged | StreamRequest | StreamState
STREAM_MESSAGES: tuple[type[StreamMessage], ...] = (
    *(Fetch, Fetched, Acknowledge, StreamRequest, StreamState),
    Acknowledged,
)
