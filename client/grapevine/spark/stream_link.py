"""Asking the broker that keeps a stream: how it stands, what lies at a range of offsets, and acknowledging.

A stream lies at one broker, its home. Of several addresses the one that has it is found and remembered; a
home that restarts is waited for, and one that says that the stream is gone sends us to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import TypeVar

from grapevine.client.session.message import Names
from grapevine.errors import Error, NotAllowed, Timeout, Unreachable
from grapevine.filters import Filter
from grapevine.spark.connection import Connection
from grapevine.wire.messages import Message
from grapevine.wire.streams import Acknowledge, Fetch, Fetched, StreamRequest, StreamState

LOOK_S = 5.0  # so long an address may take that is not known to be the home
PAUSE_S = 0.2
Answer = TypeVar("Answer", StreamState, Fetched)


class StreamGone(Error):
    """No broker of those named has the stream."""


class StreamLink:
    def __init__(self, addresses: Iterable[str], keys: str | None, timeout_s: float) -> None:
        self.addresses = tuple(addresses)
        self.keys = keys
        self.timeout_s = timeout_s
        self.home = self.addresses[0]
        self._connections: dict[str, Connection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def names(self) -> Names:
        """Of publishers and their first brokers, as far as the home has told them."""
        return self._connection(self.home).names

    def state(
        self,
        stream: str,
        cursor: str = "",
        filter: Filter | None = None,
        start: str = "new",
        at: float = 0.0,
        expires_s: float = 604_800.0,
    ) -> StreamState:
        """How the stream stands. A cursor is made if there is none, and with a filter its stream too. Without
        a cursor `acknowledged` says where a reader that starts so would begin."""

        def question(request: int) -> StreamRequest:
            return StreamRequest(request, stream, cursor, filter, start, at, expires_s=expires_s)

        deadline = monotonic() + self.timeout_s
        while (state := self._ask(question, StreamState)).outcome == "taken" and monotonic() < deadline:
            sleep(PAUSE_S)  # by this query before it was started again, perhaps: its broker finds out
        if state.outcome != "ok":
            raise NotAllowed(f"stream {stream or '(by its filter)'}: {state.text or state.outcome}")
        return state

    def fetch(self, stream: str, first: int, most: int) -> Fetched:
        """Publications and gaps from an offset on, as many as one answer holds."""
        fetched = self._ask(lambda request: Fetch(request, stream, "", first, most, 0.0), Fetched)
        if fetched.outcome != "ok":
            raise NotAllowed(f"stream {stream}: {fetched.outcome}")
        return fetched

    def acknowledge(self, stream: str, cursor: str, up_to: int) -> None:
        """Returns when the home has it."""
        deadline = monotonic() + self.timeout_s
        while self.state(stream, cursor).acknowledged < up_to:
            if monotonic() > deadline:
                raise Timeout(f"stream {stream}: not acknowledged in {self.timeout_s:g} s")
            self._connection(self.home).send(Acknowledge(stream, cursor, up_to))

    def _ask(self, question: Callable[[int], Message], kind: type[Answer]) -> Answer:
        away = gone = ""
        for address in dict.fromkeys((self.home, *self.addresses)):
            try:
                answer = self._connection(address).ask(
                    question, lambda message: message if isinstance(message, kind) else None
                )
            except (Unreachable, Timeout) as error:
                away = str(error)
                continue
            if answer.outcome != "gone":
                self.home = address
                return answer
            gone = getattr(answer, "text", "") or f"{address} has no such stream"
        if away:
            raise Unreachable(away)
        raise StreamGone(gone)

    def _connection(self, address: str) -> Connection:
        if address not in self._connections:
            timeout_s = self.timeout_s if address == self.home else min(self.timeout_s, LOOK_S)
            self._connections[address] = Connection((address,), self.keys, timeout_s)
        return self._connections[address]
