"""The last ten minutes of every broker and link, and a day of totals, in memory only.

Values are float32 in rings of one size; what was not known is NaN. A column is written each interval, so
that the moment of a value is its place. Totals are kept once every ten seconds.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

BROKER_SERIES = ("in_s", "out_s", "busy", "queue_ms", "backlog", "slow")
LINK_SERIES = ("ab_s", "ba_s")
TOTALS = ("in_s", "accepted_s", "delivered_s", "forwarded_s", "bypassed", "slow")
POINTS = 600
DAY_EVERY_S, DAY_POINTS = 10.0, 8_640


class Ring:
    """`rows` series side by side, the last POINTS columns of each."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._values = np.full((16 * width, POINTS), np.nan, np.float32)

    def write(self, column: int, number: int, values: list[Any]) -> None:
        """The values of one thing; None becomes NaN."""
        first = number * self.width
        if first >= len(self._values):
            more = np.full((max(len(self._values), first + self.width), POINTS), np.nan, np.float32)
            self._values = np.vstack([self._values, more])
        self._values[first : first + self.width, column] = [np.nan if v is None else v for v in values]

    def clear(self, column: int) -> None:
        self._values[:, column] = np.nan

    def read(self, number: int, series: int, columns: list[int]) -> list[float | None]:
        row = number * self.width + series
        if row >= len(self._values):
            return [None] * len(columns)
        found = self._values[row, columns].tolist()
        return [None if value != value else round(value, 3) for value in found]

    @property
    def nbytes(self) -> int:
        return self._values.nbytes


class History:
    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.brokers, self.links = Ring(len(BROKER_SERIES)), Ring(len(LINK_SERIES))
        self.totals = Ring(len(TOTALS))
        self.day: deque[tuple[float, list[Any]]] = deque(maxlen=DAY_POINTS)
        self._times: deque[float] = deque(maxlen=POINTS)
        self._written = 0

    def begin(self, now: float) -> int:
        """A new column, empty so far."""
        column = self._written % POINTS
        self._written += 1
        self._times.append(now)
        for ring in (self.brokers, self.links, self.totals):
            ring.clear(column)
        return column

    def write_totals(self, column: int, now: float, values: list[Any]) -> None:
        self.totals.write(column, 0, values)
        if not self.day or now - self.day[-1][0] >= DAY_EVERY_S:
            self.day.append((now, values))

    def series(self, of: str, range_s: float) -> tuple[list[float], list[float | None]]:
        """`of` is b:NUMBER:SERIES, l:NUMBER:SERIES or total:SERIES; KeyError if there is no such."""
        ring, number, series = self._find(of)
        if ring is self.totals and range_s > POINTS * self.every_s:
            points = [(t, values[series]) for t, values in self.day if t >= self.day[-1][0] - range_s]
            return [t for t, _ in points], [v for _, v in points]
        times = list(self._times)
        wanted = [n for n, t in enumerate(times) if t >= times[-1] - range_s] if times else []
        first = self._written - len(times)
        columns = [(first + n) % POINTS for n in wanted]
        return [times[n] for n in wanted], ring.read(number, series, columns)

    def _find(self, of: str) -> tuple[Ring, int, int]:
        kind, _, rest = of.partition(":")
        try:
            if kind == "total":
                return self.totals, 0, TOTALS.index(rest)
            number, _, name = rest.partition(":")
            if kind == "b":
                return self.brokers, int(number), BROKER_SERIES.index(name)
            if kind == "l":
                return self.links, int(number), LINK_SERIES.index(name)
        except ValueError:
            pass
        raise KeyError(of)
