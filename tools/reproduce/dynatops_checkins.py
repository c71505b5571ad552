"""Visits of users to cells of a grid (DYNATOPS 6.1.1).

The paper's trace is not public. From a file of check-ins the users are resampled: a virtual user is a real
one's check-ins of a random window, turned in time by a random part of it, and played faster, so that about
half of the visits are shorter than a day and a tenth longer than a week as in figure 5b (D-13). Without a
file users are made up: a few places each, one of them home, with pauses that are long or short.
"""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlay.coordinate.cost import Matrix

FILE = "checkins_gowalla_us.csv.gz"
SOUTH, WEST, HEIGHT, WIDTH = 28.0, -125.0, 20.0, 60.0  # the paper does not give its box (D-9)
DAYS, SPEED = 92, 3.0


class Grid(NamedTuple):
    cell: int  # degrees

    @property
    def rows(self) -> int:
        return int(HEIGHT) // self.cell

    @property
    def columns(self) -> int:
        return int(WIDTH) // self.cell

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    def of(self, latitude: Matrix, longitude: Matrix) -> Matrix:
        row = ((latitude - SOUTH) / self.cell).astype(int)
        found: Matrix = row * self.columns + ((longitude - WEST) / self.cell).astype(int)
        return found

    def distances_km(self) -> Matrix:
        row, column = np.divmod(np.arange(self.cells), self.columns)
        north = (row[:, None] - row) * 111.0 * self.cell
        east = (column[:, None] - column) * 87.0 * self.cell
        found: Matrix = np.hypot(north, east)
        return found


class Visit(NamedTuple):
    hour: float
    user: int
    cell: int


def visits(data: Path | None, users: int, grid: Grid, chance: np.random.Generator) -> list[Visit]:
    """In the order of time; check-ins to the same cell one after the other are one visit."""
    path = None if data is None else data / FILE
    checkins = (
        _read(path, users, grid, chance)
        if path is not None and path.is_file()
        else _made(users, grid, chance)
    )
    checkins.sort()
    last: dict[int, int] = {}
    found = []
    for visit in checkins:
        if last.get(visit.user) != visit.cell:
            last[visit.user] = visit.cell
            found.append(visit)
    return found


def _read(path: Path, users: int, grid: Grid, chance: np.random.Generator) -> list[Visit]:
    with gzip.open(path, "rt") as file:
        rows = np.genfromtxt(file, delimiter=",", skip_header=1, usecols=(0, 1, 2, 3))
    inside = (rows[:, 2] >= SOUTH) & (rows[:, 2] < SOUTH + HEIGHT)
    inside &= (rows[:, 3] >= WEST) & (rows[:, 3] < WEST + WIDTH)
    rows = rows[inside]
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    cells, hours = grid.of(rows[:, 2], rows[:, 3]), rows[:, 1] / 3600
    first = np.r_[np.unique(rows[:, 0], return_index=True)[1], len(rows)]
    spans = [(a, b) for a, b in itertools.pairwise(first) if b - a >= 2]
    window, found = DAYS * 24.0, list[Visit]()
    user = 0
    while user < users:
        a, b = spans[chance.integers(len(spans))]
        own = hours[a:b]
        start = own[chance.integers(len(own))] - chance.random() * window / 2
        taken = (own >= start) & (own < start + window)
        if taken.sum() < 2:
            continue
        turned = (own[taken] - start + chance.random() * window) % window / SPEED
        found += [Visit(float(h), user, int(c)) for h, c in zip(turned, cells[a:b][taken], strict=True)]
        user += 1
    return found


def _made(users: int, grid: Grid, chance: np.random.Generator) -> list[Visit]:
    popularity = 1.0 / np.arange(1, grid.cells + 1)
    order = chance.permutation(grid.cells)
    found = []
    for user in range(users):
        places = order[chance.choice(grid.cells, 4, replace=False, p=popularity / popularity.sum())]
        hour = chance.random() * 200
        while hour < DAYS * 24.0 / SPEED:
            place = places[0] if chance.random() < 0.5 else places[chance.integers(len(places))]
            found.append(Visit(float(hour), user, int(place)))
            hour += chance.exponential(12.0 if chance.random() < 0.7 else 160.0)
    return found


class Lingering(NamedTuple):
    """Figure 5b, and 5a's pairs."""

    visits: int
    pairs: int
    below_a_day: float
    above_a_week: float


def lingering(found: list[Visit]) -> Lingering:
    last: dict[int, float] = {}
    stays = []
    for visit in found:
        if visit.user in last:
            stays.append(visit.hour - last[visit.user])
        last[visit.user] = visit.hour
    hours = np.array(stays)
    pairs = len({(visit.user, visit.cell) for visit in found})
    return Lingering(len(found), pairs, float((hours < 24).mean()), float((hours > 168).mean()))
