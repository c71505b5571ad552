"""Which attributes the filters ask about at all.

Publications that agree on these are routed alike, whatever else they carry. `projection` is what they must
agree on: values by type and number, since True is not 1 here, and 1 is 1.0.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.filters.normal import Filter, Op, Predicate
from matching.interface import Attributes

_CIRCLES = (int(Op.IN_CIRCLE), int(Op.NOT_IN_CIRCLE))
_TRUE, _FALSE, _ABSENT = ("bool", True), ("bool", False), ("absent",)


class Mentions:
    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, filter: Filter) -> None:
        counts = self._counts
        for name in _names(filter):
            counts[name] = counts.get(name, 0) + 1

    def remove(self, filter: Filter) -> None:
        for name in _names(filter):
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]

    def few(self, most: int) -> tuple[str, ...] | None:
        """The attributes, if there are not more than `most`."""
        return tuple(self._counts) if len(self._counts) <= most else None


def projection(names: tuple[str, ...]) -> Callable[[Attributes], object]:
    """A function of attributes, equal and hashed alike for publications that agree; never bytes."""
    if len(names) != 1:
        return lambda attributes: tuple([_distinct(attributes.get(name, _ABSENT)) for name in names])
    (name,) = names

    def only(attributes: Attributes) -> object:
        value = attributes.get(name, _ABSENT)
        return value if value is not True and value is not False else _distinct(value)

    return only


def _distinct(value: object) -> object:
    return value if value is not True and value is not False else _TRUE if value else _FALSE


def _names(filter: Filter) -> list[str]:
    found = []
    for conjunction in filter.conjunctions:
        for predicate in conjunction:
            found.append(predicate.attribute)
            if predicate.op in _CIRCLES:
                found.append(_longitude(predicate))
    return found


def _longitude(predicate: Predicate) -> str:
    return predicate.operand[0]  # type: ignore[index, return-value]
