"""Where to cut a segment, and which segment (BlueDove III-C, IV-E).

* The cut is the median of the *publications'* values in the segment, not of the subscriptions and not its
  middle: what a matcher does is publications times what one costs, and sets of equal size would take away
  the cold spots that the scheme lives from. The paper splits "half of the segment" and "half of its
  subscriptions".
* Publications that all have one value are an atom: it cannot be cut.
* Work of a segment = arrivals a second x seconds that one takes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from grapevine.filters.normal import Value
from overlay.onehop.values import value_key

SAMPLES = 1024
SHARE_MAX = 2.0  # of the mean of the dimension: above it a boundary moves
HYSTERESIS = 1.3  # what the move must gain


class Reservoir:
    """An even sample of what was seen, by algorithm R; it forgets at `start`."""

    __slots__ = ("_random", "seen", "values")

    def __init__(self, chance: Random) -> None:
        self._random = chance
        self.start()

    def start(self) -> None:
        self.values: list[Value | None] = []
        self.seen = 0

    def add(self, value: Value | None) -> None:
        self.seen += 1
        if len(self.values) < SAMPLES:
            self.values.append(value)
        else:
            place = self._random.randrange(self.seen)
            if place < SAMPLES:
                self.values[place] = value


def split_point(sample: Iterable[Value | None], share: float = 0.5) -> Value | None:
    """The boundary that leaves nearest to `share` of the publications below it; None if there is none.

    A boundary belongs to the upper part, so the least value is none: nothing would stay below it."""
    keys = sorted(map(value_key, sample))
    if not keys or keys[0] == keys[-1]:
        return None
    wanted = len(keys) * share
    distinct = [key for key, last in zip(keys[1:], keys) if key != last]
    best = min(distinct, key=lambda key: (abs(bisect_left(keys, key) - wanted), key))
    return best[1]  # type: ignore[no-any-return]


def heaviest(work: Mapping[int, float]) -> list[int]:
    """Matchers by their work in one dimension, most first: who has an atom is followed by the next."""
    return sorted(work, key=lambda matcher: (-work[matcher], matcher))


def givers_each(work: Sequence[Mapping[int, float]]) -> list[list[int]]:
    """IV-E: in each dimension the owner with the most work."""
    return [heaviest(of_dimension) for of_dimension in work]


def givers_one(work: Sequence[Mapping[int, float]]) -> list[list[int]]:
    """III-C: every dimension from the matcher that is loaded most in all of them."""
    total: dict[int, float] = {}
    for of_dimension in work:
        for matcher, amount in of_dimension.items():
            total[matcher] = total.get(matcher, 0.0) + amount
    order = heaviest(total)
    return [[matcher for matcher in order if matcher in of_dimension] for of_dimension in work]


def share_to_give(own: float, neighbour: float, mean: float) -> float:
    """Which part of its publications a segment gives to its neighbour; 0: none.

    All three are publications a second. Both have the same afterwards."""
    if mean <= 0 or own <= SHARE_MAX * mean or own <= HYSTERESIS * neighbour:
        return 0.0
    return (own - neighbour) / 2 / own
