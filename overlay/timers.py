"""One heap of deadlines. A cancelled timer stays in the heap until its time and is skipped there."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Timer:
    __slots__ = ("at", "call")

    def __init__(self, at: float, call: Callable[[float], None]) -> None:
        self.at = at
        self.call: Callable[[float], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Timers:
    __slots__ = ("_heap", "_count")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0

    def at(self, when: float, call: Callable[[float], None]) -> Timer:
        timer = Timer(when, call)
        self._count += 1
        heappush(self._heap, (when, self._count, timer))
        return timer

    def next(self) -> float | None:
        heap = self._heap
        while heap and heap[0][2].call is None:
            heappop(heap)
        return heap[0][0] if heap else None

    def run(self, now: float) -> None:
        """Call what is due. A call that sets a timer for `now` is served in the next run."""
        due = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            due.append(heappop(heap)[2])
        for timer in due:
            if (call := timer.call) is not None:
                timer.call = None
                call(now)
