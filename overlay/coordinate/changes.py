"""Values by key, and what has changed of them since somebody last asked.

Every change has a number of its own. Who knows everything up to a number is told the rest, oldest first and
as much as fits; a report that is lost costs nothing, because the next question names the same number again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")
GONE_MAX = 10_000  # keys that are remembered as gone; who knows less is told everything


class News(NamedTuple, Generic[V]):
    """`since` 0: forget what you knew. Complete up to `through`; `more`: that is not the end."""

    since: int
    through: int
    changed: dict[str, V]
    gone: list[str]
    more: bool


class Changes(Generic[V]):
    def __init__(self) -> None:
        self.values: dict[str, V] = {}
        self.number = 0
        self._at: dict[str, int] = {}  # key -> number of its last change, rising
        self._complete_from = 0  # what had gone by then is forgotten

    def update(self, values: Mapping[str, V]) -> None:
        for key in [key for key in self.values if key not in values]:
            del self.values[key]
            self._touch(key)
        for key, value in values.items():
            if key not in self.values or self.values[key] != value:
                self.values[key] = value
                self._touch(key)
        self._forget_gone()

    def _touch(self, key: str) -> None:
        self.number += 1
        self._at.pop(key, None)
        self._at[key] = self.number

    def _forget_gone(self) -> None:
        gone = [key for key in self._at if key not in self.values]
        for key in gone[: max(len(gone) - GONE_MAX, 0)]:
            self._complete_from = self._at.pop(key)

    def since(self, number: int, most: int) -> News[V]:
        if not self._complete_from <= number <= self.number:
            number = 0
        changed: dict[str, V] = {}
        gone: list[str] = []
        through = number
        for key, at in self._at.items():
            if at <= number:
                continue
            if len(changed) + len(gone) >= most:
                return News(number, through, changed, gone, True)
            if key in self.values:
                changed[key] = self.values[key]
            else:
                gone.append(key)
            through = at
        return News(number, self.number, changed, gone, False)
