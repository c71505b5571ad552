"""What a normal form means. The obvious way, one predicate after the other: indexes are compared with this.

A predicate about a missing attribute, or about a value of another type, is false; ABSENT alone is true
of a missing one. Numbers compare exactly, an int is never turned into a float; strings by code point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grapevine.filters.geo import distance_km, is_position
from grapevine.filters.normal import Filter, Op, Predicate, Value, value_type


def matches(filter: Filter, attributes: Mapping[str, Value]) -> bool:
    return any(
        all(holds(predicate, attributes) for predicate in conjunction) for conjunction in filter.conjunctions
    )


def holds(predicate: Predicate, attributes: Mapping[str, Value]) -> bool:
    """Whether one predicate is true of a publication with these attributes."""
    attribute, op, operand = predicate.attribute, predicate.op, predicate.operand
    if attribute not in attributes:
        return op == Op.ABSENT
    value = attributes[attribute]
    if op == Op.IN_CIRCLE or op == Op.NOT_IN_CIRCLE:
        return _circle(op, operand, value, attributes)
    return accepts(op, operand, value)


def accepts(op: int, operand: Any, value: Value) -> bool:
    """Whether a predicate about one attribute is true of this value of it."""
    if op == Op.EQ:
        return same(value, operand)
    if op == Op.NE:
        return value_type(value) is value_type(operand) and value != operand
    if op == Op.RANGE:
        return _in_range(operand, value)
    if op == Op.IN:
        return any(same(value, one) for one in operand)
    if op == Op.EXISTS:
        return True
    if op == Op.ABSENT:
        return False
    return isinstance(value, str) and _string(op, operand, value)


def same(value: Value, other: Value) -> bool:
    """Equal and of one type: 1 = 1.0, but 1 is not true."""
    return value == other and value_type(value) is value_type(other)


def _in_range(operand: Any, value: Any) -> bool:
    low, high, low_open, high_open = operand
    if value_type(value) is not value_type(high if low is None else low):
        return False
    if low is not None and not (value > low if low_open else value >= low):
        return False
    return high is None or (value < high if high_open else value <= high)


def _string(op: int, part: str, value: str) -> bool:
    if op == Op.PREFIX:
        return value.startswith(part)
    if op == Op.SUFFIX:
        return value.endswith(part)
    if op == Op.CONTAINS:
        return part in value
    if op == Op.NOT_PREFIX:
        return not value.startswith(part)
    if op == Op.NOT_SUFFIX:
        return not value.endswith(part)
    assert op == Op.NOT_CONTAINS, f"no such operator: {op}"
    return part not in value


def _circle(op: int, operand: Any, latitude: Any, attributes: Mapping[str, Value]) -> bool:
    name, centre_latitude, centre_longitude, km = operand
    longitude: Any = attributes.get(name)
    if longitude is None or value_type(latitude) is not float or value_type(longitude) is not float:
        return False
    if not is_position(latitude, longitude):
        return False
    away_km = distance_km(latitude, longitude, centre_latitude, centre_longitude)
    inside: bool = away_km <= km
    return inside == (op == Op.IN_CIRCLE)
