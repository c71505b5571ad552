"""SPEC G4: POP, GRAPE or neither moves publishers; one setting, also while the broker runs.

`off` costs nothing: nobody looks at what is published. A broker always answers for others' publishers,
whatever its own setting. Against moving to and fro there are a least gain and a least time between two
moves; the time counts from when the publisher came here.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from grapevine.wire.messages import Advertisement, Publication
from grapevine.wire.relocation import RelocationAnswer
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Publications
from overlay.data.routes import Side
from overlay.links.session import Session
from overlay.relocate.grape import Choice, Grape, path_between
from overlay.relocate.migration import Migration
from overlay.relocate.pop import Pop
from overlay.relocate.selection import choose, relocation_target
from overlay.relocate.tagging import Tracer
from overlay.settings import CoreSettings, RelocationSettings
from overlay.tree.advertisements import Advertisements
from overlay.tree.peer import Peer

ALGORITHMS = ("off", "pop", "grape")
PRIORITIES = ("load", "delay")
THRESHOLD_MAX = 65_535  # a trace says its publication's index in two bytes


class Verdict:
    """The last decision about a publisher. `saves` is the share of its present cost, by the first metric."""

    def __init__(
        self, path: tuple[int, ...], name: str, addresses: tuple[str, ...], saves: float | None, now: float
    ) -> None:
        self.path = path
        self.name = name
        self.addresses = addresses
        self.saves = saves
        self.at = now
        self.outcome = ""


class Relocation(Quiet):
    name = "relocation"

    def __init__(
        self,
        settings: RelocationSettings,
        publications: Publications,
        advertisements: Advertisements,
        migration: Migration,
        addresses: tuple[str, ...],
    ) -> None:
        self.settings = settings
        self.publications = publications
        self.advertisements = advertisements
        self.migration = migration
        self.tracer = Tracer(publications, settings)
        self.pop = Pop(self.tracer, addresses)
        self.grape = Grape(self.tracer, addresses)
        self.pop.selected = self._selected
        self.grape.judged = self._judged
        self.verdicts: dict[Client, Verdict] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        self.tracer.attach(core)
        self.pop.attach(core)
        self.grape.attach(core)
        self.publications.traced = self._passes
        self.advertisements.on_gone.append(self._gone)
        self.migration.turned = self._turned
        self.migration.ended = self._ended
        self.set(self.settings)

    def set(self, settings: RelocationSettings) -> None:
        """Also while the broker runs; what the other algorithm had begun is forgotten."""
        if settings.algorithm != self.settings.algorithm:
            text = f"publishers of {self.core.name} move by {settings.algorithm}"
            self.core.event(self.core.now, "relocation.set", text, algorithm=settings.algorithm)
            self.pop.publishers.clear()
            self.grape.sessions.clear()
            self.verdicts.clear()
        self.settings = self.tracer.settings = settings
        self.publications.tag = None if settings.algorithm == "off" else self._tag

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        """What pubctl has set stays until the file says something new."""
        if self.core.settings.relocation != before.relocation:
            self.set(self.core.settings.relocation)

    def change(self, **changes: str | float | int) -> str:
        """Some settings; what is wrong with them, if something is."""
        wrong = self.check(**changes)
        if not wrong:
            self.set(replace(self.settings, **changes))
        return wrong

    def check(self, **changes: str | float | int) -> str:
        settings = replace(self.settings, **changes)
        if settings.algorithm not in ALGORITHMS:
            return f"the algorithm is one of {', '.join(ALGORITHMS)}"
        if settings.priority not in PRIORITIES:
            return f"the priority is one of {', '.join(PRIORITIES)}"
        if not 0 <= settings.weight <= 100:
            return "the weight is a percentage"
        if not 1 <= settings.threshold <= THRESHOLD_MAX:
            return f"the threshold is a number of publications, at most {THRESHOLD_MAX}"
        return ""

    # --- publications -------------------------------------------------------------------------------

    def _tag(self, client: Client, batch: list[Publication], now: float) -> None:
        if self.settings.algorithm == "pop":
            self.pop.tag(client, batch, self.settings, now)
        else:
            self.grape.tag(client, batch, self.settings, now)

    def _passes(self, side: Side, traced: list[Publication], now: float) -> None:
        for publication in traced:
            if publication.extension and (mark := self.tracer.read(publication)) is not None:
                id, index, single = mark
                if single:
                    self.pop.passes(side, publication, id, now)
                else:
                    self.grape.note(side, publication, id, index)

    # --- decisions ----------------------------------------------------------------------------------

    def _selected(self, client: Client, answer: RelocationAnswer | None, now: float) -> None:
        """POP's word: the closest broker, or nobody is closer than we."""
        if answer is None:
            self.verdicts[client] = Verdict((self.core.id,), self.core.name, (), None, now)
        else:
            self._move(client, Verdict(answer.path, answer.name, answer.addresses, None, now), now)

    def _judged(self, client: Client, choice: Choice, now: float) -> None:
        """GRAPE's: every candidate with its load and delay."""
        settings, here = self.settings, self.core.id
        candidates = choice.candidates
        target = relocation_target(candidates, here, settings.priority, settings.weight, settings.gain)
        best = choose(candidates, here, settings.priority, settings.weight)
        home = next(c for c in candidates if c.broker == here)
        before, after = (
            (home.delay_s, best.delay_s) if settings.priority == "delay" else (home.messages, best.messages)
        )
        saves = 1.0 - after / before if before else 0.0
        trace = choice.traces[target]
        path = path_between(choice.traces, here, target)
        verdict = Verdict(path, trace.name, trace.addresses, saves, now)
        if target == here:
            verdict.saves = 0.0
            self.verdicts[client] = verdict
        else:
            self._move(client, verdict, now)

    def _move(self, client: Client, verdict: Verdict, now: float) -> None:
        self.verdicts[client] = verdict
        rest_s = 60.0 / max(self.settings.moves_per_minute, 1e-6)
        if now - client.since < rest_s:
            verdict.outcome = f"it came here less than {rest_s:.3g} s ago"
        elif len(verdict.path) > 1:
            by, saves = self.settings.algorithm.upper(), verdict.saves
            verdict.outcome = self.offer(
                client, verdict.path, verdict.name, verdict.addresses, now, by, saves
            )

    def offer(
        self,
        client: Client,
        path: tuple[int, ...],
        name: str,
        addresses: tuple[str, ...],
        now: float,
        by: str = "hand",
        saves: float | None = None,
    ) -> str:
        refused = self.migration.offer(client, path, name, addresses, now)
        if not refused:
            here, hops = self.core.name, len(path) - 1
            saved = "" if saves is None else f": saves {100 * saves:.0f} %"
            text = f"{client.name} is to publish at {name}, {hops} hops from {here}, by {by}{saved}"
            fields: dict[str, Any] = {
                "publisher": client.name,
                "from": here,
                "to": name,
                "hops": hops,
                "algorithm": by,
            }
            self.core.event(now, "relocate.started", text, **fields, saves=saves)
        return refused or "offered"

    def _ended(self, client: Client, moved: bool, now: float) -> None:
        if (verdict := self.verdicts.get(client)) is not None:
            verdict.outcome = "moved" if moved else "stayed"
        if moved:
            self._forget(client)

    # --- ends ---------------------------------------------------------------------------------------

    def _forget(self, client: Client) -> None:
        self.pop.forget_client(client)
        self.grape.forget_client(client)
        self.verdicts.pop(client, None)

    def _turned(self, publisher: int, incarnation: int) -> None:
        """The publisher moves: what was known of it was seen from elsewhere (POP 3.3)."""
        self.pop.forget_publisher((publisher, incarnation))
        self.grape.forget_publisher((publisher, incarnation))

    def _gone(self, advertisement: Advertisement) -> None:
        source = (advertisement.publisher, advertisement.incarnation)
        if not self.tracer.known(source):
            self._turned(*source)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            self._forget(session)
        elif isinstance(session, Peer):
            self.pop.forget_neighbour(session.id)

    # --- what it looks like -------------------------------------------------------------------------

    def status(self) -> Status:
        settings = self.settings
        return {
            "algorithm": settings.algorithm,
            "priority": settings.priority,
            "weight": settings.weight,
            "moved": self.migration.moved,
            "aborted": self.migration.aborted,
            "publishers": [
                self.row(client) for client in self.core.clients.values() if client.advertisements
            ],
        }

    def row(self, client: Client) -> Status:
        profiled, session = self.pop.publishers.get(client), self.grape.sessions.get(client)
        verdict = self.verdicts.get(client)
        traces = profiled.traces if profiled is not None else session.index if session is not None else 0
        return {
            "publisher": client.name,
            "at": self.core.name,
            "traces": traces,
            "threshold": self.settings.threshold,
            "target": verdict.name if verdict is not None else None,
            "path": len(verdict.path) - 1 if verdict is not None else None,
            "saves": verdict.saves if verdict is not None else None,
            "outcome": verdict.outcome if verdict is not None else "",
            "moving": client in self.migration.departures,
        }

    def validate(self) -> None:
        for client in (*self.pop.publishers, *self.grape.sessions, *self.verdicts):
            assert not client.lost, client
