"""One heap of events and one virtual clock.

Rules: whatever happens in a simulation is an event of this heap; two events of the same instant run in the
order in which they were set. Chance comes from `random`, whose state is the seed's alone, so that one seed is
one run. Hosts read `wall_s`, which begins at a fixed date and differs from host to host by their skew.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

WALL_START_S = 1_700_000_000.0  # seconds since 1970 when the virtual clock shows 0

Call = Callable[[Any], None]


class World:
    __slots__ = ("_count", "_heap", "events", "now", "random", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"world {seed}")
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Call, Any]] = []
        self._count = 0

    def stream(self, name: str) -> Random:
        """A source of chance of its own: what one part draws does not move the others."""
        return Random(f"{name} {self.seed}")

    def at(self, when: float, call: Call, argument: Any = None) -> None:
        self._count += 1
        heappush(self._heap, (when if when > self.now else self.now, self._count, call, argument))

    def after(self, seconds: float, call: Call, argument: Any = None) -> None:
        self.at(self.now + seconds, call, argument)

    def run(self, until: float) -> None:
        """Everything up to and including `until`; the clock then shows it."""
        heap = self._heap
        events = self.events
        while heap and heap[0][0] <= until:
            self.now, _, call, argument = heappop(heap)
            events += 1
            call(argument)
        self.events = events
        self.now = until

    def run_while(self, going: Callable[[], bool], until: float, step_s: float) -> bool:
        """Run in steps while `going()`; False if it still holds at `until`."""
        while going():
            if self.now >= until:
                return False
            self.run(min(until, self.now + step_s))
        return True
