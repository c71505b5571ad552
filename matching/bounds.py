"""Predicates as intervals, values as points, such that comparing floats gives exactly what the language says.

* `x > a` is `x >= the next float` and so on, as long as no integer lies between two neighbouring floats.
  Beyond 2**53 one may, so operands out there have no interval here and are checked one by one.
* A value is a pair (at or below it, above or at it reversed): for a float (v, -v), for a large integer the
  two floats around it. Then `low <= x <= high` is `low <= pair[0] and -high <= pair[1]`, both exact.
* A missing attribute is (-inf, -inf): below every bound, and equal to "no bound".
"""

from __future__ import annotations

from math import inf, nextafter
from typing import Any

from grapevine.filters.normal import Op, Predicate, Value

EXACT = 2.0**53
MISSING = (-inf, -inf)
_EQ, _RANGE = int(Op.EQ), int(Op.RANGE)  # an enum's member costs more than the comparison


def number_bounds(predicate: Predicate) -> tuple[float, float] | None:
    """(least, greatest) float that satisfies an equality or a range of numbers, if that says it all."""
    op = predicate.op
    value: Any = predicate.operand
    if op == _RANGE:
        low, high, low_open, high_open = value
        least, greatest = -inf, inf
        if low is not None:
            if type(low) is str or not -EXACT < low < EXACT:
                return None
            least = nextafter(low, inf) if low_open else float(low)
        if high is not None:
            if type(high) is str or not -EXACT < high < EXACT:
                return None
            greatest = nextafter(high, -inf) if high_open else float(high)
        return least, greatest
    if op == _EQ:
        if (type(value) is float or type(value) is int) and -EXACT < value < EXACT:
            return float(value), float(value)
    return None


def number_pair(value: Value | None) -> tuple[float, float]:
    kind = type(value)
    if kind is float:
        return value, -value  # type: ignore[operator, return-value]
    if kind is not int:
        return MISSING
    if -EXACT <= value <= EXACT:  # type: ignore[operator]
        return value, -value  # type: ignore[operator, return-value]
    return _around(value)  # type: ignore[arg-type]


def _around(value: int) -> tuple[float, float]:
    near = float(value)
    if near == value:
        return near, -near
    if near < value:
        return near, -nextafter(near, inf)
    return nextafter(near, -inf), -near
