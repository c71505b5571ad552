"""Feeding: what a task and the driver say to the broker that a query feeds.

Pieces are numbered, a commit that was decided stays decided: whatever is said twice counts once.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable
from time import monotonic

from grapevine.errors import Error, NotAllowed, Timeout, Unreachable
from grapevine.filters import Filter
from grapevine.spark.connection import ANSWER_S, Broken, Connection, tell
from grapevine.wire.codec import encode
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
from grapevine.wire.messages import Message

UNACKNOWLEDGED = 8  # pieces under way


class FeedLink(Connection):
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
