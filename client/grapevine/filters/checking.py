"""Filters and attributes that came from outside: whatever passes here can be indexed and evaluated.

`check` takes a decoded filter, whatever a peer put into it, and lets through what is in normal form and
within the limits. It does not ask for the smallest form (a broker need not fold what a client sent),
only for the shape that indexes build on: predicates and conjunctions sorted and distinct, operands of
the operator's type, and at most one EQ, IN or RANGE about an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from grapevine.filters import limits
from grapevine.filters.geo import is_position
from grapevine.filters.limits import INT_MAX, INT_MIN, NAME_CHARS, STRING_CHARS
from grapevine.filters.normal import Filter, Op, Predicate, Value, predicate_key, value_key, value_type
from grapevine.filters.normalise import size

# Nothing else is said about an attribute beside one of these, except a circle beside the first two.
ALONE = frozenset((Op.EQ, Op.IN, Op.EXISTS, Op.ABSENT))
CIRCLES = frozenset((Op.IN_CIRCLE, Op.NOT_IN_CIRCLE))


def check(filter: Filter) -> None:
    """ValueError unless the filter is in normal form and within the limits."""
    conjunctions = filter.conjunctions
    _require(isinstance(conjunctions, tuple), "no tuple of conjunctions")
    _require(len(conjunctions) <= limits.CONJUNCTIONS, "more than CONJUNCTIONS")
    for conjunction in conjunctions:
        _check_conjunction(conjunction)
    if len(conjunctions) > 1:
        keys = [tuple(map(predicate_key, conjunction)) for conjunction in conjunctions]
        _require(
            all(left < right for left, right in pairwise(keys)), "conjunctions not sorted or not distinct"
        )
        _require(keys[0] != (), "a conjunction beside the one that is always true")
    _require(size(filter) <= limits.FILTER_SIZE, "larger than FILTER_SIZE")


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise ValueError(f"filter: {complaint}")


def _check_conjunction(conjunction: tuple[Predicate, ...]) -> None:
    _require(isinstance(conjunction, tuple), "no tuple of predicates")
    _require(len(conjunction) <= limits.PREDICATES, "more than PREDICATES in one conjunction")
    previous: Predicate | None = None
    for predicate in conjunction:
        _require(isinstance(predicate, Predicate), "no predicate")
        _check_name(predicate.attribute)
        operand_of = OPERANDS.get(predicate.op) if type(predicate.op) in (int, Op) else None
        if operand_of is None:
            raise ValueError(f"filter: no operator {predicate.op!r}")
        if not operand_of(predicate.operand):
            raise ValueError(f"filter: {predicate.attribute}: {Op(predicate.op).name} of this operand")
        if predicate.op in CIRCLES:
            _require(predicate.operand[0] != predicate.attribute, "a circle about one attribute")  # type: ignore[index]
        if previous is not None:
            _check_pair(previous, predicate)
        previous = predicate


def _check_name(name: Any) -> None:
    if not _is_name(name):
        raise ValueError(f"filter: an attribute's name is a string of 1 to {NAME_CHARS} characters")


def _check_pair(left: Predicate, right: Predicate) -> None:
    """Two neighbours: sorted, and not both about what one of them says alone."""
    if left.attribute != right.attribute:
        _require(left.attribute < right.attribute, "predicates not sorted")
        return
    _require(predicate_key(left) < predicate_key(right), "predicates not sorted or not distinct")
    if right.op in CIRCLES:
        allowed = left.op != Op.EXISTS and left.op != Op.ABSENT
    else:
        allowed = left.op not in ALONE and right.op not in ALONE and not left.op == right.op == Op.RANGE
    if not allowed:
        raise ValueError(f"filter: {left.attribute}: {Op(left.op).name} beside {Op(right.op).name}")


def _is_name(name: Any) -> bool:
    return type(name) is str and 0 < len(name) <= NAME_CHARS


def _is_string(value: Any) -> bool:
    return type(value) is str and len(value) <= STRING_CHARS


def _is_number(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(INT_MIN <= value <= INT_MAX)
    return kind is float and value == value


def _is_value(value: Any) -> bool:
    return _is_string(value) or _is_number(value) or type(value) is bool


def _is_end(value: Any) -> bool:
    return value is None or _is_number(value) or _is_string(value)


def _is_range(operand: Any) -> bool:
    if type(operand) is not tuple or len(operand) != 4:
        return False
    low, high, low_open, high_open = operand
    if not (_is_end(low) and _is_end(high) and type(low_open) is bool and type(high_open) is bool):
        return False
    if low is None or high is None:
        return not (low is high or (low is None and low_open) or (high is None and high_open))
    return bool(value_type(low) is value_type(high) and low < high)


def _is_list(operand: Any) -> bool:
    if type(operand) is not tuple or not 2 <= len(operand) <= limits.IN_VALUES:
        return False
    if not all(map(_is_value, operand)):
        return False
    return all(left < right for left, right in pairwise(map(value_key, operand)))


def _is_none(operand: Any) -> bool:
    return operand is None


def _is_circle(operand: Any) -> bool:
    if type(operand) is not tuple or len(operand) != 4:
        return False
    name, latitude, longitude, km = operand
    if not (_is_name(name) and _is_number(latitude) and _is_number(longitude) and _is_number(km)):
        return False
    return is_position(latitude, longitude) and bool(0 <= km < math.inf)


OPERANDS: dict[int, Callable[[Any], bool]] = {
    Op.EQ: _is_value,
    Op.NE: _is_value,
    Op.RANGE: _is_range,
    Op.IN: _is_list,
    Op.PREFIX: _is_string,
    Op.SUFFIX: _is_string,
    Op.CONTAINS: _is_string,
    Op.NOT_PREFIX: _is_string,
    Op.NOT_SUFFIX: _is_string,
    Op.NOT_CONTAINS: _is_string,
    Op.EXISTS: _is_none,
    Op.ABSENT: _is_none,
    Op.IN_CIRCLE: _is_circle,
    Op.NOT_IN_CIRCLE: _is_circle,
}


def check_attributes(attributes: Mapping[str, Value]) -> None:
    """ValueError unless these can be a publication's attributes. Every publish passes here: keep it lean."""
    if len(attributes) > limits.ATTRIBUTES:
        raise ValueError(f"{len(attributes)} attributes, at most {limits.ATTRIBUTES} (ATTRIBUTES)")
    # Never less than the encoded size: a byte or more per item, nine for a number, five before a string.
    size_bytes = 5
    for name, value in attributes.items():
        if type(name) is not str or not 0 < len(name) <= NAME_CHARS:
            raise ValueError(f"an attribute's name is a string of 1 to {NAME_CHARS} characters: {name!r:.80}")
        size_bytes += 14 + len(name) if name.isascii() else 14 + _utf8_bytes(name, name)
        kind = type(value)
        if kind is str:
            size_bytes += _checked_bytes(name, value)  # type: ignore[arg-type]
        elif kind is int:
            if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
                raise ValueError(f"attribute {name}: {value} does not fit into 64 bits")
        elif kind is float:
            if value != value:
                raise ValueError(f"attribute {name}: NaN equals nothing, not even itself")
        elif kind is not bool:
            raise ValueError(f"attribute {name}: {kind.__name__} is none of bool, int, float, str")
    if size_bytes > limits.ATTRIBUTES_BYTES:
        raise ValueError(
            f"attributes take {size_bytes} bytes, at most {limits.ATTRIBUTES_BYTES} (ATTRIBUTES_BYTES)"
        )


def _checked_bytes(name: str, value: str) -> int:
    if len(value) > limits.ATTRIBUTE_CHARS:
        raise ValueError(
            f"attribute {name}: {len(value)} characters, at most {limits.ATTRIBUTE_CHARS} (ATTRIBUTE_CHARS)"
        )
    return len(value) if value.isascii() else _utf8_bytes(name, value)


def _utf8_bytes(name: str, value: str) -> int:
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"attribute {name!r}: half of a surrogate pair is not a character") from None
