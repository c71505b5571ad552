"""Where to cut the values of an attribute into segments, from the bounds that predicates have in it.

* What a segment costs is the bounds in it times the publications that fall in it. These are not known
  before they come. Taken to be even, the cost is least where the density of cuts is the root of that of the
  bounds. Gaps that are out of all proportion count as less than they are, so that a few far bounds do not
  take the cuts away from the others.
"""

from __future__ import annotations

from math import inf, nextafter

import numpy as np
import numpy.typing as npt

from grapevine.filters.normal import Op, Predicate, Value
from matching.bounds import number_bounds
from matching.relations import after_prefix, region

Floats = npt.NDArray[np.float64]

MAX_CUTS = 122
BOUNDS = 64  # for so many there is one cut more
_FAR = 16.0  # times the usual gap


def number_cuts(bounds: Floats, most: int) -> list[float]:
    """At most so many cuts at some of the bounds, ascending."""
    bounds = np.sort(bounds)
    starts = np.flatnonzero(np.diff(bounds, prepend=-inf))
    values, counts = bounds[starts], np.diff(starts, append=len(bounds))
    if len(values) <= most:
        return values.tolist()  # type: ignore[no-any-return]
    if most < 2:
        return [float(values[len(values) // 2])] * most
    gaps = np.diff(values)
    usual = np.sort(gaps)[len(gaps) // 2]
    weights = np.sqrt(counts[1:] * gaps.clip(usual / _FAR, usual * _FAR)).cumsum()
    places = np.searchsorted(weights, np.arange(most) * (weights[-1] / most))
    return sorted(set(values[places].tolist()))


def text_cuts(bounds: list[str], most: int) -> list[str]:
    """Texts have no distance: as many bounds in each segment."""
    values = sorted(set(bounds))
    if len(values) <= most:
        return values
    return [values[place * len(values) // most] for place in range(most)]


def text_bounds(low: object, high: object, low_open: bool, high_open: bool) -> tuple[str, str | None]:
    """The least string above s is s + NUL, so that strings need no open and closed ends."""
    start = "" if low is None else f"{low}\0" if low_open else str(low)
    return start, None if high is None else str(high) if high_open else f"{high}\0"


def predicate_cuts(predicate: Predicate) -> list[float | str]:
    """Where a segment may end so that this predicate has no bound in it."""
    bounds = number_bounds(predicate)
    if bounds is not None:
        return [cut for cut in (bounds[0], nextafter(bounds[1], inf)) if abs(cut) != inf]
    op, operand = predicate.op, predicate.operand
    if op == Op.PREFIX or op == Op.NOT_PREFIX:
        return [cut for cut in (str(operand), after_prefix(str(operand))) if cut]
    if op == Op.RANGE:
        low, high, low_open, high_open = region(predicate)
        if isinstance(high if low is None else low, str):
            return [cut for cut in text_bounds(low, high, low_open, high_open) if cut]
    if op == Op.EQ or op == Op.NE:
        return _value_cuts(operand)  # type: ignore[arg-type]
    if op == Op.IN:
        return [cut for value in operand for cut in _value_cuts(value)]  # type: ignore[union-attr, arg-type]
    return []


def _value_cuts(value: Value) -> list[float | str]:
    if isinstance(value, str):
        return [value, value + "\0"]
    bounds = number_bounds(Predicate("", Op.EQ, value))
    return [] if bounds is None else [bounds[0], nextafter(bounds[0], inf)]
