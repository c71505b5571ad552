"""Loads of the matchers, pushed once a second where something has moved by a tenth (IV-C), and with each
answer.

Every member hears them: dispatchers choose by them, matchers see from whom to take a part.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.onehop import LoadReport
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.onehop.cluster import Cluster
from overlay.onehop.loads import has_moved
from overlay.onehop.member import Member
from overlay.onehop.policies import MatcherLoad


class Reporting(Quiet):
    name = "loads"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.loads: dict[int, MatcherLoad] = {}
        self.measure: Callable[[float], LoadReport] | None = None  # of a matcher: a window ends
        self.rounds: list[Callable[[float], None]] = []  # what else is to be done as often
        self._pushed: LoadReport | None = None

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(LoadReport, self.on_load)

    def start(self, now: float) -> None:
        self.core.timers.at(now + self.core.settings.onehop.report_s, self._push)

    def _push(self, now: float) -> None:
        if self.measure is not None:
            self._push_load(self.measure(self.core.settings.onehop.report_s))
        for call in self.rounds:
            call(now)
        self.core.timers.at(now + self.core.settings.onehop.report_s, self._push)

    def _push_load(self, report: LoadReport) -> None:
        if has_moved(report, self._pushed):
            self._pushed = report
            for member in self.cluster.everybody():
                member.tell(report)

    def on_load(self, member: Member, message: LoadReport, now: float) -> None:
        self.learn(member.id, message, now)

    def learn(self, matcher: int, report: LoadReport, now: float) -> None:
        if len(report.dimensions) == len(self.cluster.table.dimensions):
            self.loads[matcher] = MatcherLoad(report.dimensions, now, report.backlog_s, now)

    def sent(self, matcher: int, dimension: int, publications: int, now: float) -> None:
        """This dispatcher has sent so many; the others are taken to do the same."""
        if (load := self.loads.get(matcher)) is not None:
            work_s = publications * load.dimensions[dimension].cost_s
            self.loads[matcher] = load.after_sending(work_s * (1 + len(self.cluster.dispatchers())), now)

    def report(self, matcher: int) -> LoadReport:
        load = self.loads[matcher]
        return LoadReport(tuple(load.dimensions), load.backlog(self.core.now), 0.0)

    def work(self, matcher: int, dimension: int) -> float:
        """Seconds of work a second: arrivals x what one takes."""
        load = self.loads.get(matcher)
        return (
            0.0 if load is None else load.dimensions[dimension].arrivals * load.dimensions[dimension].cost_s
        )

    def arrivals(self, matcher: int, dimension: int) -> float:
        load = self.loads.get(matcher)
        return 0.0 if load is None else load.dimensions[dimension].arrivals

    def link_lost(self, session: Session, now: float) -> None:
        self.loads.pop(session.id, None)

    def status(self) -> Status:
        names = self.core.names
        return {
            names.get(matcher, str(matcher)): {
                "backlog_s": load.backlog(self.core.now),
                "arrivals_s": [round(of.arrivals, 1) for of in load.dimensions],
            }
            for matcher, load in self.loads.items()
        }
