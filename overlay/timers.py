"""One heap of deadlines. A cancelled timer is skipped at its time, or swept out when the heap has doubled:
who sets distant deadlines and cancels them fills nothing."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

SWEEP_LEAST = 1024


class Timer:
    __slots__ = ("at", "call")

    def __init__(self, at: float, call: Callable[[float], None]) -> None:
        self.at = at
        self.call: Callable[[float], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Timers:
    __slots__ = ("_count", "_heap", "_sweep_at")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._sweep_at = SWEEP_LEAST

    def __len__(self) -> int:
        return sum(timer.call is not None for _, _, timer in self._heap)

    def at(self, when: float, call: Callable[[float], None]) -> Timer:
        timer = Timer(when, call)
        self._count += 1
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapify(self._heap)
            self._sweep_at = max(SWEEP_LEAST, 2 * len(self._heap))
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
