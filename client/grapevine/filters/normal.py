"""The normal form of a filter: what travels on the wire and what every index is built over.

A filter is a disjunction of conjunctions; a conjunction is a sorted tuple of predicates, each about
one attribute (a circle is about two). No conjunction at all means *nothing*, an empty conjunction
means *everything*. `grapevine.filters.language` makes the form from text, `evaluate` says what it
means; nothing here parses or decides.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import msgspec

Value: TypeAlias = bool | int | float | str


class Op(IntEnum):
    """What a predicate asks. Numbers are part of the wire: append only."""

    EQ = 1  # operand: a value
    NE = 2  # operand: a value; true for another value of the same type
    RANGE = 3  # operand: (low | None, high | None, low_open, high_open); two numbers or two strings
    IN = 4  # operand: two or more values, sorted by `value_key`
    PREFIX = 5  # operand: a string, as for the five below
    SUFFIX = 6
    CONTAINS = 7
    NOT_PREFIX = 8
    NOT_SUFFIX = 9
    NOT_CONTAINS = 10
    EXISTS = 11  # operand: None
    ABSENT = 12  # operand: None; the only predicate that is true of a missing attribute
    IN_CIRCLE = 13  # attribute: latitude; operand: (longitude's attribute, lat, lon, km)
    NOT_IN_CIRCLE = 14


Operand: TypeAlias = Value | tuple[Value | None, ...] | None


class Predicate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    attribute: str
    op: int
    operand: Operand = None


Conjunction: TypeAlias = tuple[Predicate, ...]


class Filter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    conjunctions: tuple[Conjunction, ...]


EVERYTHING = Filter(((),))
NOTHING = Filter(())


def value_type(value: Value) -> type[bool] | type[float] | type[str]:
    """The language's three types: bool is not a number, int and float are one."""
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float


def value_key(value: Value) -> tuple[str, bool | float | str]:
    """A total order over values of all three types, for canonical forms."""
    return value_type(value).__name__, value


def predicate_key(predicate: Predicate) -> tuple[str, int, str]:
    """The order of predicates inside a conjunction."""
    return predicate.attribute, predicate.op, repr(predicate.operand)


def identity(filter: Filter) -> bytes:
    """Equal exactly for the same form; `==` is not enough, since to Python 1 equals True."""
    return msgspec.msgpack.encode(filter)
