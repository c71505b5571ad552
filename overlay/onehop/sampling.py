"""What is published, as every matcher must know it to cut segments (III-C).

* A matcher is asked about a part of what its segments cover: of a publication's candidates the policy asks
  one, and not the busy one. So what it is asked about says neither how much a segment covers nor where its
  median is. The dispatchers see all of it. Each tells every matcher once in `report_s` how much was published
  there, with an even sample of the values.
* A matcher keeps the last reports of each dispatcher. By them and the table it knows what any segment covers.
"""

from __future__ import annotations

from collections import deque
from random import Random

from grapevine.wire.onehop import DISPATCHER, Point, PublicationSample
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.onehop.cluster import Cluster
from overlay.onehop.member import Member
from overlay.onehop.reporting import Reporting
from overlay.onehop.segments import owns
from overlay.onehop.splitting import Weighted

SAMPLED = 16  # publications in a report
REPORTS = 60  # of each dispatcher that are kept: a minute


class Reservoir:
    """An even sample of what was seen, by algorithm R, until it is taken."""

    __slots__ = ("_chance", "points", "seen", "size")

    def __init__(self, size: int, chance: Random) -> None:
        self.size, self._chance = size, chance
        self.points: list[Point] = []
        self.seen = 0

    def add(self, point: Point) -> None:
        self.seen += 1
        if len(self.points) < self.size:
            self.points.append(point)
            return
        place = int(self._chance.random() * self.seen)
        if place < self.size:
            self.points[place] = point

    def take(self) -> tuple[int, list[Point]]:
        taken = self.seen, self.points
        self.seen, self.points = 0, []
        return taken


class Sampling(Quiet):
    name = "sampling"

    def __init__(self, cluster: Cluster, reporting: Reporting) -> None:
        self.cluster = cluster
        if cluster.roles & DISPATCHER:
            reporting.rounds.append(self._push)
        self._reports: dict[int, deque[PublicationSample]] = {}  # by dispatcher

    def attach(self, core: Core) -> None:
        self.core = core
        self._here = Reservoir(SAMPLED, core.random)
        self.see = self._here.add  # a publication of a client of ours
        core.on(PublicationSample, self.on_sample)

    def _push(self, now: float) -> None:
        published, points = self._here.take()
        if published:
            report = PublicationSample(published, points)
            for member in self.cluster.everybody():
                if member.is_matcher and member.reachable:
                    member.tell(report)

    def on_sample(self, member: Member, message: PublicationSample, now: float) -> None:
        dimensions = len(self.cluster.table.dimensions)
        if not message.points or any(len(point) != dimensions for point in message.points):
            self.core.refuse("sample")
            return
        self._reports.setdefault(member.id, deque(maxlen=REPORTS)).append(message)

    def link_lost(self, session: Session, now: float) -> None:
        self._reports.pop(session.id, None)

    def sample(self, dimension: int) -> list[Weighted]:
        """Values of what was published lately, each with the number of publications that it stands for."""
        return [
            (point[dimension], report.published / len(report.points))
            for reports in self._reports.values()
            for report in reports
            for point in report.points
        ]

    def covered(self, dimension: int) -> float:
        """The share of the publications that our own segments cover."""
        sample, spans = self.sample(dimension), self.cluster.own.segments[dimension]
        total = sum(weight for _, weight in sample)
        return sum(weight for value, weight in sample if owns(spans, value)) / total if total else 0.0

    def status(self) -> Status:
        return {"dispatchers": len(self._reports)}
