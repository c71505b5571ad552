"""A normal form as text that a person reads and `parse` reads back to the same form."""

from __future__ import annotations

import math
import re
from typing import Any

from grapevine.filters.language import KEYWORD, NUMBER, WORD_CHARACTER
from grapevine.filters.normal import Conjunction, Filter, Op, Predicate, Value

PLAIN_NAME = re.compile(rf"(?!(?:{KEYWORD}|{NUMBER})$){WORD_CHARACTER}+")

WORDS = {
    Op.EQ: "=",
    Op.NE: "!=",
    Op.PREFIX: "prefix",
    Op.SUFFIX: "suffix",
    Op.CONTAINS: "contains",
    Op.NOT_PREFIX: "prefix",
    Op.NOT_SUFFIX: "suffix",
    Op.NOT_CONTAINS: "contains",
}
NEGATED = frozenset((Op.NOT_PREFIX, Op.NOT_SUFFIX, Op.NOT_CONTAINS))


def to_text(filter: Filter) -> str:
    texts = [_conjunction(conjunction) for conjunction in filter.conjunctions]
    if len(texts) < 2:
        return "".join(texts) or "false"
    return " or ".join(
        f"({text})" if len(conjunction) > 1 else text for conjunction, text in zip(filter.conjunctions, texts)
    )


def name_text(name: str) -> str:
    if PLAIN_NAME.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def value_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"  # reads as infinity
    return repr(value)


def _conjunction(conjunction: Conjunction) -> str:
    return " and ".join(map(predicate_text, conjunction)) or "true"


def predicate_text(predicate: Predicate) -> str:
    """One condition, or two joined by `and` for a range with an open end."""
    name, op = name_text(predicate.attribute), Op(predicate.op)
    operand: Any = predicate.operand
    if op is Op.RANGE:
        return _range(name, *operand)
    if op is Op.IN:
        return f"{name} in ({', '.join(map(value_text, operand))})"
    if op is Op.EXISTS:
        return f"exists {name}"
    if op is Op.ABSENT:
        return f"not exists {name}"
    if op is Op.IN_CIRCLE or op is Op.NOT_IN_CIRCLE:
        circle = ", ".join(map(value_text, operand[1:]))
        text = f"within({name}, {name_text(operand[0])}, circle({circle}))"
        return text if op is Op.IN_CIRCLE else f"not {text}"
    text = f"{name} {WORDS[op]} {value_text(operand)}"
    return f"not {text}" if op in NEGATED else text


def _range(name: str, low: Value | None, high: Value | None, low_open: bool, high_open: bool) -> str:
    if low is not None and high is not None and not low_open and not high_open:
        return f"{name} between {value_text(low)} and {value_text(high)}"
    ends = []
    if low is not None:
        ends.append(f"{name} {'>' if low_open else '>='} {value_text(low)}")
    if high is not None:
        ends.append(f"{name} {'<' if high_open else '<='} {value_text(high)}")
    return " and ".join(ends)
