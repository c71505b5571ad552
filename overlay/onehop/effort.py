"""What a question costs, reckoned: the size of the set, the publications, the matches. The core reads no
clock.

The numbers are those of this broker's index; the simulator may give the paper's linear scan instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from grapevine.wire.onehop import LoadReport
from overlay.onehop.loads import Measured, dimension_load


class Effort(NamedTuple):
    """Seconds: of a publication, for every subscription of the set, for every match; of a placed copy."""

    fixed_s: float = 1.33e-6
    subscription_s: float = 0.067e-9
    match_s: float = 0.054e-6
    placed_s: float = 13e-6

    def of(self, size: int, publications: int, matches: int) -> float:
        return publications * (self.fixed_s + self.subscription_s * size) + self.match_s * matches


class Meter:
    """Counts of the current window, and what the last full one gave."""

    def __init__(self, dimensions: int) -> None:
        self._count = dimensions
        self.window_s = 1.0
        self._start()
        self._last: list[tuple[int, int, float]] = [(0, 0, 0.0)] * dimensions

    def _start(self) -> None:
        self._arrived, self._matched = [0] * self._count, [0] * self._count
        self._busy_s = [0.0] * self._count

    def arrive(self, dimension: int, count: int) -> None:
        self._arrived[dimension] += count

    def match(self, dimension: int, count: int, busy_s: float) -> None:
        self._matched[dimension] += count
        self._busy_s[dimension] += busy_s

    def turn(self, window_s: float) -> None:
        """A window ends."""
        self.window_s = window_s
        self._last = list(zip(self._arrived, self._matched, self._busy_s))
        self._start()

    def report(self, waiting: Sequence[int], sizes: Sequence[int], effort: Effort) -> LoadReport:
        loads = []
        for (arrived, matched, busy_s), queue, size in zip(self._last, waiting, sizes):
            measured = Measured(arrived, matched, busy_s, 0.0, self.window_s, queue, size)
            loads.append(dimension_load(measured, effort.of(size, 1, 1), "matching-time"))
        backlog_s = sum(load.cost_s * queue for load, queue in zip(loads, waiting))
        busy = sum(busy_s for _, _, busy_s in self._last) / self.window_s
        return LoadReport(tuple(loads), backlog_s, busy)
