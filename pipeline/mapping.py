"""How columns become attributes and payload: words of a command line, or a small TOML file.

    --attributes "symbol, price=close, volume:number, class='STOCK'"     --payload json

    [attributes]                       # name = column, 'constant' in quotes, or a table
    symbol = "symbol"
    class = "'STOCK'"
    price = { column = "close", type = "number" }
    weight = { value = 1.5 }

    [payload]                          # column = "raw", or columns = ["a", "b"] as one JSON object
    columns = ["open", "high", "low"]

    [time]                             # for --speed
    column = "date"

Without any, every column is an attribute of its own name. Types: number (with a fraction), int, string, bool;
without one, a column of text files has the type that its first rows suggest.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from grapevine.filters.checking import check_attributes
from pipeline.trouble import USAGE, Trouble

TYPES = ("int", "number", "string", "bool")
Type = Literal["", "int", "number", "string", "bool"]
Value = str | int | float | bool
ALL = "*"

_ENTRY = re.compile(r"\s*((?:[^,']|'(?:[^']|'')*')+)\s*(?:,|$)")
_CONSTANT = re.compile(r"'((?:[^']|'')*)'")
_TYPED = re.compile(rf"(.+):({'|'.join(TYPES)})")


class Attribute(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    column: str = ""
    type: Type = ""
    value: Value | None = None  # instead of a column


class Payload(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    column: str = ""
    columns: list[str] = []  # as one JSON object; "*" is all


class Time(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    column: str = ""


class Mapping(msgspec.Struct):
    attributes: list[Attribute] = []  # none: every column
    payload: Payload = Payload()
    time: Time = Time()

    def columns(self) -> list[str]:
        """Every column that is named, once each."""
        named = [attribute.column for attribute in self.attributes]
        named += [self.payload.column, *self.payload.columns, self.time.column]
        return [name for name in dict.fromkeys(named) if name and name != ALL]


def from_words(attributes: str, payload: str, time: str = "") -> Mapping:
    found = [entry(text) for text in _split(attributes)] if attributes.strip() not in ("", ALL) else []
    return checked(Mapping(found, payload_from_word(payload), Time(time)), "--attributes")


def _split(text: str) -> list[str]:
    parts, at = [], 0
    while at < len(text):
        match = _ENTRY.match(text, at)
        if match is None:
            raise Trouble(f"--attributes: not understood from {text[at:]!r} on", USAGE)
        parts.append(match[1].strip())
        at = match.end()
    return [part for part in parts if part]


def entry(text: str) -> Attribute:
    """`column`, `name=column`, either with `:type`, or `name='constant'`."""
    name, equals, source = (part.strip() for part in text.partition("="))
    source = source if equals else name
    if constant := _CONSTANT.fullmatch(source):
        if not equals:
            raise Trouble(f"--attributes: {text} is a constant without a name: write name={text}", USAGE)
        return Attribute(name, value=constant[1].replace("''", "'"))
    kind: Any = ""
    if typed := _TYPED.fullmatch(source):
        source, kind = typed[1].strip(), typed[2]
        name = name if equals else source
    return Attribute(name, source, kind)


def payload_from_word(text: str) -> Payload:
    """`COLUMN`, `json` (all columns) or `json:a,b`."""
    text = text.strip()
    if text == "json":
        return Payload(columns=[ALL])
    if text.startswith("json:"):
        return Payload(columns=[name.strip() for name in text[5:].split(",") if name.strip()])
    return Payload(column=text)


def from_file(path: Path) -> Mapping:
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror}", USAGE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Trouble(f"{path}: not TOML: {error}", USAGE) from None
    unknown = [key for key in content if key not in ("attributes", "payload", "time")]
    if unknown:
        raise Trouble(f"{path}: {unknown[0]}: unknown; there are attributes, payload, time", USAGE)
    try:
        attributes = [_written(name, value) for name, value in content.get("attributes", {}).items()]
        payload = msgspec.convert(content.get("payload", {}), Payload)
        time = msgspec.convert(content.get("time", {}), Time)
    except (msgspec.ValidationError, AttributeError) as error:
        raise Trouble(f"{path}: {error}", USAGE) from None
    return checked(Mapping(attributes, payload, time), str(path))


def _written(name: str, value: Any) -> Attribute:
    if isinstance(value, dict):
        found = msgspec.convert(value, Attribute)
        found.name = name
        if (found.value is None) == (not found.column):
            raise msgspec.ValidationError(f"attribute {name}: give a column or a value")
        return found
    if not isinstance(value, str):
        return Attribute(name, value=msgspec.convert(value, Value))
    constant = _CONSTANT.fullmatch(value)
    return Attribute(name, value=constant[1].replace("''", "'")) if constant else Attribute(name, value)


def checked(mapping: Mapping, place: str) -> Mapping:
    names = [attribute.name for attribute in mapping.attributes]
    for name in names:
        if names.count(name) > 1:
            raise Trouble(f"{place}: attribute {name} is given twice", USAGE)
    try:
        check_attributes(dict.fromkeys(names, 0))
    except ValueError as error:
        raise Trouble(f"{place}: {error}", USAGE) from None
    if mapping.payload.column and mapping.payload.columns:
        raise Trouble(f"{place}: payload: a column or several as JSON, not both", USAGE)
    return mapping


# --- what a text column holds ---------------------------------------------------------------------

_INT = re.compile(r"[+-]?\d{1,18}")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def suggested(values: list[str]) -> Type:
    """The type of a text column, by its first values; leading zeros are an identifier's."""
    given = [value.strip() for value in values if value.strip()]
    if not given:
        return "string"
    if all(value.lower() in ("true", "false") for value in given):
        return "bool"
    if any(re.match(r"[+-]?0\d", value) for value in given):
        return "string"
    if all(_INT.fullmatch(value) for value in given):
        return "int"
    return "number" if all(_FLOAT.fullmatch(value) for value in given) else "string"
