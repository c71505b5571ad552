"""SSBR-Greedy and DYNATOPS-Greedy (DYNATOPS 5.1, algorithms 3 and 4 with their slips mended: D-5 to D-7).

Each round takes the broker whose part of the cost is largest and swaps it with the one that lowers C most;
the mappings passed are the improvement path. The paper stops when that broker finds no better place;
`patience` is how many of the costliest are tried before stopping. The reconfiguration itself costs
messages: of the path the mapping with the largest benefit less cost is taken, the present one if none pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from overlay.coordinate.cost import Cost, Matrix

LEAST = 1e-9  # of C: what a swap must save to count as an improvement


class Step(NamedTuple):
    cost: float
    at: Matrix  # the broker at each node


class Plan(NamedTuple):
    at: Matrix
    benefit: float  # (6)
    cost: float  # (7)
    changed: int  # Gamma
    swaps: int  # the whole path's

    @property
    def pays(self) -> bool:
        return self.benefit > self.cost


def improvements(cost: Cost, patience: int = 1) -> Iterator[Step]:
    """The improvement path, a step at a time; `cost` goes along with it."""
    best = cost.total()
    yield Step(best, cost.at.copy())
    while True:
        order = np.argsort(-cost.broker_costs(), kind="stable")[:patience]
        for node in map(int, order):
            change = cost.swaps(node)
            other = int(change.argmin())
            if change[other] < -LEAST * best:
                cost.swap(node, other)
                best += float(change[other])
                yield Step(best, cost.at.copy())
                break
        else:
            return


def ssbr_greedy(cost: Cost, patience: int = 1) -> list[Step]:
    return list(improvements(cost, patience))


def reconfiguration_cost(brokers: int, topics: int, changed: int, form: str = "text") -> float:
    """Messages to move `changed` brokers by 5.1.2; (7) as printed multiplies |V| by Gamma (D-4)."""
    if not changed:
        return 0.0
    log = math.log2(brokers)
    everybody = brokers * changed if form == "printed" else brokers
    return everybody + (log * log + topics * log) * changed


def is_worth_computing(cost: float, brokers: int, topics: int, beta: float = 0.1, form: str = "text") -> bool:
    """The reconfigurability test (algorithm 2, step 2)."""
    return cost > beta * reconfiguration_cost(brokers, topics, brokers, form)


def dynatops_greedy(cost: Cost, form: str = "text", patience: int = 1) -> Plan:
    return best_of(ssbr_greedy(cost, patience), len(cost.events), form)


def best_of(path: list[Step], topics: int, form: str = "text") -> Plan:
    """Algorithm 4's second step."""
    start = path[0]
    best = Plan(start.at, 0.0, 0.0, 0, len(path) - 1)
    for step in path[1:]:
        changed = int((step.at != start.at).sum())
        price = reconfiguration_cost(len(start.at), topics, changed, form)
        if start.cost - step.cost - price > best.benefit - best.cost:
            best = Plan(step.at, start.cost - step.cost, price, changed, len(path) - 1)
    return best


def estimated_rate(before: float, observed: float, alpha: float = 0.3) -> float:
    """Publications of a topic in the next period (8)."""
    return (1 - alpha) * before + alpha * observed
