"""Where to cut a segment, and which segment (BlueDove III-C, IV-E).

* The cut is the median of the *publications'* values in the segment, not of the subscriptions and not its
  middle: what a matcher does is publications times what one costs, and sets of equal size would take away
  the cold spots that the scheme lives from. The paper splits "half of the segment" and "half of its
  subscriptions".
* Publications that all have one value are an atom: it cannot be cut.
* Work of a segment = arrivals a second x seconds that one takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from grapevine.filters.normal import Value
from overlay.onehop.values import value_key

SAMPLES = 1024
Weighted: TypeAlias = tuple[Value | None, float]  # a value, and for how many publications it stands


def split_point(sample: Iterable[Value | None], share: float = 0.5) -> Value | None:
    """The boundary that leaves nearest to `share` of the publications below it; None if there is none.

    A boundary belongs to the upper part, so the least value is none: nothing would stay below it."""
    weighted = [(value, 1.0) for value in sample]
    cut = cut_near(weighted, len(weighted) * share)
    return None if cut is None else cut.boundary


class Split(NamedTuple):
    boundary: Value
    below: float  # weight of what lies below it


def cut_near(sample: Iterable[Weighted], wanted: float) -> Split | None:
    """The same by weight: nearest to `wanted` below."""
    keyed = sorted(((value_key(value), weight) for value, weight in sample), key=itemgetter(0))
    best: Split | None = None
    below = 0.0
    for (last, weight), (key, _) in pairwise(keyed):
        below += weight
        if key != last and (best is None or abs(below - wanted) < abs(best.below - wanted)):
            best = Split(key[1], below)
    return best


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
