"""Messages of the back end and of channels, kinds 180-199; `messages` lists them with the others.

A *position* is (execution, row) as one number, `execution << 32 | row`; rows of one back-end subscription
count from 1 within an execution. Everything after a position is what rises from there, so that a pull, a
subscription and an acknowledgement need nothing but a position.

Broker and back end: the broker asks for a subscriber, hears of executions, pulls by range. Driver and back
end: one question and one answer, whose body depends on the verb (`driving`). Client and broker: subscribe,
rows, how far they were taken.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.wire.fields import Body, Count, Id, Name, Number, PayloadBytes, Text
from grapevine.wire.gates import ADMIN, BROKER, SUBSCRIBER, Carrier, Gate
from grapevine.wire.limits import BATCH_PUBLICATIONS, LIST_ENTRIES

ROW_BITS = 32
LAST_ROW = (1 << ROW_BITS) - 1


def position(execution: int, row: int = LAST_ROW) -> int:
    """Without a row: after everything of the execution."""
    return execution << ROW_BITS | row


def execution_of(position: int) -> int:
    return position >> ROW_BITS


def next_execution(position: int) -> int:
    """The first execution of which something may be due to who is there."""
    return execution_of(position) + (not position or position & LAST_ROW == LAST_ROW)


# Rows of an execution count from 1. From here on they are not what it delivered but the whole result as it
# left it, of a channel that delivers changes: who comes later begins with that.
WHOLE = 1 << (ROW_BITS - 1)


def in_whole(position: int) -> bool:
    """Whether who is there has to get, or to go on with, the whole result of the position's execution."""
    return WHOLE <= position & LAST_ROW < LAST_ROW


Counted: TypeAlias = Annotated[tuple[tuple[Id, Count, Count], ...], msgspec.Meta(max_length=LIST_ENTRIES)]
Positions: TypeAlias = Annotated[tuple[tuple[Id, Count], ...], msgspec.Meta(max_length=LIST_ENTRIES)]
ResultRows: TypeAlias = Annotated[
    tuple[tuple[Count, PayloadBytes], ...], msgspec.Meta(max_length=BATCH_PUBLICATIONS)
]


class BackendWelcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The back end's first word on a new link: whatever the broker knew of it is to be asked again."""

    kind: ClassVar[int] = 181
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    incarnation: Id


class BackendSubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """For one front-end subscription. `subscriber` is a name whose cursor is kept, or empty. `after` is 0, or
    the position that the subscriber has already, plus one."""

    kind: ClassVar[int] = 182
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    request: Count
    channel: Name
    parameters: Body  # a msgpack map, as the subscriber gave them
    subscriber: Name = ""
    after: Count = 0


class BackendSubscribed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`after`: everything from here on is due. `lost`: executions that are no longer kept. `text`: why not,
    or why executions fail at the moment."""

    kind: ClassVar[int] = 183
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    request: Count
    outcome: Name  # a word of CHANNEL_OUTCOMES
    be: Id = 0
    after: Count = 0
    executed: Count = 0  # the channel's last execution
    lost: Count = 0
    parameters: Body = b""  # a msgpack map, as they were taken
    text: Text = ""


CHANNEL_OUTCOMES = ("confirmed", "unknown", "parameter", "limit", "ended", "no-back-end", "trouble", "")


class BackendUnsubscribe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The broker has nobody for it any more. With a name, that subscriber's cursor goes, and nothing else."""

    kind: ClassVar[int] = 184
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    be: Id
    subscriber: Name = ""


class Executed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Results of an execution that this broker holds: (back-end subscription, rows, bytes). Without any: the
    channel has come so far, and there was nothing but what was told on this link."""

    kind: ClassVar[int] = 185
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    channel: Name
    execution: Count
    results: Counted


class Pull(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows after each position, up to the end of `execution`, at most about so many bytes in all."""

    kind: ClassVar[int] = 186
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    request: Count
    execution: Count
    ranges: Positions
    credit_bytes: Count


class Pulled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows of one back-end subscription, complete up to `through`; `last` ends the answer to a Pull."""

    kind: ClassVar[int] = 187
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    request: Count
    be: Id
    rows: ResultRows
    through: Count
    last: bool = False


class Cursors(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a named subscriber has taken results."""

    kind: ClassVar[int] = 188
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    subscriber: Name
    cursors: Positions


class ChannelTroubled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """To a broker: executions of the channel fail, or go on again (""); or its subscribers have to ask once
    more where they go on: the channel is "replaced", or what one of them is to get next has "expired"."""

    kind: ClassVar[int] = 189
    gate: ClassVar[Gate] = Gate(3, Carrier.BESIDE, BROKER)
    channel: Name
    outcome: Name
    text: Text


class DriverAsk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 191
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, ADMIN)
    request: Count
    verb: Name
    body: Body = b""


class DriverAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 192
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    request: Count
    outcome: Name  # "done", or why not
    body: Body = b""
    text: Text = ""


class SubscribeChannel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """As BackendSubscribe, under the client's own number. `window`: bytes of rows that it takes untold."""

    kind: ClassVar[int] = 194
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, SUBSCRIBER)
    number: Number
    channel: Name
    parameters: Body
    after: Count
    kept: bool  # this subscriber may come back: keep its cursor
    window: Count


class UnsubscribeChannel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: ClassVar[int] = 195
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, SUBSCRIBER)
    number: Number


class ChannelState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a subscription to a channel: "confirmed", why not, or trouble on the way."""

    kind: ClassVar[int] = 196
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    number: Number
    outcome: Name  # a word of CHANNEL_OUTCOMES
    after: Count = 0
    lost: Count = 0
    parameters: Body = b""
    text: Text = ""


class ChannelRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Results in the order of positions, complete up to `through`."""

    kind: ClassVar[int] = 197
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, BROKER)
    number: Number
    rows: ResultRows
    through: Count


class ChannelTaken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The program has taken everything up to this position."""

    kind: ClassVar[int] = 198
    gate: ClassVar[Gate] = Gate(3, Carrier.CLIENT, SUBSCRIBER)
    number: Number
    position: Count


ChannelMessage: TypeAlias = (
    BackendWelcome | BackendSubscribe | BackendSubscribed | BackendUnsubscribe | Executed | Pull | Pulled
    | Cursors | ChannelTroubled | DriverAsk | DriverAnswer | SubscribeChannel | UnsubscribeChannel
    | ChannelState | ChannelRows | ChannelTaken
)  # fmt: skip
CHANNELS: tuple[type[ChannelMessage], ...] = (
    BackendWelcome, BackendSubscribe, BackendSubscribed, BackendUnsubscribe, Executed, Pull, Pulled, Cursors,
    ChannelTroubled, DriverAsk, DriverAnswer, SubscribeChannel, UnsubscribeChannel, ChannelState, ChannelRows,
    ChannelTaken,
)  # fmt: skip
