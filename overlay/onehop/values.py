"""One order of the values of a dimension, and where in it a filter can match (BlueDove II-A, III-A).

* absent < false < true < numbers < strings. It is the order of `matching.segments`; numbers compare exactly,
  so 1 and 1.0 are one value; strings go by code point. Nothing is mapped to a number and no domain is
  declared: the first segment is open below and the last above.
* A publication without the attribute has the value *absent*, the least of all, so that it has a candidate in
  every dimension. The paper's messages have all attributes.
* A **cut** lies before or after a value. An interval is two cuts, so that open and closed ends need no cases:
  [a, b) is before a .. before b, (a, b] is after a .. after b. Segments are half-open, as in the paper.
* The **range** of a conjunction holds every value of the attribute that a match of the conjunction can have;
  where it is not exact it is too large, never too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias

from grapevine.filters.geo import circle_spans
from grapevine.filters.normal import Conjunction, Filter, Op, Predicate, Value
from matching.relations import after_prefix

Key: TypeAlias = tuple[int, Any]  # rank of the type, value
Cut: TypeAlias = tuple[int, Any, int]  # rank, value, 0 before it or 1 after it
Interval: TypeAlias = tuple[Cut, Cut]
Intervals: TypeAlias = tuple[Interval, ...]

_ABSENT, _BOOL, _NUMBER, _STRING, _END = range(5)
ABSENT: Key = (_ABSENT, 0)
BOTTOM: Cut = (_ABSENT, 0, 0)
TOP: Cut = (_END, 0, 0)
EVERYTHING: Intervals = ((BOTTOM, TOP),)

_PRESENT: Interval = ((_ABSENT, 0, 1), TOP)
_BOOLS: Interval = ((_BOOL, False, 0), (_BOOL, True, 1))
_NUMBERS: Interval = ((_NUMBER, -inf, 0), (_NUMBER, inf, 1))
_STRINGS: Interval = ((_STRING, "", 0), TOP)


def value_key(value: Value | None) -> Key:
    """None is absent."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return _BOOL, value
    return (_STRING, value) if isinstance(value, str) else (_NUMBER, value)


def before(value: Value | None) -> Cut:
    return *value_key(value), 0


def after(value: Value | None) -> Cut:
    return *value_key(value), 1


def low_cut(boundary: Value | None) -> Cut:
    """Where a segment begins; None is open below."""
    return BOTTOM if boundary is None else before(boundary)


def high_cut(boundary: Value | None) -> Cut:
    """Where a segment ends; None is open above."""
    return TOP if boundary is None else before(boundary)


def holds(interval: Interval, value: Value | None) -> bool:
    return interval[0] <= before(value) < interval[1]


def meets(some: Interval, others: Iterable[Interval]) -> bool:
    low, high = some
    return any(max(low, start) < min(high, end) for start, end in others)


def intersection(some: Iterable[Interval], others: Sequence[Interval]) -> Intervals:
    found = ((max(a, c), min(b, d)) for a, b in some for c, d in others)
    return tuple((low, high) for low, high in found if low < high)


def conjunction_ranges(conjunction: Conjunction, dimension: str) -> Intervals:
    """Empty if no value can satisfy it."""
    found = EVERYTHING
    for predicate in conjunction:
        ranges = predicate_ranges(predicate, dimension)
        if ranges is not EVERYTHING:
            found = intersection(found, ranges)
    return found


def ranges_of(filter: Filter, dimension: str) -> Intervals:
    """Of all conjunctions: a subscription is placed by each of them."""
    ranges: dict[Interval, None] = {}
    for conjunction in filter.conjunctions:
        ranges.update(dict.fromkeys(conjunction_ranges(conjunction, dimension)))
    return tuple(ranges)


def is_broad(ranges: Intervals) -> bool:
    """Without a bound: such a subscription lies on every matcher of the dimension."""
    return any(low <= _PRESENT[0] and high >= TOP for low, high in ranges)


def predicate_ranges(predicate: Predicate, dimension: str) -> Intervals:
    op: int = predicate.op
    operand: Any = predicate.operand
    if op == Op.IN_CIRCLE or op == Op.NOT_IN_CIRCLE:
        return _circle_ranges(predicate, dimension)
    if predicate.attribute != dimension:
        return EVERYTHING
    if op == Op.EQ:
        return (_point(operand),)
    if op == Op.RANGE:
        return (_range(*operand),)
    if op == Op.IN:
        return tuple(_point(value) for value in operand)
    if op == Op.PREFIX:
        stop = after_prefix(operand)
        return ((before(operand), before(stop) if stop else TOP),)
    if op == Op.ABSENT:
        return ((BOTTOM, _PRESENT[0]),)
    if op == Op.EXISTS:
        return (_PRESENT,)
    return (_all_of(operand),)


def _point(value: Value) -> Interval:
    return before(value), after(value)


def _all_of(value: Value) -> Interval:
    """`!=`, suffix, contains and the negations: true only of values of the operand's type."""
    if isinstance(value, bool):
        return _BOOLS
    return _STRINGS if isinstance(value, str) else _NUMBERS


def _range(low: Any, high: Any, low_open: bool, high_open: bool) -> Interval:
    all_below, all_above = _all_of(high if low is None else low)
    start = all_below if low is None else (after(low) if low_open else before(low))
    end = all_above if high is None else (before(high) if high_open else after(high))
    return start, end


def _circle_ranges(predicate: Predicate, dimension: str) -> Intervals:
    operand: Any = predicate.operand
    longitude_name, latitude, longitude, km = operand
    if dimension not in (predicate.attribute, longitude_name):
        return EVERYTHING
    if predicate.op == Op.NOT_IN_CIRCLE:
        return (_NUMBERS,)
    latitudes, longitudes = circle_spans(latitude, longitude, km)
    spans: list[tuple[float, float]] = []
    if dimension == predicate.attribute:
        spans.append(latitudes)
    if dimension == longitude_name:
        spans = longitudes if not spans else [(-180.0, 180.0)]
    return tuple((before(low), after(high)) for low, high in spans)


def values_of(attributes: Mapping[str, Value], dimensions: Sequence[str]) -> tuple[Value | None, ...]:
    """A publication as a point of the space; None where it lacks the attribute."""
    return tuple(map(attributes.get, dimensions))
