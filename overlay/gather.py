"""Ask several, wait for all, go on once.

A part ends by its answer, when its link breaks, or all together by the deadline. Confirmations are *patient*:
who cannot be asked just now may know of somebody, so their parts wait for the link's return or its loss
(DECISIONS 4 and 22). Confirmations, the census, traces, the bans of soft links, POP's and GRAPE's questions
and the first step of leaving are gathers. Who waits until publications are settled waits for a stream, not
for an answer: that is not a gather.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlay.links.session import Session
    from overlay.timers import Timer


PATIENCE_S = 600.0  # whatever deadline another broker names


class Gather:
    """`done(gather, now)` is called exactly once, after `start` and when no part is left."""

    __slots__ = ("_done", "_started", "answers", "deadline", "missing", "parts", "patient")

    def __init__(self, done: Callable[[Gather, float], None], patient: bool = False) -> None:
        self._done: Callable[[Gather, float], None] | None = done
        self.patient = patient
        self._started = False
        self.parts: dict[Session, None] = {}
        self.answers: list[Any] = []
        self.missing: list[Session] = []
        self.deadline: Timer | None = None

    @property
    def open(self) -> bool:
        return self._done is not None

    def first(self, then: Callable[[], None]) -> None:
        """Before it goes on, this is done."""
        if (done := self._done) is not None:

            def both(gather: Gather, now: float) -> None:
                then()
                done(gather, now)

            self._done = both

    def wait_for(self, session: Session) -> None:
        self.parts[session] = None
        session.gathers[self] = None

    def start(self, now: float) -> None:
        self._started = True
        if not self.parts:
            self._finish(now)

    def answer(self, session: Session, value: Any, now: float) -> None:
        if session in self.parts:
            self.answers.append(value)
            self._leave(session, now)

    def suspend(self, session: Session, now: float) -> None:
        """The link is broken, and may come back."""
        if not self.patient:
            self.lose(session, now)

    def lose(self, session: Session, now: float) -> None:
        """Nobody will answer there: its part is discharged."""
        if session in self.parts:
            self.missing.append(session)
            self._leave(session, now)

    def expire(self, now: float) -> None:
        for session in list(self.parts):
            self.lose(session, now)

    def abandon(self) -> None:
        """Nobody wants the answer any more."""
        self._done = None
        for session in self.parts:
            session.gathers.pop(self, None)
        self.parts.clear()
        if self.deadline is not None:
            self.deadline.cancel()

    def _leave(self, session: Session, now: float) -> None:
        del self.parts[session]
        session.gathers.pop(self, None)
        if not self.parts and self._started:
            self._finish(now)

    def _finish(self, now: float) -> None:
        done, self._done = self._done, None
        if self.deadline is not None:
            self.deadline.cancel()
        if done is not None:
            done(self, now)
