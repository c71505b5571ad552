"""What the client has asked its broker and not been answered yet.

A request outlives breaks: it is sent again when the epoch goes on. Its deadline ends the waiting, not
the asking: a subscription whose confirmation came too late stays and may be confirmed later.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TypeAlias

from grapevine.errors import Error, FilterError, NotAllowed, Timeout
from grapevine.wire.messages import (
    ClientAdvertise,
    ClientSubscribe,
    ClientUnadvertise,
    ClientUnsubscribe,
    Done,
)

Asked: TypeAlias = ClientSubscribe | ClientUnsubscribe | ClientAdvertise | ClientUnadvertise


def deadline(now: float, timeout_s: float | None) -> float | None:
    return None if timeout_s is None else now + timeout_s


class Request:
    """One question. `done` when the wanted word has come, it was refused, or its time is over."""

    __slots__ = ("deadline", "done", "error", "number", "outcome", "want")

    def __init__(self, number: int, want: str, deadline: float | None) -> None:
        self.number = number
        self.want = want  # "confirmed", or "local": the first broker's word
        self.deadline = deadline
        self.outcome = ""  # the last word of OUTCOMES
        self.error: Error | None = None
        self.done = False

    def answer(self, outcome: str, text: str = "") -> None:
        self.outcome = outcome
        if outcome not in ("local", "confirmed"):
            self.fail(FilterError(text) if outcome == "filter" else NotAllowed(text or outcome))
        elif outcome in ("confirmed", self.want):
            self.done = True

    def fail(self, error: Error) -> None:
        if not self.done:
            self.error = error
            self.done = True


class Requests:
    __slots__ = ("_deadlines", "_number", "asked", "open")

    def __init__(self) -> None:
        self._number = 0
        self._deadlines: list[tuple[float, int]] = []
        self.open: dict[int, Request] = {}
        self.asked: dict[int, Asked] = {}  # what to send again

    def number(self) -> int:
        """That no request of this session has."""
        self._number += 1
        return self._number

    def new(self, want: str = "confirmed", deadline: float | None = None) -> Request:
        request = Request(self.number(), want, deadline)
        self.open[request.number] = request
        if deadline is not None:
            heappush(self._deadlines, (deadline, request.number))
        return request

    def on_done(self, done: Done) -> tuple[Request, Asked] | None:
        """The request answered, and what it had asked; None for an answer to nothing open."""
        request = self.open.get(done.request)
        asked = self.asked.get(done.request)
        if request is None or asked is None:
            return None
        request.answer(done.outcome, done.text)
        if done.outcome != "local":
            self.forget(request)
        return request, asked

    def forget(self, request: Request) -> None:
        self.open.pop(request.number, None)
        self.asked.pop(request.number, None)

    def take_back(self, kind: type[ClientSubscribe] | type[ClientAdvertise], number: int) -> None:
        """It is withdrawn before it was confirmed: asked again after a resume it would be made anew."""
        for asked in list(self.asked.values()):
            if isinstance(asked, kind) and asked.number == number:
                self.forget(self.open[asked.request])

    def again(self, request: Request) -> Request:
        """The application's request if it still waits, else one that nobody waits for."""
        return request if request.number in self.open and not request.done else self.new()

    def restart(self, waited_for: set[int], publishes: bool) -> None:
        """A new epoch. What was to be withdrawn is not announced again, and so it is withdrawn. What an
        earlier epoch asked again for nobody is asked anew, under another number. Advertisements are another
        broker's business unless the client `publishes` here."""
        for number, asked in list(self.asked.items()):
            if isinstance(asked, ClientAdvertise | ClientUnadvertise) and not publishes:
                continue
            request = self.open[number]
            if isinstance(asked, ClientUnsubscribe | ClientUnadvertise):
                request.answer("confirmed")
            if request.done or number not in waited_for:
                self.forget(request)

    def forget_repeated(self, waited_for: set[int]) -> None:
        """Advertisements that were asked again for nobody will be asked once more."""
        for number, asked in list(self.asked.items()):
            if isinstance(asked, ClientAdvertise) and number not in waited_for:
                self.forget(self.open[number])

    def next_deadline(self) -> float | None:
        while self._deadlines and self._waiting(self._deadlines[0][1]) is None:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _waiting(self, number: int) -> Request | None:
        request = self.open.get(number)
        return None if request is None or request.done else request

    def tick(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            request = self._waiting(heappop(self._deadlines)[1])
            if request is not None:
                request.fail(Timeout("not confirmed in time; it stays asked for"))
