"""One row against one publication, in as few steps as Python allows: what `evaluate.holds` says, by a table
of functions indexed with the operator. The tests hold the two together.

Python's `in` takes time with the product of two strings if they are chosen for it ('aaabaa' in 'aaaa...': a
quarter of a millisecond within our limits). Where that may happen a regular expression searches, whose
literal prefix is matched with an overlap table in time with the sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from grapevine.filters.evaluate import holds
from grapevine.filters.normal import Op, Predicate, Value
from matching.interface import Attributes


def satisfied(predicates: tuple[Predicate, ...], attributes: Attributes) -> bool:
    for predicate in predicates:
        value = attributes.get(predicate.attribute)
        if value is None:
            if predicate.op != _ABSENT:
                return False
        elif not CHECKS[predicate.op](predicate, value, attributes):
            return False
    return True


def _equal(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    operand = predicate.operand
    return value == operand and (value is operand or (type(value) is bool) == (type(operand) is bool))


def _range(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    operand: Any = predicate.operand
    low, high, low_open, high_open = operand
    if type(value) is bool:
        return False
    try:
        if low is not None and not (value > low if low_open else value >= low):
            return False
        return high is None or (value < high if high_open else value <= high)
    except TypeError:  # a string against a number
        return False


def _prefix(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    return type(value) is str and value.startswith(predicate.operand)  # type: ignore[arg-type]


def _suffix(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    return type(value) is str and value.endswith(predicate.operand)  # type: ignore[arg-type]


def _contains(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    return type(value) is str and _occurs(predicate.operand, value)  # type: ignore[arg-type]


def _not_contains(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    return type(value) is str and not _occurs(predicate.operand, value)  # type: ignore[arg-type]


def _occurs(part: str, text: str) -> bool:
    if len(part) * len(text) <= _COMPARISONS or text.count(part[-1]) * len(part) <= _COMPARISONS:
        return part in text
    return _pattern(part).search(text) is not None


@lru_cache(4096)
def _pattern(part: str) -> re.Pattern[str]:
    return re.compile(re.escape(part))


def _slow(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    return holds(predicate, attributes)


def _true(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    return True


def _false(predicate: Predicate, value: Value, attributes: Attributes) -> bool:
    return False


_ABSENT = int(Op.ABSENT)
_COMPARISONS = 4096  # characters that `in` may compare, at most
CHECKS: list[Callable[[Predicate, Value, Attributes], bool]] = [_slow] * (max(Op) + 1)
CHECKS[Op.EQ] = _equal
CHECKS[Op.RANGE] = _range
CHECKS[Op.PREFIX] = _prefix
CHECKS[Op.SUFFIX] = _suffix
CHECKS[Op.CONTAINS] = _contains
CHECKS[Op.NOT_CONTAINS] = _not_contains
CHECKS[Op.EXISTS] = _true
CHECKS[Op.ABSENT] = _false
