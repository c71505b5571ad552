"""The client's subscriptions to channels, and questions to the back end; no input or output.

A subscription is a position: at every attachment the broker is told the last one that came, and sends what is
after it. What comes twice is dropped by its position. The broker may have a window of bytes under way beyond
what the program has taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from grapevine.client.session.state import State
from grapevine.errors import ChannelError, Closed, Error, ParameterError, Timeout
from grapevine.wire.channels import (
    ChannelMessage,
    ChannelRows,
    ChannelState,
    ChannelTaken,
    DriverAnswer,
    DriverAsk,
    SubscribeChannel,
    UnsubscribeChannel,
    execution_of,
)
from grapevine.wire.limits import NAME_BYTES

if TYPE_CHECKING:
    from grapevine.client.session.session import Session

WINDOW_BYTES = 1 << 20
LAST = 2**63 - 1
TELL = 64  # rows taken before the broker hears of it, unless the queue is empty


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A row as the driver wrote it."""

    executed_at: float
    row: dict[str, Any]
    removed: bool = False


_unpack = msgspec.msgpack.Decoder(Packed).decode


class Result:
    """A row of a channel's result."""

    __slots__ = ("row", "channel", "parameters", "executed_at", "position", "removed", "size")

    def __init__(
        self, packed: Packed, channel: str, parameters: dict[str, Any], position: int, size: int
    ) -> None:
        self.row = packed.row
        self.channel = channel
        self.parameters = parameters
        self.executed_at = packed.executed_at  # seconds since 1970
        self.position = position  # subscribe with after=position to go on from here
        self.size = size  # bytes that it came in
        self.removed = packed.removed  # of a channel without `new`: it is not in the result any more

    @property
    def execution(self) -> int:
        return execution_of(self.position)

    def __repr__(self) -> str:
        return f"<Result {self.channel} {self.execution}.{self.position & 0xFFFFFFFF} {self.row!r}>"


class ChannelSubscriptionState:
    __slots__ = (
        "number", "channel", "given", "parameters", "kept", "last", "taken", "acknowledged", "through",
        "queue", "queued", "said", "untold", "confirmed", "error", "trouble", "lost", "since", "deadline",
    )  # fmt: skip

    def __init__(
        self, number: int, channel: str, given: bytes, after: int | None, kept: bool, deadline: float | None
    ) -> None:
        self.number = number
        self.channel = channel
        self.given = given
        self.parameters: dict[str, Any] = {}  # as the back end has taken them
        self.kept = kept
        self.last = -1 if after is None else after  # position of the last row that came
        self.taken = self.acknowledged = max(self.last, 0)  # by the program, and to the broker
        self.through = self.last  # everything up to here has come
        self.queue: deque[Result] = deque()
        self.queued = 0  # bytes of it
        self.said = 0  # and of what was there when the broker last heard where we are: not in its window
        self.untold = 0  # rows that were taken, and the broker has not heard
        self.confirmed = False
        self.error: Error | None = None  # it has ended
        self.trouble = ""
        self.lost = 0  # executions that were no longer kept when this subscriber came
        self.since = 0  # the position after which results are due
        self.deadline = deadline


class Ask:
    """A question to the back end; it is asked again after every break until it is answered."""

    __slots__ = ("message", "answer", "error")

    def __init__(self, message: DriverAsk) -> None:
        self.message = message
        self.answer: DriverAnswer | None = None
        self.error: Error | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.error is not None


class Channels:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.kept = False  # the program has a name of its own: it may come back
        self.by_number: dict[int, ChannelSubscriptionState] = {}
        self.asks: dict[int, Ask] = {}
        self._number = 0

    # --- what the program wants ---------------------------------------------------------------------------

    def subscribe(
        self,
        channel: str,
        parameters: Mapping[str, object],
        after: int | None,
        now: float,
        timeout_s: float | None,
    ) -> ChannelSubscriptionState:
        if after is not None and not 0 <= after < LAST:
            raise ParameterError("after", "the position of a result", after)
        if len(channel) > NAME_BYTES:
            raise ChannelError(f"no channel has a name of {len(channel)} characters")
        given = _packed(parameters)
        self._number += 1
        deadline = None if timeout_s is None else now + timeout_s
        state = ChannelSubscriptionState(self._number, channel, given, after, self.kept, deadline)
        self.by_number[state.number] = state
        self._say_subscribe(state)
        return state

    def unsubscribe(self, state: ChannelSubscriptionState) -> None:
        if self.by_number.pop(state.number, None) is not None:
            state.error = Closed("unsubscribed")
            self.session.say(UnsubscribeChannel(state.number))

    def take(self, state: ChannelSubscriptionState, most: int) -> list[Result]:
        queue = state.queue
        found = [queue.popleft() for _ in range(min(most, len(queue)))]
        if found:
            size = sum(result.size for result in found)
            state.queued -= size
            state.said = max(state.said - size, 0)
            state.taken = found[-1].position if queue else state.through
            self._tell(state, len(found))
        return found

    def _tell(self, state: ChannelSubscriptionState, count: int) -> None:
        state.untold += count
        if state.taken > state.acknowledged and (not state.queue or state.untold >= TELL):
            state.acknowledged, state.untold = state.taken, 0
            self.session.say(ChannelTaken(state.number, state.taken))

    def more(self, state: ChannelSubscriptionState) -> bool:
        """Who waits for all of an execution takes nothing meanwhile: if the window is full, it begins anew
        after what has come. Whether anything was said."""
        before = state.acknowledged
        self._tell(state, TELL)
        if state.queued - state.said < WINDOW_BYTES:
            return state.acknowledged > before
        self._say_subscribe(state)
        return True

    def ask(self, verb: str, body: bytes) -> Ask:
        self._number += 1
        ask = self.asks[self._number] = Ask(DriverAsk(self._number, verb, body))
        self.session.say(ask.message)
        return ask

    @property
    def alone(self) -> bool:
        """Whether this client has nothing else: what channels sent is known by its position, so that any
        broker can go on and nobody need keep the attachment."""
        session = self.session
        others = session.incoming.subscriptions or session.advertised.by_number or session.durables.all
        return session.state == State.ATTACHED and not others

    # --- what the session tells ---------------------------------------------------------------------------

    def attached(self) -> None:
        """Also with a broker that resumed us: what it had sent may have been lost with the link."""
        for state in self.by_number.values():
            self._say_subscribe(state)
        for ask in self.asks.values():
            self.session.say(ask.message)

    def _say_subscribe(self, state: ChannelSubscriptionState) -> None:
        message = SubscribeChannel(
            state.number, state.channel, state.given, state.through + 1, state.kept, WINDOW_BYTES
        )
        self.session.say(message)
        state.said = state.queued
        if state.taken:
            self.session.say(ChannelTaken(state.number, state.taken))

    def receive(self, message: ChannelMessage, now: float) -> None:
        if isinstance(message, DriverAnswer):
            if (ask := self.asks.pop(message.request, None)) is not None:
                ask.answer = message
            return
        if not isinstance(message, ChannelRows | ChannelState):
            return
        state = self.by_number.get(message.number)
        if state is None:
            return
        if isinstance(message, ChannelRows):
            self._rows(state, message)
        else:
            self._state(state, message)

    def _rows(self, state: ChannelSubscriptionState, message: ChannelRows) -> None:
        for position, payload in message.rows:
            if position > state.last:
                state.last = position
                state.queued += len(payload)
                row, size = _unpack(payload), len(payload)
                state.queue.append(Result(row, state.channel, state.parameters, position, size))
        state.through = max(state.through, message.through)
        if not state.queue:
            state.taken = state.through
            self._tell(state, 0)

    def _state(self, state: ChannelSubscriptionState, message: ChannelState) -> None:
        if message.outcome == "confirmed":
            if not state.confirmed:
                state.since = message.after
            state.confirmed, state.trouble = True, message.text
            state.lost += message.lost
            state.last = max(state.last, message.after)
            state.through = max(state.through, message.after)
            if not state.queue:
                state.taken = state.through
            state.parameters = msgspec.msgpack.decode(message.parameters) if message.parameters else {}
        elif message.outcome == "trouble":
            state.trouble = message.text
        elif message.outcome == "":
            state.trouble = ""
        else:
            state.error = _error(message)
            self.by_number.pop(state.number, None)

    def next_deadline(self) -> float | None:
        waiting = (s.deadline for s in self.by_number.values() if not s.confirmed and s.deadline is not None)
        return min(waiting, default=None)

    def tick(self, now: float) -> None:
        for state in list(self.by_number.values()):
            if not state.confirmed and state.deadline is not None and now >= state.deadline:
                state.error = Timeout(f"channel {state.channel} was not confirmed in time")
                self.unsubscribe_quietly(state)

    def unsubscribe_quietly(self, state: ChannelSubscriptionState) -> None:
        self.by_number.pop(state.number, None)
        self.session.say(UnsubscribeChannel(state.number))

    def close(self) -> None:
        for state in self.by_number.values():
            state.error = state.error or Closed("the client is closed")
        for ask in self.asks.values():
            ask.error = Closed("the client is closed")


def _packed(parameters: Mapping[str, object]) -> bytes:
    for name, value in parameters.items():
        try:
            msgspec.msgpack.encode(_plain(value))
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(name, "text, a number of 64 bits, true or false, a time", value) from None
    return msgspec.msgpack.encode({name: _plain(value) for name, value in parameters.items()})


def _plain(value: object) -> object:
    """A time travels as text, a scalar of numpy as the number that it is."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


def _error(message: ChannelState) -> Error:
    if message.outcome == "parameter":
        name, expected, given = msgspec.json.decode(message.text, type=tuple[str, str, str])
        return ParameterError(name, expected, _Given(given))
    return ChannelError(message.text or message.outcome)


class _Given:
    """What the back end has printed of a value."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
