"""A connection to the broker that a query feeds: one thread, calls that block, made again when it breaks.

Everything said here may be said twice: pieces are numbered, a commit that was decided stays decided. So
after a break the question is only how far the broker has come. A broker that restarts is waited for; one
that stays away for `timeout_s` is an Unreachable.
"""

from __future__ import annotations

import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import zmq

from grapevine.client.keys import default_directory
from grapevine.client.link import UP, Link
from grapevine.errors import Error, NotAllowed, Timeout, Unreachable
from grapevine.filters import Filter
from grapevine.wire.codec import decode, encode
from grapevine.wire.feeding import (
    AbortBatch,
    BatchState,
    CommitBatch,
    NoteNumbers,
    NumbersNoted,
    StageBegin,
    Staged,
    StagedPart,
    StageEnd,
    StagePiece,
)
from grapevine.wire.identity import identify
from grapevine.wire.limits import STAGED_PARTS
from grapevine.wire.messages import (
    DROP_OLDEST,
    PROTOCOL,
    PROTOCOL_OLDEST,
    Attach,
    Attached,
    Detach,
    GoAway,
    Message,
    Ping,
    Pong,
    Refuse,
    Reset,
)

UNACKNOWLEDGED = 8  # pieces under way
ANSWER_S = 10.0  # a broker that says nothing for so long is dialled again
PAUSE_S = 0.1
M = TypeVar("M")


def tell(text: str) -> None:
    """A line for whoever reads what the driver or an executor prints."""
    print(f"grapevine: {text}", file=sys.stderr)  # noqa: T201


class Broken(Exception):
    """The connection is gone; try again."""


class FeedLink:
    def __init__(self, addresses: Iterable[str], keys: str | None, timeout_s: float) -> None:
        self.addresses = tuple(addresses)
        self.timeout_s = timeout_s
        self.broker = ""
        self._keys = None if keys == "none" else Path(keys) if keys else default_directory()
        self._link: Link | None = None
        self._request = 0

    def __enter__(self) -> FeedLink:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._link is not None:
            try:
                self._link.socket.send(encode(Detach()), zmq.NOBLOCK)
            except zmq.ZMQError:
                pass
            self._link.close(500)
            self._link = None

    # --- the link -----------------------------------------------------------------------------------

    def connect(self) -> None:
        """Attached to the first of the addresses that answers; tried in rounds until the time is over."""
        deadline = monotonic() + self.timeout_s
        while self._link is None:
            for address in self.addresses:
                try:
                    self._dial(address, deadline)
                    return
                except NotAllowed:
                    raise
                except (Broken, Unreachable) as error:
                    self.hang_up()
                    complaint = str(error)
            if monotonic() + PAUSE_S >= deadline:
                raise Unreachable(f"no broker answers within {self.timeout_s:g} s: {complaint}")
            sleep(PAUSE_S)

    def _dial(self, address: str, deadline: float) -> None:
        link = self._link = Link(address, self._keys)
        while (news := link.news()) is None:
            if not link.monitor.poll(max(0, int((deadline - monotonic()) * 1000))):
                raise Unreachable(f"{address} does not answer")
        if news != UP:
            raise link.why_down()
        name = f"feed-{secrets.token_hex(8)}"
        self.send(
            Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), secrets.randbits(63), 1, 1, DROP_OLDEST)
        )
        answer = self.receive(min(deadline, monotonic() + ANSWER_S))
        if isinstance(answer, Refuse):
            kind = NotAllowed if answer.reason == "not-allowed" else Unreachable
            raise kind(f"{address}: {answer.text or answer.reason}")
        if not isinstance(answer, Attached):
            raise Broken(f"{address} answers {type(answer).__name__}")
        self.broker = answer.broker_name

    def hang_up(self) -> None:
        if self._link is not None:
            self._link.close(0)
            self._link = None

    def send(self, message: Message) -> None:
        self.send_frame(encode(message))

    def send_frame(self, frame: bytes) -> None:
        link = self._link
        if link is None:
            raise Broken("not connected")
        try:
            if not link.socket.poll(int(ANSWER_S * 1000), zmq.POLLOUT):
                raise Broken(f"{link.address} takes nothing")
            link.socket.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            raise Broken(f"{link.address}: {error.strerror}") from None

    def receive(self, deadline: float) -> Message:
        """The next message that is not about the link itself; Broken when the link is, or stays silent."""
        link = self._link
        if link is None:
            raise Broken("not connected")
        poller = zmq.Poller()
        poller.register(link.socket, zmq.POLLIN)
        poller.register(link.monitor, zmq.POLLIN)
        while True:
            ready = dict(poller.poll(max(0, int((deadline - monotonic()) * 1000))))
            if link.socket in ready:
                message = decode(link.socket.recv(zmq.NOBLOCK))
                if isinstance(message, Ping):
                    self.send(Pong(message.sent_at))
                elif isinstance(message, Reset | GoAway):
                    raise Broken(f"{link.address} has let go of us")
                else:
                    return message
            elif link.monitor in ready and link.news() is not None:
                raise Broken(f"the connection to {link.address} broke")
            elif not ready:
                raise Broken(f"{link.address} does not answer")

    # --- one question -------------------------------------------------------------------------------

    def ask(self, question: Callable[[int], Message], answered: Callable[[Message], M | None]) -> M:
        """Say it, and again after every break, until `answered` makes something of what comes back."""
        deadline = monotonic() + self.timeout_s
        self._request += 1
        while True:
            try:
                self.connect()
                self.send(question(self._request))
                while True:
                    message = self.receive(monotonic() + ANSWER_S)
                    if getattr(message, "request", None) == self._request:
                        answer = answered(message)
                        if answer is not None:
                            return answer
                        deadline = monotonic() + self.timeout_s
            except Broken as error:
                self.hang_up()
                if monotonic() > deadline:
                    raise Timeout(f"no answer in {self.timeout_s:g} s: {error}") from None

    def note(self, publisher: str, incarnation: int) -> int:
        """Have a publisher's numbers kept, on disk as they stand; how far they are settled."""
        id = identify(publisher)

        def noted(message: Message) -> int | None:
            return message.sequence if isinstance(message, NumbersNoted) else None

        return self.ask(lambda request: NoteNumbers(request, id, incarnation), noted)

    def commit(
        self, query: str, batch: int, publisher: str, advertisement: Filter, parts: Iterable[StagedPart]
    ) -> BatchState:
        """Have a batch published; returns when all of it is settled."""
        chosen = tuple(sorted(parts, key=lambda part: part.partition))
        if len(chosen) > STAGED_PARTS:
            raise StageLost(
                f"a batch of {len(chosen)} partitions cannot be committed: coalesce to {STAGED_PARTS}"
            )
        told = ""

        def settled(message: Message) -> BatchState | None:
            nonlocal told
            if not isinstance(message, BatchState):
                return None
            if message.outcome != "decided":
                return message
            if message.text and message.text != told:
                told = message.text
                tell(f"batch {batch} of query {query} waits at {self.broker}: {told}")
            return None

        state = self.ask(
            lambda request: CommitBatch(request, query, batch, publisher, advertisement, chosen), settled
        )
        if state.outcome != "settled":
            kind = NotAllowed if state.outcome == "not-allowed" else StageLost
            raise kind(f"batch {batch} of query {query} was not committed: {state.text or state.outcome}")
        return state

    def abort(self, query: str, batch: int) -> None:
        self.ask(
            lambda request: AbortBatch(request, query, batch),
            lambda message: message if isinstance(message, BatchState) else None,
        )


class StageLost(Error):
    """The broker does not have what was staged: the task has to run again."""


class Stage:
    """The rows of one attempt of a task, on their way to the broker's disk."""

    def __init__(self, link: FeedLink, query: str, batch: int, partition: int) -> None:
        self.link = link
        self.attempt = secrets.randbits(62)
        self.rows = 0
        self.pieces = 0
        self.again = False  # the batch was committed before: nothing is wanted
        self._begin = StageBegin(1, query, batch, partition, self.attempt)
        self._waiting: deque[tuple[int, bytes]] = deque()  # (piece, frame) that the broker has not taken
        self._have = 0  # pieces that the broker has
        self._resume()

    def send(self, rows: int, content: bytes) -> None:
        if self.again:
            return
        self.pieces += 1
        self.rows += rows
        frame = encode(StagePiece(1, self.pieces, rows, content))
        self._waiting.append((self.pieces, frame))
        try:
            self.link.send_frame(frame)
            self._hear(UNACKNOWLEDGED)
        except Broken:
            self.link.hang_up()
            self._resume()

    def finish(self) -> None:
        """Returns when everything is on the broker's disk."""
        deadline = monotonic() + self.link.timeout_s
        while not self.again:
            try:
                self._hear(0)
                self.link.send(StageEnd(1, self.pieces, self.rows))
                while not self.again:
                    if self._take(self.link.receive(monotonic() + ANSWER_S)) == "kept":
                        return
            except Broken as error:
                if monotonic() > deadline:
                    raise Timeout(f"no answer in {self.link.timeout_s:g} s: {error}") from None
                self.link.hang_up()
                self._resume()

    def _resume(self) -> None:
        """Open the stage (again) and send what the broker does not have."""
        deadline = monotonic() + self.link.timeout_s
        while True:
            try:
                self.link.connect()
                self.link.send(self._begin)
                self._take(self.link.receive(monotonic() + ANSWER_S))
                if self._waiting and self._waiting[0][0] > self._have + 1:
                    raise StageLost(f"{self.link.broker} has lost rows that it had staged")
                for _, frame in list(self._waiting):
                    self.link.send_frame(frame)
                return
            except Broken as error:
                self.link.hang_up()
                if monotonic() > deadline:
                    raise Unreachable(
                        f"no broker answers within {self.link.timeout_s:g} s: {error}"
                    ) from None

    def _hear(self, most: int) -> None:
        """Until at most so many pieces are under way."""
        while len(self._waiting) > most and not self.again:
            self._take(self.link.receive(monotonic() + ANSWER_S))

    def _take(self, message: Message) -> str:
        if not isinstance(message, Staged):
            return ""
        if message.outcome in ("open", "kept"):
            self._have = message.pieces
            while self._waiting and self._waiting[0][0] <= message.pieces:
                self._waiting.popleft()
        elif message.outcome == "again":
            self.again = True
            self._waiting.clear()
        else:
            raise StageLost(
                f"{self.link.broker} gives up what was staged ({message.outcome}): {message.text}"
            )
        return message.outcome
