"""SPEC A4: which broker a new subscriber gets (BAD 5.1), before anything is known of its subscriptions.

nearest by great circle where both places are known, else by the round trips that the subscriber measured,
else in turn; round robin; random. The answer is every broker, best first: who does not reach the first tries
the next ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from grapevine.filters.geo import distance_km

Assign: TypeAlias = Literal["nearest", "round_robin", "random"]
Location: TypeAlias = tuple[float, float]  # latitude, longitude in degrees


class Candidate(NamedTuple):
    name: str
    location: Location | None = None


class Placement:
    """The one thing it remembers is whose turn it is."""

    __slots__ = ("assign", "chance", "_turn")

    def __init__(self, assign: Assign, chance: Random) -> None:
        self.assign = assign
        self.chance = chance
        self._turn = 0

    def choose(
        self,
        brokers: Sequence[Candidate],
        location: Location | None = None,
        round_trips: Mapping[str, float] | None = None,
    ) -> list[str]:
        """`brokers` in the order in which they take turns."""
        if not brokers:
            return []
        if self.assign == "random":
            return self.chance.sample([each.name for each in brokers], len(brokers))
        if self.assign == "nearest":
            ranked = nearest(brokers, location, round_trips or {})
            if ranked:
                return ranked
        return self._in_turn(brokers)

    def _in_turn(self, brokers: Sequence[Candidate]) -> list[str]:
        first = self._turn % len(brokers)
        self._turn += 1
        return [each.name for each in (*brokers[first:], *brokers[:first])]


def nearest(
    brokers: Sequence[Candidate], location: Location | None, round_trips: Mapping[str, float]
) -> list[str]:
    """Empty if nothing is known. Brokers without a place or a round trip come last, in their order."""
    far = float("inf")
    away = {}
    for each in brokers:
        if location is not None:
            away[each.name] = distance_km(*location, *each.location) if each.location else far
        else:
            away[each.name] = round_trips.get(each.name, far)
    if all(distance == far for distance in away.values()):
        return []
    return sorted(away, key=away.__getitem__)
