"""One conjunction, made as small as is cheap: constants absorbed, ranges merged, contradictions found.

`fold` takes the predicates that all must hold and gives the sorted conjunction, or None when no
publication can satisfy them. What it gives back means the same for every publication, and folding it
again changes nothing. It decides attribute by attribute; nothing is concluded from two attributes
together, except that both attributes of a circle are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grapevine.filters.evaluate import accepts, same
from grapevine.filters.limits import INT_MAX, INT_MIN
from grapevine.filters.normal import Conjunction, Op, Predicate, Value, predicate_key, value_key, value_type

CIRCLES = frozenset((Op.IN_CIRCLE, Op.NOT_IN_CIRCLE))
NUMBER_LEAST: float = -math.inf
STRING_LEAST = ""


def canonical(value: Value) -> Value:
    """One way to write each number: an int where the value is one and fits into 64 bits."""
    if isinstance(value, float) and value.is_integer() and INT_MIN <= value <= INT_MAX:
        return int(value)
    return value


def fold(predicates: Iterable[Predicate]) -> Conjunction | None:
    by_attribute: dict[str, list[Predicate]] = {}
    circles: dict[tuple[str, int, str], Predicate] = {}
    coordinates: set[str] = set()
    for predicate in predicates:
        if predicate.op in CIRCLES:
            circles[predicate_key(predicate)] = predicate
            coordinates.update((predicate.attribute, predicate.operand[0]))  # type: ignore[index, arg-type]
        else:
            by_attribute.setdefault(predicate.attribute, []).append(predicate)
    if any(
        (name, Op.NOT_IN_CIRCLE, operand) in circles for name, op, operand in circles if op == Op.IN_CIRCLE
    ):
        return None
    folded = list(circles.values())
    for name, asked in by_attribute.items():
        kept = _fold_attribute(name, asked, name in coordinates)
        if kept is None:
            return None
        folded += kept
    folded.sort(key=predicate_key)
    return tuple(folded)


def one_of(name: str, values: Iterable[Value]) -> list[Predicate] | None:
    """The attribute has one of these values: no predicate can say less."""
    distinct: list[Value] = []
    for value in sorted(values, key=value_key):
        if not distinct or not same(distinct[-1], value):
            distinct.append(value)
    if not distinct:
        return None
    if len(distinct) == 1:
        return [Predicate(name, Op.EQ, distinct[0])]
    return [Predicate(name, Op.IN, tuple(distinct))]


def finite_values(predicate: Predicate) -> Sequence[Value]:
    """What an EQ or an IN lists."""
    operand: Any = predicate.operand
    return operand if predicate.op == Op.IN else (operand,)


def _fold_attribute(name: str, asked: list[Predicate], coordinate: bool) -> list[Predicate] | None:
    if any(predicate.op == Op.ABSENT for predicate in asked):
        alone = not coordinate and all(predicate.op == Op.ABSENT for predicate in asked)
        return asked[:1] if alone else None
    # Every other predicate is false of a missing attribute, which leaves EXISTS nothing to say.
    rest = [predicate for predicate in asked if predicate.op != Op.EXISTS]
    if not rest:
        return [] if coordinate else asked[:1]
    for predicate in rest:
        if predicate.op == Op.EQ or predicate.op == Op.IN:
            return _select(name, finite_values(predicate), rest, coordinate)
    types = {_type_asked(predicate) for predicate in rest}
    if coordinate:
        types.add(float)
    if types == {float}:
        return _fold_numbers(name, rest, coordinate)
    if types == {str}:
        return _fold_strings(name, rest)
    if types == {bool}:
        return _select(name, (False, True), rest, coordinate)
    return None


def _select(
    name: str, values: Iterable[Value], asked: list[Predicate], coordinate: bool
) -> list[Predicate] | None:
    return one_of(
        name,
        (
            value
            for value in values
            if all(accepts(predicate.op, predicate.operand, value) for predicate in asked)
            and (not coordinate or value_type(value) is float)
        ),
    )


def _type_asked(predicate: Predicate) -> type:
    operand: Any = predicate.operand
    if predicate.op == Op.RANGE:
        return value_type(operand[1] if operand[0] is None else operand[0])
    return value_type(operand)


class _Interval:
    """The intersection of ranges over one type; `high` None means no end (strings have no greatest)."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high
        self.low_open = self.high_open = False

    def narrow(self, low: Any, high: Any, low_open: Any, high_open: Any) -> None:
        if low is not None and (low > self.low or (low == self.low and low_open)):
            self.low, self.low_open = low, bool(low_open)
        if high is not None and (self.high is None or high < self.high or (high == self.high and high_open)):
            self.high, self.high_open = high, bool(high_open)

    def exclude(self, value: Any) -> None:
        """A closed end that may not be taken is an open end; inside, nothing changes."""
        self.low_open |= value == self.low
        self.high_open |= value == self.high

    @property
    def empty(self) -> bool:
        if self.high is None:
            return False
        return bool(self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)))

    def range(self, name: str, least: Any, greatest: Any) -> Predicate | None:
        """None when it holds every value of the type."""
        low = None if self.low == least and not self.low_open else self.low
        high = None if self.high == greatest and not self.high_open else self.high
        if low is None and high is None:
            return None
        return Predicate(name, Op.RANGE, (low, high, self.low_open, self.high_open))


def _fold_numbers(name: str, asked: list[Predicate], coordinate: bool) -> list[Predicate] | None:
    ranges, rest = _split(asked)
    if not ranges:
        return rest
    interval = _Interval(NUMBER_LEAST, math.inf)
    if not _narrow(interval, ranges, rest):
        return None
    if interval.low == interval.high:
        return _select(name, (interval.low,), asked, coordinate)
    merged = interval.range(name, NUMBER_LEAST, math.inf)
    if merged is None:
        # Any number: the one range that says so, where nothing else does.
        return rest if rest or coordinate else [Predicate(name, Op.RANGE, (NUMBER_LEAST, None, False, False))]
    return [merged, *_surviving(rest, [merged])]


def _fold_strings(name: str, asked: list[Predicate]) -> list[Predicate] | None:
    ranges, rest = _split(asked)
    interval = _Interval(STRING_LEAST, None)
    if ranges and not _narrow(interval, ranges, rest):
        return None
    if interval.low == interval.high:
        return _select(name, (interval.low,), asked, False)
    parts = _fold_parts(name, {op: _operands(rest, op) for op in Op})
    if parts is None:
        return None
    merged = interval.range(name, STRING_LEAST, None)
    kept = parts if merged is None else [merged, *parts]
    kept += _surviving([predicate for predicate in rest if predicate.op == Op.NE], kept)
    return kept or [Predicate(name, Op.PREFIX, "")]  # any string


def _split(asked: list[Predicate]) -> tuple[list[Predicate], list[Predicate]]:
    """Ranges, and the others, each once."""
    others = {predicate_key(predicate): predicate for predicate in asked if predicate.op != Op.RANGE}
    return [predicate for predicate in asked if predicate.op == Op.RANGE], list(others.values())


def _narrow(interval: _Interval, ranges: list[Predicate], rest: list[Predicate]) -> bool:
    for predicate in ranges:
        interval.narrow(*predicate.operand)  # type: ignore[misc]
    for predicate in rest:
        if predicate.op == Op.NE:
            interval.exclude(predicate.operand)
    return not interval.empty


def _surviving(unequal: list[Predicate], others: list[Predicate]) -> list[Predicate]:
    """The NEs that forbid a value which the others allow."""
    return [
        predicate
        for predicate in unequal
        if all(accepts(other.op, other.operand, predicate.operand) for other in others)  # type: ignore[arg-type]
    ]


def _operands(predicates: list[Predicate], op: Op) -> list[str]:
    return [str(predicate.operand) for predicate in predicates if predicate.op == op]


def _fold_parts(name: str, parts: dict[Op, list[str]]) -> list[Predicate] | None:
    """Prefix, suffix, contains and their negations about one string."""
    prefix = max(parts[Op.PREFIX], key=len, default="")
    suffix = max(parts[Op.SUFFIX], key=len, default="")
    if not all(prefix.startswith(other) for other in parts[Op.PREFIX]):
        return None
    if not all(suffix.endswith(other) for other in parts[Op.SUFFIX]):
        return None
    inside = _minimal(parts[Op.CONTAINS], lambda part, other: part in other)
    inside = [part for part in inside if part not in prefix and part not in suffix]
    # Each negation: contradicted by what must be there, or implied by a wider negation.
    if any(prefix.startswith(part) for part in parts[Op.NOT_PREFIX]):
        return None
    if any(suffix.endswith(part) for part in parts[Op.NOT_SUFFIX]):
        return None
    if any(part in known for part in parts[Op.NOT_CONTAINS] for known in (prefix, suffix, *inside)):
        return None
    not_prefix = [part for part in parts[Op.NOT_PREFIX] if part.startswith(prefix)]
    not_suffix = [part for part in parts[Op.NOT_SUFFIX] if part.endswith(suffix)]
    kept = {
        Op.PREFIX: [prefix] if prefix else [],
        Op.SUFFIX: [suffix] if suffix else [],
        Op.CONTAINS: inside,
        Op.NOT_PREFIX: _minimal(not_prefix, lambda part, other: part.startswith(other)),
        Op.NOT_SUFFIX: _minimal(not_suffix, lambda part, other: part.endswith(other)),
        Op.NOT_CONTAINS: _minimal(parts[Op.NOT_CONTAINS], lambda part, other: other in part),
    }
    return [Predicate(name, op, part) for op, strings in kept.items() for part in strings]


def _minimal(strings: list[str], implied_by: Callable[[str, str], bool]) -> list[str]:
    """Those that no other one implies; equal ones once."""
    distinct = list(dict.fromkeys(strings))
    return [
        part for part in distinct if not any(other != part and implied_by(part, other) for other in distinct)
    ]
