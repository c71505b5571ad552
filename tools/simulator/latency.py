"""How long a frame travels from host to host: generated, or from a matrix of measured round trips.

A matrix file is CSV (also gzipped) of round trips in milliseconds, one row a host; names of
rows and columns are passed over; hosts of
the simulation take its rows in a seeded order, again from the start if there are more hosts than rows.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Protocol


class Latency(Protocol):
    def one_way_s(self, one: int, other: int) -> float:
        """Between the hosts with these numbers, without jitter."""


class Constant:
    def __init__(self, one_way_s: float) -> None:
        self._one_way_s = one_way_s

    def one_way_s(self, one: int, other: int) -> float:
        return self._one_way_s


class Plane:
    """Hosts lie at random in a square; delay is the distance plus a floor. `across_s` is one side."""

    def __init__(self, random: Random, across_s: float, floor_s: float = 0.0002) -> None:
        self._random = random
        self._across_s = across_s
        self._floor_s = floor_s
        self._places: list[tuple[float, float]] = []

    def one_way_s(self, one: int, other: int) -> float:
        (x, y), (u, v) = self._place(one), self._place(other)
        return self._floor_s + self._across_s * float(((x - u) ** 2 + (y - v) ** 2) ** 0.5)

    def _place(self, host: int) -> tuple[float, float]:
        while len(self._places) <= host:
            self._places.append((self._random.random(), self._random.random()))
        return self._places[host]


class Matrix:
    def __init__(self, round_trips_ms: Sequence[Sequence[float]], random: Random) -> None:
        self._rows = round_trips_ms
        self._order = list(range(len(round_trips_ms)))
        random.shuffle(self._order)

    def one_way_s(self, one: int, other: int) -> float:
        count = len(self._order)
        return self._rows[self._order[one % count]][self._order[other % count]] / 2000.0


def read_matrix(path: Path) -> list[list[float]]:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()  # noqa: SIM115
    with opened as lines:
        rows = ([float(cell) for cell in row if _number(cell)] for row in csv.reader(lines))
        return [row for row in rows if row]


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def latency(kind: str, random: Random, scale_s: float, file: str = "") -> Latency:
    """By the words of a scenario file: constant, plane, matrix."""
    if kind == "constant":
        return Constant(scale_s)
    if kind == "plane":
        return Plane(random, scale_s)
    if kind == "matrix":
        return Matrix(read_matrix(Path(file)), random)
    raise ValueError(f"latency is constant, plane or matrix, not {kind!r}")
