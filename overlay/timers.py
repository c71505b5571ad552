"""Deadlines in their order, those of one time in the order in which they were set. A cancelled one is gone at
once: who sets distant deadlines and cancels them fills nothing."""

from __future__ import annotations

from collections.abc import Callable

from sortedcontainers import SortedList


class Timer:
    __slots__ = ("_order", "at", "call", "number")

    def __init__(self, at: float, number: int, call: Callable[[float], None], order: SortedList) -> None:
        self.at = at
        self.number = number
        self.call: Callable[[float], None] | None = call
        self._order = order

    def cancel(self) -> None:
        if self.call is not None:
            self.call = None
            self._order.discard((self.at, self.number, self))


class Timers:
    __slots__ = ("_count", "_order")

    def __init__(self) -> None:
        self._order: SortedList = SortedList()  # of (at, number, timer): no two numbers are equal
        self._count = 0

    def __len__(self) -> int:
        return len(self._order)

    def at(self, when: float, call: Callable[[float], None]) -> Timer:
        self._count += 1
        timer = Timer(when, self._count, call, self._order)
        self._order.add((when, self._count, timer))
        return timer

    def next(self) -> float | None:
        return self._order[0][0] if self._order else None

    def run(self, now: float) -> None:
        """Call what is due. A call that sets a timer for `now` is served in the next run."""
        order, due = self._order, []
        while order and order[0][0] <= now:
            due.append(order.pop(0)[2])
        for timer in due:
            if (call := timer.call) is not None:  # none if one before it has cancelled it
                timer.call = None
                call(now)
