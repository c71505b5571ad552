"""The segment table: who owns which part of every dimension (BlueDove III-A, III-C).

* An entry has one writer, its owner, and of two entries of one owner the one with the higher (incarnation,
  version) counts. So two tables are merged owner by owner and nothing has to be agreed on. Others may only
  call an owner dead, at the version that they know; the owner overrules that by a higher one.
* The table is a hint. Overlaps and gaps are allowed: a matcher answers only for what it knows to be its own
  and complete, a dispatcher that sees two owners uses either, one that sees none has a candidate less.
* A publication has a candidate in each dimension; a subscription goes to every owner whose segment meets its
  range in that dimension.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from grapevine.filters.normal import Filter, Value
from grapevine.wire.onehop import DEAD, Entry, Span
from overlay.onehop.values import Cut, Interval, before, high_cut, low_cut, meets, ranges_of

WHOLE = Span()


class Candidate(NamedTuple):
    """A matcher that can answer for a publication alone, in this dimension."""

    matcher: int
    dimension: int


def interval(span: Span) -> Interval:
    return low_cut(span.low), high_cut(span.high)


def is_gone(entry: Entry) -> bool:
    return entry.state >= DEAD


def newer(entry: Entry, known: Entry | None) -> bool:
    """At one version a verdict of death counts over what the owner said."""
    return known is None or _rank(entry) > _rank(known)


def _rank(entry: Entry) -> tuple[int, int, bool]:
    return entry.incarnation, entry.version, is_gone(entry)


class Cover:
    """One dimension: its segments laid side by side, each piece with its owners."""

    __slots__ = ("_cuts", "_owners")

    def __init__(self, pieces: Iterable[tuple[Interval, int]]) -> None:
        segments = sorted(pieces)
        self._cuts: list[Cut] = sorted({cut for part, _ in segments for cut in part} | {low_cut(None)})
        starts = {cut: place for place, cut in enumerate(self._cuts)}
        owners: list[list[int]] = [[] for _ in self._cuts]
        for (low, high), owner in segments:
            for place in range(starts[low], starts.get(high, len(self._cuts))):
                if owner not in owners[place]:
                    owners[place].append(owner)
        self._owners = [tuple(found) for found in owners]

    def owners(self, value: Value | None) -> tuple[int, ...]:
        return self._owners[bisect_right(self._cuts, before(value)) - 1]

    def meeting(self, ranges: Iterable[Interval]) -> set[int]:
        """Owners of the segments that one of the ranges meets."""
        found: set[int] = set()
        for low, high in ranges:
            place = bisect_right(self._cuts, low) - 1
            while place < len(self._cuts) and self._cuts[place] < high:
                found.update(self._owners[place])
                place += 1
        return found

    def gaps(self) -> list[Interval]:
        ends = [*self._cuts[1:], high_cut(None)]
        pieces = zip(self._cuts, ends, self._owners)
        return [(low, high) for low, high, owners in pieces if not owners and low < high]

    def in_order(self) -> list[int]:
        """Owners by where their first segment begins."""
        return list(dict.fromkeys(owner for owners in self._owners for owner in owners))


class SegmentTable:
    __slots__ = ("_covers", "dimensions", "entries", "generation")

    def __init__(self, dimensions: Sequence[str]) -> None:
        self.dimensions = tuple(dimensions)
        self.entries: dict[int, Entry] = {}
        self.generation = 0  # counts changes: who computed something by the table compares it
        self._covers: list[Cover] | None = None

    def merge(self, entry: Entry) -> bool:
        """Whether it was news."""
        if len(entry.segments) != len(self.dimensions) or not newer(entry, self.entries.get(entry.owner)):
            return False
        self.entries[entry.owner] = entry
        self._changed()
        return True

    def forget(self, owner: int) -> None:
        if self.entries.pop(owner, None) is not None:
            self._changed()

    def _changed(self) -> None:
        self.generation += 1
        self._covers = None

    @property
    def serving(self) -> Iterator[Entry]:
        """Who may be asked: a matcher that leaves answers until its segments are taken."""
        return (entry for entry in self.entries.values() if not is_gone(entry) and any(entry.segments))

    @property
    def covers(self) -> list[Cover]:
        if self._covers is None:
            self._covers = [self._cover(place) for place in range(len(self.dimensions))]
        return self._covers

    def _cover(self, dimension: int) -> Cover:
        return Cover(
            (interval(span), entry.owner) for entry in self.serving for span in entry.segments[dimension]
        )

    def candidates(self, values: Sequence[Value | None]) -> list[Candidate]:
        """III-A 1): at most one for each dimension at rest, none where nobody owns the value."""
        return [
            Candidate(owner, dimension)
            for dimension, (cover, value) in enumerate(zip(self.covers, values))
            for owner in cover.owners(value)
        ]

    def owners_of(self, filter: Filter) -> list[set[int]]:
        """For each dimension the matchers that must have a copy."""
        return [
            cover.meeting(ranges_of(filter, dimension))
            for cover, dimension in zip(self.covers, self.dimensions)
        ]

    def uncovered(self) -> list[list[Interval]]:
        return [cover.gaps() for cover in self.covers]


def owns(spans: Iterable[Span], value: Value | None) -> bool:
    cut = before(value)
    return any(low_cut(span.low) <= cut < high_cut(span.high) for span in spans)


def touches(spans: Iterable[Span], ranges: Sequence[Interval]) -> bool:
    return any(meets(interval(span), ranges) for span in spans)


def spare_places(owners: Sequence[set[int]], covers: Sequence[Cover]) -> list[Candidate]:
    """III-A: where all copies lie on one matcher, one more on its neighbour in each dimension but the first.

    The neighbour is the owner of the next segment, the first one's after the last."""
    holders = set().union(*owners)
    if len(holders) != 1:
        return []
    (only,) = holders
    found = []
    for dimension in range(1, len(covers)):
        order = covers[dimension].in_order()
        if len(order) > 1 and only in order:
            found.append(Candidate(order[(order.index(only) + 1) % len(order)], dimension))
    return found


def span_text(span: Span) -> str:
    words = (
        "" if span.low is None else f"from {span.low!r}",
        "" if span.high is None else f"to {span.high!r}",
    )
    return " ".join(filter(None, words)) or "whole"


def is_empty(span: Span) -> bool:
    low, high = interval(span)
    return low >= high


def is_inside(span: Span, outer: Span) -> bool:
    (low, high), (start, end) = interval(span), interval(outer)
    return start <= low and high <= end


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same values in as few segments as possible, in order."""
    found: list[Span] = []
    for span in sorted(spans, key=interval):
        if found and low_cut(span.low) <= high_cut(found[-1].high):
            last = found.pop()
            high = max(last.high, span.high, key=high_cut)
            span = Span(last.low, high)
        found.append(span)
    return tuple(found)


def without(spans: Iterable[Span], part: Span) -> tuple[Span, ...]:
    """What is left when `part` is handed over."""
    low, high = interval(part)
    found = []
    for span in spans:
        start, end = interval(span)
        if high <= start or end <= low:
            found.append(span)
            continue
        if start < low:
            found.append(Span(span.low, part.low))
        if high < end:
            found.append(Span(part.high, span.high))
    return tuple(found)


def equal_cuts(boundaries: Sequence[Value], owners: Sequence[int]) -> list[tuple[int, Span]]:
    """One segment for each owner, cut at these boundaries (one less than owners)."""
    ends = [None, *boundaries, None]
    return [(owner, Span(ends[place], ends[place + 1])) for place, owner in enumerate(owners)]
