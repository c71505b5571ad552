"""Where a group lives: at one broker of the overlay, found by asking everybody.

A broker that is asked for a group it does not know asks the overlay; where there is one the client is sent
there, where there is none the group is made here. Two brokers that are asked at once must not both make it:
each *claims* the name before it asks, so at least one of the two hears of the other. The one with the lower
id asks again until the other has it or has given way; the one with the higher id gives way unless it had
heard of nobody. Nothing is made while somebody does not answer or was given up for lost, nor in a part of the
overlay that has not found the rest: it may be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from grapevine.filters.printing import to_text
from grapevine.wire.streams import StreamRequest, StreamState
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.journal.contents import Stream
from overlay.journal.streams import Streams

QUESTION = "group"
ASK_S = 3.0
AGAIN_S = 0.2
KNOWN_MOST = 1_024  # groups whose home is remembered
CLAIMED, HELD = "claimed", "held"
Here = Callable[[float], None]  # it is to be at this broker
Report = dict[str, Any]


class Everybody(Protocol):
    """Who asks the whole overlay; the census does."""

    reporters: dict[str, Callable[[bytes], Report | list[Any] | None]]

    def brief(self) -> Report: ...

    def ask(
        self,
        question: str,
        through: None,
        now: float,
        done: Callable[[list[Report], float], None],
        argument: bytes = b"",
        deadline_s: float = 5.0,
    ) -> None: ...


class Asker:
    """A client that waits to hear where its group is."""

    __slots__ = ("client", "here", "message")

    def __init__(self, client: Client, message: StreamRequest, here: Here) -> None:
        self.client = client
        self.message = message
        self.here = here


class GroupHomes(Quiet):
    after = ("Streams",)

    def __init__(self, streams: Streams, census: Everybody, addresses: tuple[str, ...]) -> None:
        self.streams = streams
        self.census = census
        self.addresses = addresses
        self.claims: dict[str, list[Asker]] = {}  # names that this broker asks for
        self.made: set[str] = set()  # decided to be here; the cursor follows
        self.known: dict[str, str] = {}  # name of the broker where a group was last found
        self.given_up: Callable[[], Iterable[str]] = lambda: ()  # brokers that were lost; set by profiles
        self.apart: Callable[[], bool] = lambda: False  # this is the root of a part only; likewise
        census.reporters[QUESTION] = self._report

    def attach(self, core: Core) -> None:
        self.core = core

    def find(self, name: str) -> Stream | None:
        """The stream that a group here reads."""
        for stream in self.streams.journal.contents.streams.values():
            if name in stream.cursors and stream.cursors[name][0].group:
                return stream
        return None

    def _report(self, argument: bytes) -> Report:
        name = argument.decode("utf-8", "replace")
        report = {**self.census.brief(), "given_up": list(self.given_up())}
        if self.apart():
            report["apart"] = True
        if name in self.made or self.find(name) is not None:
            return {**report, "state": HELD, "addresses": list(self.addresses)}
        return {**report, "state": CLAIMED} if name in self.claims else report

    # --- asking ---------------------------------------------------------------------------------------

    def seek(self, client: Client, message: StreamRequest, here: Here, now: float) -> None:
        """Call `here`, or tell the client where else."""
        name = message.cursor
        if (stream := self.find(name)) is not None:
            self.made.discard(name)
            if message.filter is not None and message.filter != stream.body.filter:
                text = f"the group {name} reads {to_text(stream.body.filter):.500}"
                self.core.tell(StreamState(message.request, "filter", text=text), client)
            else:
                here(now)
        elif name in self.claims:
            self.claims[name].append(Asker(client, message, here))
        else:
            self.claims[name] = [Asker(client, message, here)]
            self._ask(name, now)

    def _ask(self, name: str, now: float) -> None:
        def done(reports: list[Report], later: float) -> None:
            self._heard(name, reports, later)

        self.census.ask(QUESTION, None, now, done, name.encode(), ASK_S)

    def _heard(self, name: str, reports: list[Report], now: float) -> None:
        others = [report for report in reports if report["id"] != self.core.id]
        missing = _missing(reports)
        held = [report for report in others if report.get("state") == HELD]
        claimed = [report for report in others if report.get("state") == CLAIMED]
        if held:
            home = min(held, key=lambda report: int(report["id"]))
            self._remember(name, str(home["name"]))
            addresses = tuple(str(address) for address in home.get("addresses", ()))
            self._answer(name, "elsewhere", f"the group {name} is at {home['name']}", addresses)
        elif missing:
            self._answer(name, "busy", f"no answer from {', '.join(missing[:5])}: the group may be there")
        elif apart := [str(report["name"]) for report in reports if report.get("apart")]:
            self._answer(name, "busy", f"{apart[0]} has not found its neighbours: the group may be there")
        elif name in self.known and not any(asker.message.fresh for asker in self.claims[name]):
            self._answer(name, "busy", f"the group was at {self.known[name]}, which cannot be reached")
        elif any(int(report["id"]) < self.core.id for report in claimed):
            self._answer(name, "busy", "another broker is making it")
        elif claimed:
            self.core.timers.at(now + AGAIN_S, lambda later: self._ask(name, later))
        else:
            self._make(name, now)

    def _remember(self, name: str, home: str) -> None:
        if len(self.known) >= KNOWN_MOST:
            del self.known[next(iter(self.known))]
        self.known[name] = home

    def _make(self, name: str, now: float) -> None:
        self.known.pop(name, None)
        self.made.add(name)
        askers = self.claims.pop(name)
        wanted = askers[0].message.filter
        for asker in askers:
            if asker.message.filter == wanted:
                asker.here(now)
            else:
                text = f"another member of {name} has just asked for another filter"
                self.core.tell(StreamState(asker.message.request, "filter", text=text), asker.client)

    def _answer(self, name: str, outcome: str, text: str, addresses: tuple[str, ...] = ()) -> None:
        for asker in self.claims.pop(name):
            answer = StreamState(asker.message.request, outcome, text=text, addresses=addresses)
            self.core.tell(answer, asker.client)


def _missing(reports: list[Report]) -> list[str]:
    """Who does not answer, or was given up by somebody and has not come back elsewhere."""
    answered = {str(report["name"]) for report in reports if not report.get("missing")}
    silent = {str(report["name"]) for report in reports if report.get("missing")}
    given_up = {str(name) for report in reports for name in report.get("given_up", ())}
    return sorted((silent | given_up) - answered)
