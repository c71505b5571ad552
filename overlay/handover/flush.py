"""Is everything settled that anybody had accepted by now? On every overlay alike.

The census spreads a *stamp*. Who sees it for the first time notes how far its publishers have come and what
is under way on its links; asked again, it says how much of that is not settled yet. When everybody has
answered that nothing is left, all that was accepted before the stamp is where it was owed. A broker that
cannot be reached may have accepted something: it is waited for until it is back or given up. Nothing of this
needs repair when a link breaks or a broker restarts, since the question is asked again anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.links.outgoing import Outgoing
from overlay.links.session import Remote
from overlay.timers import Timer

QUESTION = "flush"
FIRST_S, MOST_S, GROWTH = 0.01, 0.5, 1.25  # between two questions: a quarter of the time so far
ANSWER_S = 5.0
KEPT_S = 15.0  # a stamp that nobody has asked about for so long is forgotten
STAMPS = 256


class Stamp:
    """What one broker waits for."""

    __slots__ = ("asked_at", "links", "publishers")

    def __init__(self, publishers: list[tuple[Client, int]], links: list[tuple[Outgoing, int]]) -> None:
        self.publishers = publishers
        self.links = links
        self.asked_at = 0.0

    def left(self) -> int:
        self.publishers = [
            (client, mark)
            for client, mark in self.publishers
            if not client.lost and client.incoming.settled < mark
        ]
        self.links = [(out, end) for out, end in self.links if out.settled < end]
        return len(self.publishers) + len(self.links)


class Flush(Quiet):
    after = ("Census",)

    def __init__(self, census: Census, remotes: Callable[[], Iterable[Remote]]) -> None:
        self.census = census
        self.remotes = remotes
        self._stamps: dict[bytes, Stamp] = {}
        self._timer: Timer | None = None
        census.reporters[QUESTION] = self._report

    def attach(self, core: Core) -> None:
        self.core = core

    def when_settled(self, then: Callable[[float], None], now: float) -> None:
        """Call `then` when all that is accepted by now, wherever, is settled or cut."""
        stamp = f"{self.core.id:x}.{self.core.serial():x}".encode()
        self._ask(stamp, FIRST_S, then, now)

    def _ask(self, stamp: bytes, wait_s: float, then: Callable[[float], None], now: float) -> None:
        def answered(reports: list[Report], later: float) -> None:
            if all(report.get("waits") == 0 for report in reports):
                then(later)
            else:
                again = min(wait_s * GROWTH, MOST_S)
                self.core.timers.at(later + wait_s, lambda at: self._ask(stamp, again, then, at))

        self.census.ask(QUESTION, None, now, answered, stamp, ANSWER_S)

    def _report(self, stamp: bytes) -> Report:
        now = self.census.asked_at
        known = self._stamps.pop(stamp, None) or self._taken()
        known.asked_at = now
        self._stamps[stamp] = known  # the last asked about come last
        if len(self._stamps) > STAMPS:
            del self._stamps[next(iter(self._stamps))]
        if self._timer is None:
            self._timer = self.core.timers.at(now + KEPT_S, self._forget)
        return {**self.census.brief(), "waits": known.left()}

    def _taken(self) -> Stamp:
        coming = ((client, client.incoming) for client in self.core.numbered.values())
        publishers = [(client, its.received) for client, its in coming if its.settled < its.received]
        lanes = [lane for remote in self.remotes() for lane in remote.every_lane()]
        return Stamp(publishers, [(lane.out, lane.out.end()) for lane in lanes])

    def _forget(self, now: float) -> None:
        self._timer = None
        self._stamps = {name: stamp for name, stamp in self._stamps.items() if stamp.asked_at > now - KEPT_S}
        if self._stamps:
            self._timer = self.core.timers.at(now + KEPT_S, self._forget)
