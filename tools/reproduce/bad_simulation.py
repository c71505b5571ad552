"""BAD's simulation (6.2) as a workload: ten brokers, 10,000 subscribers, ten channels of 100 sets each.

Nearest placement is by real check-ins and ten cities where the file is given, else by fixed shares. Not in
the paper: the mean rate (20 kB/s with a deviation of 5: beta = 300 MB/s needs more than 14.3) and by how much
rates rise (1.5 to 3 times).
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from overlay.coordinate.loads import Floats, Ints
from tools.reproduce.bad_rounds import CHECK_S, DURATION_S, WINDOW_S, Placed

FILE = "checkins_gowalla_us.csv.gz"
BROKERS, SUBSCRIBERS, RESULTS = 10, 10_000, 1_000
MEAN, DEVIATION = 20e3, 5e3
RISE = (1.5, 3.0)
SHARES = (0.22, 0.16, 0.12, 0.10, 0.10, 0.08, 0.08, 0.06, 0.045, 0.035)
CITIES = (
    *((40.7, -74.0), (34.05, -118.2), (41.9, -87.6), (30.27, -97.7), (37.8, -122.4)),
    *((47.6, -122.3), (33.7, -84.4), (39.7, -105.0), (25.8, -80.2), (42.36, -71.06)),
)


class Simulation:
    brokers = BROKERS

    def __init__(self, seed: int, data: Path | None, results: int = RESULTS) -> None:
        self.draw = np.random.default_rng(seed)
        counts = self.draw.integers(10, 31, SUBSCRIBERS)
        self.start = np.concatenate([[0], np.cumsum(counts)])
        self.wanted = np.concatenate([self.draw.choice(results, count, replace=False) for count in counts])
        self.since_s = self.draw.uniform(0, 480, SUBSCRIBERS)
        self._rates = self._series(results)
        self._nearest = (
            self._by_checkins(data) if data is not None and (data / FILE).is_file() else self._shared()
        )

    def _series(self, results: int) -> list[Floats]:
        """Every minute a fourth is scheduled to rise within 3 minutes and to fall 4 to 6 minutes later; what
        is up already is left out."""
        real = np.clip(self.draw.normal(MEAN, DEVIATION, results), MEAN / 20, None)
        factor = np.ones(results)
        rises, falls = np.full(results, np.inf), np.full(results, np.inf)
        average = np.zeros(results)
        series = []
        for now in range(0, DURATION_S, CHECK_S):
            if now % 60 == 0:
                some = self.draw.choice(results, results // 4, replace=False)
                some = some[np.isinf(rises[some]) & np.isinf(falls[some])]
                rises[some] = now + self.draw.uniform(0, 180, len(some))
            up = rises <= now
            factor[up] = self.draw.uniform(*RISE, up.sum())
            falls[up] = rises[up] + self.draw.uniform(240, 360, up.sum())
            rises[up] = np.inf
            down = falls <= now
            factor[down], falls[down] = 1.0, np.inf
            average = average + (1 - np.exp(-CHECK_S / WINDOW_S)) * (real * factor - average)
            series.append(average)
        return series

    def _by_checkins(self, data: Path) -> Ints:
        first: dict[str, tuple[float, float]] = {}
        with gzip.open(data / FILE, "rt") as file:
            for row in csv.DictReader(file):
                first.setdefault(row["user"], (float(row["lat"]), float(row["lon"])))
        users = np.array(list(first.values()))
        at = users[self.draw.integers(0, len(users), SUBSCRIBERS)]
        cities = np.array(CITIES)
        flat = np.cos(np.radians(39))
        away = np.hypot(at[:, None, 0] - cities[:, 0], (at[:, None, 1] - cities[:, 1]) * flat)
        nearest: Ints = away.argmin(axis=1)
        return nearest

    def _shared(self) -> Ints:
        return self.draw.choice(BROKERS, SUBSCRIBERS, p=np.array(SHARES) / sum(SHARES))

    def placed(self, by: Placed) -> Ints:
        if by == "RR":
            return np.arange(SUBSCRIBERS) % BROKERS
        if by == "RND":
            return np.random.default_rng(1).integers(0, BROKERS, SUBSCRIBERS)
        return self._nearest

    def rates(self) -> list[Floats]:
        return self._rates
