"""What a broker remembers of a move that it takes part in (move.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from overlay.coordinate.permissions import Operation
from overlay.links.session import Session
from overlay.tree.table import Key

Done: TypeAlias = Callable[[str, float], None]  # why not; empty: it has moved


class MoveState:
    """The move that this broker takes part in, at `place` of its path."""

    __slots__ = (
        "announced", "ban", "banned", "behind_switched", "done", "incarnations", "onward", "operation",
        "path", "place", "refusal", "switched", "turned", "turned_advertisements",
    )  # fmt: skip

    def __init__(self, operation: Operation, path: tuple[int, ...], place: int) -> None:
        self.operation = operation
        self.path = path
        self.place = place
        self.ban: Operation | None = None
        self.banned = False  # nobody passes us any more
        self.onward = False  # those after us on the path are ready
        self.refusal = ""
        self.turned = False
        self.announced = False
        self.switched = False
        self.behind_switched = place == 1  # those between us and N have reported
        self.turned_advertisements: list[tuple[Key, Session]] = []
        self.incarnations: dict[int, int] = {}  # of our neighbours on the path, when the turn began
        self.done: Done = lambda refusal, now: None

    @property
    def last(self) -> bool:
        return self.place == len(self.path) - 1

    @property
    def mover(self) -> int:
        return self.path[0]

    @property
    def old(self) -> int:
        """The neighbour behind which the mover was; of the mover, its old parent."""
        return self.path[self.place - 1] if self.place else self.path[1]

    @property
    def new(self) -> int:
        """The neighbour behind which it will be; of the mover, its new parent."""
        return self.path[0 if self.last else self.place + 1] if self.place else self.path[-1]
