"""Which columns become attributes and which the payload, decided when a query is planned.

An attribute is a number, a string or a bool (docs/filters.md). A column of another type is refused by name
with what to do about it, rather than turned into something nobody asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grapevine.errors import Error
from grapevine.filters.checking import check_attributes
from grapevine.spark.options import WriteOptions

PAYLOAD = "payload"
NUMBERS = ("byte", "short", "integer", "long", "float", "double")
ATTRIBUTE_TYPES = (*NUMBERS, "string", "boolean")
PAYLOAD_TYPES = ("binary", "string")
_ADVICE = {
    "decimal": "cast it to double or long",
    "timestamp": "cast it to double (seconds) or string",
    "timestamp_ntz": "cast it to string",
    "date": "cast it to string",
    "binary": "name it as the payload",
}


class SchemaError(Error, ValueError):
    """Columns that cannot be fed."""


@dataclass(frozen=True)
class Columns:
    """Positions of the attributes' columns with the attributes' names, and of the payload's column."""

    attributes: tuple[tuple[int, str], ...]
    payload: int | None


def choose_columns(schema: Any, options: WriteOptions) -> Columns:
    """`schema` is Spark's StructType."""
    places = {field.name: place for place, field in enumerate(schema.fields)}
    payload = _payload(schema, places, options.payload)
    wanted = _wanted(options.attributes) or [
        (name, name) for name, place in places.items() if place != payload
    ]
    attributes = []
    doubled = {field.name for field in schema.fields if sum(f.name == field.name for f in schema.fields) > 1}
    for column, name in wanted:
        place = _place(places, column, "attributes")
        if column in doubled:
            raise SchemaError(f"two columns are called {column!r}: rename or drop one of them before writing")
        _check_type(schema.fields[place], name)
        attributes.append((place, name))
    names = [name for _, name in attributes]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SchemaError(
            f"two columns become the attribute {min(twice)!r}: rename one in the option attributes"
        )
    if not names:
        raise SchemaError("no column becomes an attribute: nobody could subscribe to such rows")
    try:
        check_attributes(dict.fromkeys(names, 0))
    except ValueError as error:
        raise SchemaError(
            f"{error}: rename the column in the option attributes, `good_name=column`"
        ) from None
    return Columns(tuple(attributes), payload)


def _wanted(text: str) -> list[tuple[str, str]]:
    """(column, attribute) of `symbol, price=close`."""
    wanted = []
    for part in text.split(","):
        name, _, column = part.partition("=")
        if part.strip() and part.strip() != "*":
            wanted.append(((column or name).strip().strip("`"), name.strip().strip("`")))
    return wanted


def _payload(schema: Any, places: dict[str, int], column: str) -> int | None:
    if not column:
        place = places.get(PAYLOAD)
        fits = place is not None and schema.fields[place].dataType.typeName() in PAYLOAD_TYPES
        return place if fits else None
    place = _place(places, column, "payload")
    kind = schema.fields[place].dataType.typeName()
    if kind not in PAYLOAD_TYPES:
        raise SchemaError(f"column {column!r} is of type {kind}: a payload is binary or string (to_json?)")
    return place


def _place(places: dict[str, int], column: str, option: str) -> int:
    if column not in places:
        raise SchemaError(f"option {option}: there is no column {column!r}; there are {', '.join(places)}")
    return places[column]


def _check_type(field: Any, name: str) -> None:
    kind = field.dataType.typeName()
    kind = "decimal" if kind.startswith("decimal") else kind
    if kind in ATTRIBUTE_TYPES or kind.startswith(("varchar", "char")):
        return
    advice = _ADVICE.get(kind, "take it apart, or leave it out")
    raise SchemaError(
        f"column {field.name!r} is of type {kind}: an attribute is a number, a string or a boolean; {advice}"
    )
