"""Rule D: the next hop to a member changes when all that is on its way there is settled, on every lane."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from grapevine.wire.messages import Publication
from overlay.chord.path import DOWN, DOWN_BEHIND, ChordPath, Targets
from overlay.links.settling import Settling

HERE, MEMBER = 10, 70


def hop(name: str, place: int) -> Any:
    """A session whose lanes count what is appended."""
    session = SimpleNamespace(name=name, id=place, lost=False)
    lanes = {number: Lane(session, number) for number in (DOWN, DOWN_BEHIND)}
    session.lane = lanes.__getitem__
    return session


class Lane:
    def __init__(self, session: Any, number: int) -> None:
        self.session, self.lane_number = session, number
        self.out, self.settled, self.sent = self, 0, 0

    def end(self) -> int:
        return self.sent


class Path(ChordPath):
    """Of a broker that knows one way to the member, which may become another."""

    def __init__(self, way: Any) -> None:
        self.next, self.stranded, self.first_lane = {}, [], 0
        self.membership: Any = SimpleNamespace(
            me=SimpleNamespace(position=HERE), place_of=lambda broker: broker, hop_to=lambda target: way
        )
        self.contacts: Any = SimpleNamespace(session=lambda node: node)

    def _append(self, lane: Any, run: list[Publication], targets: Targets) -> None:
        lane.out.sent += len(run)

    def pass_on(self, sequence: int, came: int) -> str:
        run = [Publication(b"", b"x", sequence, 0, 1, 5)]
        (lane,) = self._down_all(run, (MEMBER,), came, Settling(None), 0.0)
        return str(lane.session.name)  # type: ignore[attr-defined]


def test_a_lane_that_is_settled_says_nothing_of_the_other_one() -> None:
    """74 waits on one lane, another topic's went by the other and is settled. A newer one of 74's publisher
    went by another broker and was there first: 74 was taken for a duplicate (chord 112)."""
    old, new = hop("old", 30), hop("new", 40)
    path = Path(old)
    assert path.pass_on(74, DOWN) == path.pass_on(5, DOWN_BEHIND) == "old"
    old.lane(DOWN_BEHIND).out.settled = 1
    path.membership.hop_to = lambda target: new
    assert path.pass_on(92, DOWN) == "old"
    old.lane(DOWN).out.settled = 2
    assert path.pass_on(98, DOWN) == "new"
