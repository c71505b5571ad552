"""Durable subscriptions of a session: places in streams that a broker keeps, read by asking.

A reader opens its place (StreamRequest), then always has one Fetch out while there is room for more. It is
asked for again after every break; what was under way comes again then. What the application has done with
what it got leaves with the next burst.

A member of a group reads the same way, from wherever the group is: a broker that does not have it names the
one that does, and the driver goes there. What waits in the queue of a member whose link breaks is another's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

from grapevine.client.session.message import Message, Names
from grapevine.errors import Error, NotAllowed
from grapevine.filters.normal import Filter
from grapevine.wire import decode_publications
from grapevine.wire.streams import (
    Acknowledge,
    Acknowledged,
    Fetch,
    Fetched,
    StreamMessage,
    StreamRequest,
    StreamState,
)

T = TypeVar("T")
WAIT_S = 20.0  # a Fetch that finds nothing is asked again after this
FORGOTTEN = "forgotten"  # the broker has lost the whole stream and begun a new one: offsets begin again
AGAIN_S = 1.0  # after a refusal that may end
_LASTING = ("not-allowed", "filter")


class Gap(NamedTuple):
    """Offsets of a durable subscription that nobody will ever get, and why."""

    first: int
    last: int
    reason: str


class DurableMessage(Message, eq=False, gc=False):
    """A message from a durable subscription: it comes again until it is acknowledged."""

    offset: int = 0
    redelivered: bool = False
    reader: DurableReader | None = None

    def ack(self) -> None:
        """Done with it; with ack="cumulative", with all before it too."""
        assert self.reader is not None
        self.reader.ack(self.offset)

    def nak(self, delay_s: float = 0.0) -> None:
        """Not now: it comes again after the delay."""
        assert self.reader is not None
        self.reader.nak(self.offset, delay_s)

    def working(self) -> None:
        """It takes longer: the time to acknowledge begins anew."""
        assert self.reader is not None
        self.reader.working(self.offset)


Item: TypeAlias = DurableMessage | Gap


class Wanted(NamedTuple):
    """What a durable subscription asks for."""

    name: str
    filter: Filter | None
    stream: str = ""
    start: str = "new"
    at: float = 0.0
    ack: str = "auto"  # or "explicit", "cumulative"
    ack_wait_s: float = 30.0
    in_flight: int = 1_000
    max_deliver: int = 0
    expires_s: float = 604_800.0
    fresh: bool = False
    group: bool = False
    last: bool = False  # no place of its own: the newest of each key, then what is new


class DurableReader:
    def __init__(self, wanted: Wanted, number: Callable[[], int], names: Names) -> None:
        self.wanted = wanted
        self.names = names
        self.queue: deque[Item] = deque()
        self.opened = False  # once: the application's subscribe returns
        self.error: Error | None = None
        self.state: StreamState | None = None
        self.home = ""  # the broker that keeps it
        self.ended = False
        self.wake: Callable[[], None] = lambda: None  # there is something to send
        self.elsewhere: tuple[str, ...] = ()  # addresses of the broker that has the group
        self.late = 0  # acknowledgements that did not count: another member had got it meanwhile
        self.counted: deque[int] = deque()  # offsets whose acknowledgement is on disk, of a group
        self._unanswered = 0  # acknowledgements that the group has not answered
        self._next = 1  # the first offset not read, of last values
        self._number = number
        self._version = 0  # of the stream, once it is known
        self._fresh = True  # not asked for yet
        self._asked = 0  # the request that is out
        self._again_at: float | None = None
        # What the application says, from any thread: nothing here is replaced, only appended and taken.
        self._acked: deque[int] = deque()
        self._up_to = self._up_to_sent = 0
        self._refused: deque[tuple[int, float]] = deque()
        self._working: deque[int] = deque()

    @property
    def version(self) -> int:
        """Of the stream: offsets are its own."""
        return self._version

    @property
    def stream(self) -> str:
        return self.state.stream if self.state is not None else self.wanted.stream

    # --- the application ----------------------------------------------------------------------------

    def ack(self, offset: int) -> None:
        if self.wanted.last:
            return  # nobody keeps a place for it
        if self.wanted.ack == "cumulative":
            self._up_to = max(self._up_to, offset)
        else:
            self._acked.append(offset)
        self.wake()

    def nak(self, offset: int, delay_s: float) -> None:
        self._refused.append((offset, delay_s))
        self.wake()

    def working(self, offset: int) -> None:
        self._working.append(offset)
        self.wake()

    # --- the session --------------------------------------------------------------------------------

    def attached(self, broker_name: str) -> list[StreamMessage]:
        """A link is up: open the place again, at the broker that has it."""
        if self.ended:
            return []
        self._asked = 0
        self.state = self._again_at = None
        self._up_to_sent = 0
        for said in (self._acked, self._refused, self._working):
            said.clear()
        if self.wanted.group:
            self.queue.clear()
            self._unanswered = 0
        elif self.wanted.last:
            pass
        elif self.home and broker_name != self.home:
            return []  # it waits for its home
        if self._fresh:
            return []
        return [self._request()]

    def _request(self, end: bool = False) -> StreamRequest:
        wanted = self.wanted
        self._asked = self._number()
        fresh = wanted.fresh and not self.opened
        return StreamRequest(
            *(self._asked, wanted.stream, "" if wanted.last else wanted.name),
            filter=wanted.filter,
            start=wanted.start,
            at=wanted.at,
            ack_wait_s=wanted.ack_wait_s,
            in_flight=wanted.in_flight,
            max_deliver=wanted.max_deliver,
            expires_s=wanted.expires_s,
            fresh=fresh,
            end=end,
            group=wanted.group,
            last=wanted.last,
        )

    def on_state(self, state: StreamState, broker_name: str, now: float) -> None:
        if state.request != self._asked:
            return
        self._asked = 0
        if self.ended:
            return
        if state.outcome == "ok":
            if self._version not in (0, state.version):
                self.queue.append(Gap(0, 0, FORGOTTEN))
                self._next = 1
            self.state, self.home, self._version = state, broker_name, state.version
            self.opened = True
        elif state.outcome == "elsewhere":
            self.elsewhere = state.addresses
        elif state.outcome in _LASTING or not (self.opened or state.outcome == "busy"):
            self.error = NotAllowed(state.text or state.outcome)
        else:
            self._again_at = now + AGAIN_S

    def on_fetched(self, fetched: Fetched, now: float) -> None:
        if fetched.request != self._asked:
            return
        self._asked = 0
        if fetched.outcome != "ok":
            self.state = None
            self._again_at = now + AGAIN_S
            return
        self.queue.extend(Gap(gap.first, gap.last, gap.reason) for gap in fetched.gaps)
        again = set(fetched.again)
        self._next = max((self._next - 1, *fetched.offsets)) + 1
        for publication, offset in zip(decode_publications(fetched.publications), fetched.offsets):
            message = DurableMessage(publication, b"", self.names, None, offset, offset in again, self)
            self.queue.append(message)

    def on_acknowledged(self, message: Acknowledged) -> None:
        if message.cursor == self.wanted.name and message.stream == self.stream:
            self.counted += message.offsets
            self.late += len(message.late)
            self._unanswered -= len(message.offsets) + len(message.late)

    def outgoing(self, now: float) -> list[StreamMessage]:
        """What leaves with this burst; there is a link."""
        out: list[StreamMessage] = []
        if self.ended:
            return out
        if self._fresh:
            self._fresh = False
            out.append(self._request())
        if self._again_at is not None and now >= self._again_at:
            self._again_at = None
            out.append(self._request())
        if self.state is None:
            return out
        if self._acked or self._up_to > self._up_to_sent or self._refused or self._working:
            out.append(self._acknowledge())
        room = self.wanted.in_flight - len(self.queue)
        if not self._asked and room > 0:
            self._asked = self._number()
            if self.wanted.last:
                out.append(Fetch(self._asked, self.stream, "", self._next, room, WAIT_S, True))
            else:
                out.append(Fetch(self._asked, self.stream, self.wanted.name, 0, room, WAIT_S))
        return out

    def _acknowledge(self) -> Acknowledge:
        refused, acked = _all(self._refused), _all(self._acked)
        self._up_to_sent = self._up_to
        self._unanswered += len(acked) if self.wanted.group else 0
        return Acknowledge(
            self.stream,
            self.wanted.name,
            self._up_to_sent,
            acked,
            tuple([offset for offset, _ in refused]),
            tuple([delay_s for _, delay_s in refused]),
            _all(self._working),
        )

    def end(self) -> StreamRequest:
        """Forget the place."""
        request = self._request(end=True)
        self.ended = True
        return request

    @property
    def owes(self) -> bool:
        """Something that the application said has not left, or, of a group, is not known to count."""
        told = self._up_to <= self._up_to_sent and not self._unanswered
        return not self.ended and (not told or bool(self._acked or self._refused or self._working))

    @property
    def asking(self) -> bool:
        return self._asked != 0

    def deadline(self) -> float | None:
        return None if self.ended else self._again_at


class DurableReaders:
    """Those of one session."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.all: list[DurableReader] = []
        self._number = 0

    def open(self, wanted: Wanted) -> DurableReader:
        reader = DurableReader(wanted, self._next, self.names)
        self.all.append(reader)
        return reader

    def _next(self) -> int:
        self._number += 1
        return self._number

    def receive(
        self, message: StreamState | Fetched | Acknowledged, broker_name: str, now: float
    ) -> tuple[str, ...]:
        """The addresses of where a group is, if that is somewhere else."""
        for reader in self.all:
            if isinstance(message, StreamState):
                reader.on_state(message, broker_name, now)
            elif isinstance(message, Acknowledged):
                reader.on_acknowledged(message)
            else:
                reader.on_fetched(message, now)
            if reader.elsewhere:
                addresses, reader.elsewhere = reader.elsewhere, ()
                return addresses
        return ()

    def attached(self, broker_name: str) -> list[StreamMessage]:
        return [message for reader in self.all for message in reader.attached(broker_name)]

    def outgoing(self, now: float) -> list[StreamMessage]:
        return [message for reader in self.all for message in reader.outgoing(now)] if self.all else []

    def deadline(self) -> float | None:
        return min((at for reader in self.all if (at := reader.deadline()) is not None), default=None)

    def close(self, reader: DurableReader) -> None:
        if reader in self.all:
            self.all.remove(reader)


def _all(said: deque[T]) -> tuple[T, ...]:
    return tuple([said.popleft() for _ in range(len(said))])


def start_of(start: object) -> tuple[str, float]:
    """What `start=` says: "new", "first", an offset, or a time."""
    if start in ("new", "first"):
        return str(start), 0.0
    if isinstance(start, int) and not isinstance(start, bool):
        return "offset", float(start)
    if hasattr(start, "timestamp"):
        return "time", float(start.timestamp())
    raise ValueError(f'start={start!r} is neither "new", "first", an offset nor a datetime')
