"""Where the clients of one experiment are: the same for every algorithm, and for both ways of measuring it.

A balanced tree of fan-out 2: broker n has the parent n // 2. Hosts have numbers in the map of latencies: all
brokers first, then for each symbol its subscribers and its publisher.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from overlay.settings import RelocationSettings
from tools.simulator.latency import Latency, Matrix, Plane, read_matrix

MATRIX_FILE = "planetlab_490_rtt_ms_median.csv.gz"
RATINGS = {"clustered": ("low",) * 19 + ("high",), "random": ("low",) * 14 + ("medium",) * 5 + ("high",)}


class Setting(msgspec.Struct, frozen=True):
    """`relocation` is None for the baseline; `holders` is the paper's X."""

    name: str
    holders: int
    workload: str
    relocation: RelocationSettings | None = None
    brokers: int = 63
    publishers: int = 40
    rate: float = 3.0  # publications a second of one publisher
    seconds: float = 360.0
    measured_s: float = 60.0
    seed: int = 1
    counted: bool = False  # publications are counted (grape_counted), not sent (grape_experiment)

    @property
    def first(self) -> int:
        """The number of the first quote. Those of the measured window begin with 0 in all settings."""
        return -round((self.seconds - self.measured_s) * self.rate)


class Placing(NamedTuple):
    """The clients of one symbol: a subscriber is (rating, broker)."""

    subscribers: tuple[tuple[str, int], ...]
    publisher: int
    first_host: int  # of its subscribers; the publisher comes after them


def randomness(setting: Setting) -> Random:
    return Random(f"clients {setting.seed} {setting.holders} {setting.workload}")


def placings(setting: Setting, random: Random) -> list[Placing]:
    """The high-rated at one broker, the others at the other X - 1 (clustered), or all anywhere."""
    brokers = range(1, setting.brokers + 1)
    clustered, found, host = setting.workload == "clustered", [], setting.brokers
    for _ in range(setting.publishers):
        holders = random.sample(brokers, setting.holders)
        others = holders[1:] if clustered and len(holders) > 1 else holders
        subscribers = tuple(
            (rating, holders[0] if clustered and rating == "high" else random.choice(others))
            for rating in RATINGS[setting.workload]
        )
        found.append(Placing(subscribers, random.choice(brokers), host))
        host += len(subscribers) + 1
    return found


def latency(setting: Setting, data: Path | None) -> Latency:
    """Every setting of one seed has the same map, so that algorithms are compared on it."""
    random = Random(f"latency {setting.seed}")
    if data is not None and (data / MATRIX_FILE).is_file():
        return Matrix(read_matrix(data / MATRIX_FILE), random)
    return Plane(random, 0.12, 0.005)
