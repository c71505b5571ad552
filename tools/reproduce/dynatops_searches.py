"""What DYNATOPS-Greedy saves against consistent hashing, by size and pattern (figure 10)."""

from __future__ import annotations

import msgspec
import numpy as np

from overlay.coordinate.cost import Cost, Geometry, Matrix
from overlay.coordinate.greedy import ssbr_greedy

MODES = 10


class Setting(msgspec.Struct, frozen=True):
    brokers: int
    topics: int
    pattern: str
    patience: int
    share: float = 0.05  # of the topics that a broker wants; the paper gives none (D-9)
    seed: int = 1


def run(setting: Setting) -> float:
    """Saved of C, in per cent."""
    chance = np.random.default_rng(setting.seed)
    geometry = Geometry(chance.integers(0, 1 << 64, setting.brokers, dtype=np.uint64))
    roots = geometry.owner(chance.integers(0, 1 << 64, setting.topics, dtype=np.uint64))
    cost = Cost(
        geometry,
        roots,
        np.ones(setting.topics),
        _wanted(setting, chance),
        chance.permutation(setting.brokers),
        1.0,
    )
    path = ssbr_greedy(cost, setting.patience)
    return 100 * (1 - path[-1].cost / path[0].cost)


def _wanted(setting: Setting, chance: np.random.Generator) -> Matrix:
    found = np.zeros((setting.brokers, setting.topics), bool)
    each, size = max(2, int(setting.topics * setting.share)), setting.topics // MODES
    for broker in range(setting.brokers):
        pool = np.arange(setting.topics)
        if setting.pattern == "M":
            modes = chance.choice(MODES, -(-each // size), replace=False)
            pool = (modes[:, None] * size + np.arange(size)).ravel()
        found[broker, chance.choice(pool, each, replace=False)] = True
    return found
