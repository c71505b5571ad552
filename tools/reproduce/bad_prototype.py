"""BAD's test-bed (6.1) as a workload: emergencies in Helsinki, five brokers, 400 subscribers, seven channels.

Subscribers walk and eight publishers drive between points of the ONE simulator's map; without the file, of
a cloud of points that is denser in the middle. Every report of 10,000 is matched with every back-end
subscription, so that rates are what channels would really have produced. Not in the paper, chosen before any
run and left: speeds, radii, brokers' places, and the split into channels, which gives about 600 back-end
subscriptions; two channels have the user as only parameter and take one subscription each, so that 400
subscribers have about 2,050 front-end subscriptions, where the paper says around 2,200 and 3 x 2 each would
be 2,400.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from overlay.coordinate.loads import Floats, Ints
from tools.reproduce.bad_rounds import CHECK_S, DURATION_S, WINDOW_S, Placed

FILE = "helsinki_one_map.csv.gz"
BROKERS, SUBSCRIBERS, REPORTS, TYPES, PUBLISHERS = 5, 400, 10_000, 8, 8
WALK_M_S, DRIVE_M_S = 1.4, 15.0
# period in seconds; parameters: type, place, user; how many places; radius in metres
CHANNELS = (
    (10, "t", 0, 0.0),
    (20, "tp", 16, 1000.0),
    (30, "p", 16, 1000.0),
    (10, "p", 16, 2000.0),
    (20, "u", 0, 1000.0),
    (30, "u", 0, 2000.0),
    (10, "tp", 12, 2000.0),
)


class Prototype:
    brokers = BROKERS

    def __init__(self, seed: int, data: Path | None) -> None:
        self.draw = np.random.default_rng(seed)
        self.map = read_map(data) if data is not None and (data / FILE).is_file() else cloud()
        times = np.arange(0, DURATION_S, CHECK_S)
        self.users = self._walk(SUBSCRIBERS, WALK_M_S, times)
        self._subscriptions()
        self.since_s = self.draw.uniform(240, 480, SUBSCRIBERS)  # subscribe in minutes 4 to 8
        self._rates = self._smoothed(self._slots(times))

    def _walk(self, count: int, speed: float, times: Ints) -> Floats:
        """Positions (time, who, xy): from point to point of the map in straight lines."""
        step_s = float(times[1] - times[0])
        at = self.map[self.draw.integers(0, len(self.map), count)].copy()
        to = self.map[self.draw.integers(0, len(self.map), count)].copy()
        path = np.empty((len(times), count, 2))
        for row in range(len(times)):
            path[row] = at
            away = to - at
            far = np.hypot(away[:, 0], away[:, 1])
            arrived = far <= speed * step_s
            at = np.where(arrived[:, None], to, at + away / np.maximum(far, 1)[:, None] * speed * step_s)
            fresh = self.map[self.draw.integers(0, len(self.map), count)]
            to = np.where(arrived[:, None], fresh, to)
        return path

    def _subscriptions(self) -> None:
        """One to five channels, one to three subscriptions in each, all different (6.1.2)."""
        sets: dict[tuple[int, int, int, int], int] = {}
        held: list[list[int]] = []
        for user in range(SUBSCRIBERS):
            mine = []
            for channel in self.draw.choice(len(CHANNELS), self.draw.integers(1, 6), replace=False).tolist():
                _, kinds, places, _ = CHANNELS[channel]
                chosen = set()
                for _ in range(self.draw.integers(1, 4)):
                    event = int(self.draw.integers(0, TYPES)) if "t" in kinds else -1
                    place = int(self.draw.integers(0, places)) if "p" in kinds else -1
                    chosen.add((channel, event, place, user if "u" in kinds else -1))
                mine += [sets.setdefault(each, len(sets)) for each in sorted(chosen)]
            held.append(mine)
        self.sets = np.array(list(sets))
        self.start = np.concatenate([[0], np.cumsum([len(mine) for mine in held])])
        self.wanted = np.array([k for mine in held for k in mine])

    def _slots(self, times: Ints) -> Floats:
        """Bytes that each check's reports are to each back-end subscription: (check, k)."""
        places = self.map[self.draw.integers(0, len(self.map), 16)]
        cars = self._walk(PUBLISHERS, DRIVE_M_S, np.arange(0, DURATION_S, 1))
        when = np.sort(self.draw.uniform(0, DURATION_S, REPORTS)).astype(int)
        at = cars[when, self.draw.integers(0, PUBLISHERS, REPORTS)]
        kind = self.draw.integers(0, TYPES, REPORTS)
        size = self.draw.integers(200, 701, REPORTS)
        channel, event, place, user = self.sets.T
        radius = np.array([each[3] for each in CHANNELS])[channel]
        slots = np.zeros((len(times), len(self.sets)))
        for check in range(len(times)):
            now = (when // CHECK_S) == check
            centre = np.where((user >= 0)[:, None], self.users[check][user], places[place])
            away = np.hypot(*(at[now][:, None, :] - centre[None, :, :]).transpose(2, 0, 1))
            hit = (radius == 0) | (away <= radius)
            hit &= (event < 0) | (kind[now][:, None] == event)
            slots[check] = size[now] @ hit
        return slots

    def _smoothed(self, slots: Floats) -> list[Floats]:
        """A sample at each execution of the channel, in between the average stays."""
        every = np.array([each[0] for each in CHANNELS])[self.sets[:, 0]] // CHECK_S
        average = np.zeros(len(self.sets))
        gathered = np.zeros(len(self.sets))
        series = []
        for check, slot in enumerate(slots):
            gathered += slot
            due = (check + 1) % every == 0
            weight = 1 - np.exp(-every * CHECK_S / WINDOW_S)
            sampled = average + weight * (gathered / (every * CHECK_S) - average)
            average = np.where(due, sampled, average)
            gathered = np.where(due, 0.0, gathered)
            series.append(average)
        return series

    def placed(self, by: Placed) -> Ints:
        if by == "RR":
            return np.arange(SUBSCRIBERS) % BROKERS
        if by == "RND":
            return np.random.default_rng(len(self.sets)).integers(0, BROKERS, SUBSCRIBERS)
        low, high = self.map.min(axis=0), self.map.max(axis=0)
        spots = low + (high - low) * np.array(
            [[0.5, 0.5], [0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
        )
        away = np.linalg.norm(self.users[0][:, None] - spots[None], axis=2)
        nearest: Ints = away.argmin(axis=1)
        return nearest

    def rates(self) -> list[Floats]:
        return self._rates


def read_map(data: Path) -> Floats:
    with gzip.open(data / FILE, "rt") as file:
        return np.array([(float(row["x_m"]), float(row["y_m"])) for row in csv.DictReader(file)])


def cloud() -> Floats:
    return np.random.default_rng(0).normal(0, (1500.0, 2500.0), (2000, 2))
