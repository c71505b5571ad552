"""Attributes of a publication as words of a command line: `symbol=YHOO volume=6200 halted=false`.

A value that reads as a number or as true or false is one, unless it stands in single quotes: then, and when
it is anything else, it is a string. A number that no publication carries is refused by its name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from grapevine.filters.limits import INT_MAX, INT_MIN
from tools.pubctl.failure import USAGE, Failure

Value = str | int | float | bool
INTEGER = re.compile(r"[+-]?[0-9]+")
FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NO_NUMBER = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
HOW = """12, -3, 1.5 and 2e6 are numbers, true and false are bools, all else is a string: YHOO, 0x10, 1_000.
In single quotes everything is one: "volume='12'". A shell takes quotes away, hence the double ones."""


def read(words: Iterable[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise Failure(f"{word!r} is no attribute: write name=value", USAGE)
        if name.strip() in found:
            raise Failure(f"{name.strip()} is given twice", USAGE)
        found[name.strip()] = value(text.strip(), name.strip())
    return found


def value(text: str, name: str = "value") -> Value:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if INTEGER.fullmatch(text):
        return _integer(text, name)
    if NO_NUMBER.fullmatch(text):
        raise Failure(
            f"{name}={text}: {text} is no number that can be published; {quoted(name, text)}", USAGE
        )
    if FLOAT.fullmatch(text):
        if math.isinf(number := float(text)):
            raise Failure(f"{name}={text}: too large for a number; {quoted(name, text)}", USAGE)
        return number
    return text


def _integer(text: str, name: str) -> int:
    number = int(text) if len(text) < 30 else INT_MAX + 1
    if not INT_MIN <= number <= INT_MAX:
        advice = f"{name}={text}.0 is a float; {quoted(name, text)}"
        raise Failure(f"{name}={text}: an integer must fit into 64 bits; {advice}", USAGE)
    return number


def quoted(name: str, text: str) -> str:
    return f"\"{name}='{text}'\" is a string"


def equals_all(attributes: dict[str, Value]) -> str:
    """A filter that says exactly these."""
    from grapevine.filters.printing import name_text, value_text

    return (
        " and ".join(f"{name_text(name)} = {value_text(value)}" for name, value in attributes.items())
        or "true"
    )
