"""Where publications are on their way, and what waits for one."""

from __future__ import annotations

from grapevine.wire.messages import Publication
from matching.routes import RouteCache
from overlay.links.lane import Lane
from overlay.links.settling import Settling

Targets = tuple[int, ...]  # positions
WayKey = tuple[int, bool, int]
Held = tuple[Publication, Settling, int]  # and the lane that it came by
Entering = tuple[list[tuple[Publication, int]], Settling]  # with their topics


class Way:
    """Where a topic's publications go from here, and where the last of them are."""

    __slots__ = ("held", "lane", "last")

    def __init__(self) -> None:
        self.lane: Lane | None = None  # None with something in `last`: from here, as their root
        self.last: dict[Lane, int] = {}  # position of the last publication on each lane
        self.held: list[Held] = []

    @property
    def settled(self) -> bool:
        for lane in [lane for lane, last in self.last.items() if lane.out.settled >= last]:
            del self.last[lane]
        return not self.last


class Here:
    """The side that publications for the subscribers here come from."""

    name = ""

    def __init__(self) -> None:
        self.routes = RouteCache()


class Stranded:
    """Publications for members that no pointer leads to now."""

    __slots__ = ("came", "publications", "record", "since", "targets")

    def __init__(
        self, publications: list[Publication], targets: Targets, came: int, record: Settling, now: float
    ) -> None:
        self.publications, self.targets, self.came, self.record = publications, targets, came, record
        self.since = now
