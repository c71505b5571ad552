"""Which boundary of a dimension moves, and how far (BlueDove IV-E; the rule is ours).

* The segments of a dimension lie side by side. If all were to cover the same number of publications, what
  lies below a boundary would be what is due to the segments below it: the difference is what should cross it.
* A matcher that covers more than twice the mean gives over the boundary that more should cross. Whoever gets
  too much by that gives on, in the same direction: so a full segment between full ones empties too, and
  nothing goes to and fro, since every move brings its boundary nearer to its place.
* A move must gain something, or the noise of a sample would move boundaries for ever. One value is never cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from grapevine.wire.onehop import Entry, Span
from overlay.onehop.segments import interval, owns
from overlay.onehop.splitting import Weighted, cut_near
from overlay.onehop.values import BOTTOM, TOP, before

SHARE_MAX = 2.0  # of the mean of the dimension: above it a boundary moves
GAIN = 0.3  # of the mean: by so much a move must bring a boundary nearer to its place
LEAST = 64  # publications in a sample that is believed


class Segment(NamedTuple):
    owner: int
    span: Span


class Wanted(NamedTuple):
    """Publications that should leave the segment at `place` of the row, over its upper or lower boundary."""

    publications: float
    place: int
    upper: bool


def row_of(entries: Iterable[Entry], dimension: int) -> list[Segment]:
    """The segments side by side; none while there is a gap or an overlap: something is on its way."""
    row = [Segment(entry.owner, span) for entry in entries for span in entry.segments[dimension]]
    row.sort(key=lambda segment: interval(segment.span))
    ends = [(BOTTOM, BOTTOM), *(interval(segment.span) for segment in row), (TOP, TOP)]
    return row if all(one[1] == other[0] for one, other in pairwise(ends)) else []


def covered(row: Sequence[Segment], sample: Iterable[Weighted]) -> list[float]:
    """Publications in each segment."""
    starts = [interval(segment.span)[0] for segment in row]
    found = [0.0] * len(row)
    for value, weight in sample:
        found[bisect_right(starts, before(value)) - 1] += weight
    return found


def wanted_moves(owners: Sequence[int], publications: Sequence[float], own: int) -> list[Wanted]:
    """What `own` should give to the owners beside it, most first; nothing unless it has twice the mean."""
    shares = Counter[int]()
    for owner, count in zip(owners, publications):
        shares[owner] += count  # type: ignore[assignment]
    mean = sum(publications) / max(1, len(shares))
    if shares[own] <= SHARE_MAX * mean:
        return []
    segments = Counter(owners)
    due = [mean / segments[owner] for owner in owners]
    # Over the boundary above each segment; below 0 it should go down.
    crossing = list(accumulate(count - right for count, right in zip(publications, due)))
    moves = []
    for place, owner in enumerate(owners):
        if owner != own:
            continue
        if place + 1 < len(owners) and owners[place + 1] != own:
            moves.append(Wanted(crossing[place], place, True))
        if place and owners[place - 1] != own:
            moves.append(Wanted(-crossing[place - 1], place, False))
    return sorted((move for move in moves if move.publications >= GAIN * mean), reverse=True)


def part_to_give(
    span: Span, sample: Iterable[Weighted], wanted: float, upper: bool, gain: float
) -> Span | None:
    """The part of a segment that covers nearest to `wanted`; None if giving it gains too little."""
    inside = [(value, weight) for value, weight in sample if owns((span,), value)]
    total = sum(weight for _, weight in inside)
    cut = cut_near(inside, total - wanted if upper else wanted)
    if cut is None:
        return None
    given = total - cut.below if upper else cut.below
    if wanted - abs(wanted - given) < gain:
        return None
    return Span(cut.boundary, span.high) if upper else Span(span.low, cut.boundary)
