"""Attributes of a publication as words of a command line: `symbol=YHOO volume=6200 halted=false`.

A value that reads as a number or as true or false is one, unless it stands in single quotes.
"""

from __future__ import annotations

from collections.abc import Iterable

from tools.pubctl.failure import USAGE, Failure

Value = str | int | float | bool


def read(words: Iterable[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise Failure(f"{word!r} is no attribute: write name=value", USAGE)
        if name.strip() in found:
            raise Failure(f"{name.strip()} is given twice", USAGE)
        found[name.strip()] = value(text.strip())
    return found


def value(text: str) -> Value:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if number != number:
            raise Failure("NaN is no number", USAGE)
        return number if "_" not in text else text
    return text


def equals_all(attributes: dict[str, Value]) -> str:
    """A filter that says exactly these."""
    from grapevine.filters.printing import name_text, value_text

    return (
        " and ".join(f"{name_text(name)} = {value_text(value)}" for name, value in attributes.items())
        or "true"
    )
