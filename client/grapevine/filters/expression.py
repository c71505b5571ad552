"""What a filter's text says, before it is brought to normal form.

A tree of five kinds of node. Every node knows where in the text it began (`at`, in characters), so
that a limit found late can still be shown at its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from grapevine.filters.normal import Value

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
STRING_OPERATORS = ("prefix", "suffix", "contains")


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool
    at: int = 0


@dataclass(frozen=True, slots=True)
class Test:
    """One attribute asked one thing: a comparison, `between` (two operands), `in` (one or more),
    a string operator, or `exists` (none)."""

    __test__ = False  # not a test of pytest's

    attribute: str
    operator: str
    operands: tuple[Value, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class Box:
    south: float
    west: float
    north: float
    east: float


@dataclass(frozen=True, slots=True)
class Circle:
    latitude: float
    longitude: float
    km: float


@dataclass(frozen=True, slots=True)
class Within:
    latitude: str
    longitude: str
    shape: Box | Circle
    at: int = 0


@dataclass(frozen=True, slots=True)
class Not:
    part: Expression
    at: int = 0


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expression, ...]
    at: int = 0


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expression, ...]
    at: int = 0


Expression: TypeAlias = Constant | Test | Within | Not | And | Or
