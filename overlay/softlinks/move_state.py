"""What a broker remembers of a move that it takes part in (move.py)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from overlay.coordinate.permissions import Operation
from overlay.links.session import Session
from overlay.tree.table import Key

Done: TypeAlias = Callable[[str, float], None]  # why not; empty: it has moved


class Step(Enum):
    PREPARING = "preparing"  # anybody on the path may refuse
    TURNED = "turned"  # it is decided: the tables turn, entry by entry
    ANNOUNCED = "announced"  # all that lies behind the mover is known from its new side
    SWITCHED = "switched"  # what we sent in the old plane is settled; we stamp for the new


NEXT: dict[Step, Step] = {
    Step.PREPARING: Step.TURNED,
    Step.TURNED: Step.ANNOUNCED,
    Step.ANNOUNCED: Step.SWITCHED,
}


class MoveState:
    """The move that this broker takes part in, at `place` of its path."""

    __slots__ = (
        "ban", "banned", "behind_switched", "done", "incarnations", "onward", "operation", "path", "place",
        "refusal", "step", "torn", "turned_advertisements",
    )  # fmt: skip

    def __init__(self, operation: Operation, path: tuple[int, ...], place: int) -> None:
        self.operation = operation
        self.path = path
        self.place = place
        self.ban: Operation | None = None
        self.step = Step.PREPARING
        self.banned = False  # nobody passes us any more
        self.onward = False  # those after us on the path are ready
        self.refusal = ""  # the first that was heard, while preparing
        self.behind_switched = place == 1  # those between us and N have switched, or are lost
        self.torn = False  # somebody has lost a part of the old plane
        self.turned_advertisements: list[tuple[Key, Session]] = []
        self.incarnations: dict[int, int] = {}  # of our neighbours on the path, when the turn began
        self.done: Done = lambda refusal, now: None

    def enter(self, step: Step) -> None:
        assert NEXT.get(self.step) is step, f"{self.operation}: {self.step.value} to {step.value}"
        self.step = step

    @property
    def turned(self) -> bool:
        """From here on it goes forward."""
        return self.step is not Step.PREPARING

    @property
    def switched(self) -> bool:
        return self.step is Step.SWITCHED

    @property
    def ready(self) -> bool:
        """We have prepared, and so have those after us on the path."""
        return not self.turned and self.banned and self.onward

    @property
    def through(self) -> bool:
        """We have switched, and so have those between us and N; of the mover, all have."""
        return self.switched and self.behind_switched

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
