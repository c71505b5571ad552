"""What a normal form means. The obvious way, one predicate after the other: indexes are compared with this.

A predicate about a missing attribute, or about a value of another type, is false; ABSENT alone is true
of a missing one. Numbers compare exactly, an int is never turned into a float; strings by code point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grapevine.filters.geo import distance_km, is_position
from grapevine.filters.normal import Filter, Op, Predicate, Value, value_type

ABSENT = int(Op.ABSENT)
IN_CIRCLE = int(Op.IN_CIRCLE)


def matches(filter: Filter, attributes: Mapping[str, Value]) -> bool:
    for conjunction in filter.conjunctions:
        for predicate in conjunction:
            if not holds(predicate, attributes):
                break
        else:
            return True
    return False


def holds(predicate: Predicate, attributes: Mapping[str, Value]) -> bool:
    """Whether one predicate is true of a publication with these attributes."""
    op = predicate.op
    if predicate.attribute not in attributes:
        return op == ABSENT
    value = attributes[predicate.attribute]
    if op < IN_CIRCLE:
        return ACCEPTS[op](predicate.operand, value)
    inside = _inside(predicate.operand, value, attributes)
    return inside is (op == IN_CIRCLE)


def accepts(op: int, operand: Any, value: Value) -> bool:
    """Whether a predicate about one attribute is true of this value of it."""
    return ACCEPTS[op](operand, value)


def same(one: Value, other: Value) -> bool:
    """Equal and of one type: 1 = 1.0, but 1 is not true."""
    return one == other and value_type(one) is value_type(other)


def _other(operand: Value, value: Value) -> bool:
    return value != operand and value_type(value) is value_type(operand)


def _in_range(operand: Any, value: Any) -> bool:
    low, high, low_open, high_open = operand
    if value_type(value) is not value_type(high if low is None else low):
        return False
    if low is not None and not (value > low if low_open else value >= low):
        return False
    return high is None or bool(value < high if high_open else value <= high)


# What each operator asks of (operand, value).
ACCEPTS: dict[int, Callable[[Any, Any], bool]] = {
    Op.EQ: same,
    Op.NE: _other,
    Op.RANGE: _in_range,
    Op.IN: lambda operand, value: any(same(one, value) for one in operand),
    Op.PREFIX: lambda part, value: isinstance(value, str) and value.startswith(part),
    Op.SUFFIX: lambda part, value: isinstance(value, str) and value.endswith(part),
    Op.CONTAINS: lambda part, value: isinstance(value, str) and part in value,
    Op.NOT_PREFIX: lambda part, value: isinstance(value, str) and not value.startswith(part),
    Op.NOT_SUFFIX: lambda part, value: isinstance(value, str) and not value.endswith(part),
    Op.NOT_CONTAINS: lambda part, value: isinstance(value, str) and part not in value,
    Op.EXISTS: lambda _, value: True,
    Op.ABSENT: lambda _, value: False,
}


def _inside(operand: Any, latitude: Any, attributes: Mapping[str, Value]) -> bool | None:
    """Whether the position is in the circle; None where there is no position."""
    name, centre_latitude, centre_longitude, km = operand
    longitude: Any = attributes.get(name)
    if longitude is None or value_type(latitude) is not float or value_type(longitude) is not float:
        return None
    if not is_position(latitude, longitude):
        return None
    return bool(distance_km(latitude, longitude, centre_latitude, centre_longitude) <= km)
