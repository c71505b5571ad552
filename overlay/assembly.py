"""Putting a broker together so that a wrong order is an error at start, not a loss later.

Behaviours hear of sessions in the order in which they were added. One that depends on that names the others
that it comes `after` and `before`, by the names of their classes; those that are not there do not count. A
place that several of them share is a *slot*: one fills it, others wrap what is there, each under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from overlay.behaviour import Behaviour

F = TypeVar("F", bound=Callable[..., Any])


class AssemblyError(Exception):
    """Behaviours that do not fit together in this order."""


def check_order(behaviours: Sequence[Behaviour]) -> None:
    places = {type(behaviour).__name__: place for place, behaviour in enumerate(behaviours)}
    for place, behaviour in enumerate(behaviours):
        name = type(behaviour).__name__
        for other in behaviour.after:
            if places.get(other, -1) > place:
                raise AssemblyError(f"{name} must come after {other}")
        for other in behaviour.before:
            if places.get(other, place + 1) < place:
                raise AssemblyError(f"{name} must come before {other}")


class Slot(Generic[F]):
    """`call` is what happens; `takers` who put it there, the innermost first."""

    __slots__ = ("call", "name", "takers")

    call: F

    def __init__(self, name: str) -> None:
        self.name = name
        self.takers: list[str] = []

    def fill(self, taker: object, call: F) -> None:
        if self.takers:
            raise AssemblyError(f"{type(taker).__name__} fills {self.name}, but {self.takers[0]} has")
        self.takers.append(type(taker).__name__)
        self.call = call

    def wrap(self, taker: object, call: F) -> F:
        """`call` happens from now on; what happened before is returned, for it to go on with."""
        if not self.takers:
            raise AssemblyError(f"{type(taker).__name__} wraps {self.name}, which nobody fills")
        inner = self.call
        self.takers.append(type(taker).__name__)
        self.call = call
        return inner


class Calls(Generic[F]):
    """A slot in which everybody is called, in the order of the takers: `for call in slot.calls: ...`."""

    __slots__ = ("calls", "name", "takers")

    def __init__(self, name: str) -> None:
        self.name = name
        self.takers: list[str] = []
        self.calls: list[F] = []

    def add(self, taker: object, call: F) -> None:
        if type(taker).__name__ in self.takers:
            raise AssemblyError(f"{type(taker).__name__} is in {self.name} twice")
        self.takers.append(type(taker).__name__)
        self.calls.append(call)
