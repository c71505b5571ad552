"""Saturation rates, and the most subscriptions at a rate, by halving an interval of runs.

`fluid` needs no run: what the matchers could carry if every dispatcher knew all work at every moment and went
by the price rule; used as a start, and alone where a run would have to simulate millions of messages a
second.
"""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import NamedTuple

from overlay.onehop.loads import Reading
from overlay.onehop.policies import Policy
from tools.reproduce.bluedove_cluster import GROWTH, Cost, Run, run_once
from tools.reproduce.bluedove_workload import World, scaled

RATE = 100_000.0  # of Fig. 6b
FLOOR = 1e-9


class Effort(NamedTuple):
    messages: int  # of one run
    seconds: tuple[float, float]  # least, most
    tolerance: float


FULL = Effort(250_000, (4.0, 16.0), 0.03)
QUICK = Effort(30_000, (2.5, 8.0), 0.08)


class Saturation(NamedTuple):
    rate: float
    run: Run | None  # the last one that was not saturated

    @property
    def deviation(self) -> float:
        """sd / mean of the matchers' load just under saturation (Fig. 8)."""
        assert self.run is not None
        return pstdev(self.run.busy) / fmean(self.run.busy)


def fluid(some: World, cost: Cost, policy: str = "price") -> float:
    """Messages a second when the busiest matcher is always busy."""
    work = [0.0] * some.matchers
    sizes, matches = some.sizes.tolist(), some.matches.tolist()
    for candidates, found in zip(some.candidates, matches):
        best, least, takes = 0, float("inf"), 0.0
        for matcher, dimension in candidates:
            price = cost.of(sizes[dimension][matcher], found)
            score = sizes[dimension][matcher] if policy == "amount" else (work[matcher] + FLOOR) * price
            if score < least:
                best, least, takes = matcher, score, price
        work[best] += takes
    return len(some.candidates) / max(work)


def saturation(
    some: World, cost: Cost, policy: Policy, reading: Reading = "matching-time", effort: Effort = FULL
) -> Saturation:
    high = 1.15 * fluid(some, cost)
    low, held = 0.0, None
    rate = high * 0.75
    while high - low > effort.tolerance * high:
        seconds = min(effort.seconds[1], max(effort.seconds[0], effort.messages / rate))
        run = run_once(some, cost, policy, reading, rate, seconds)
        if run.growth > GROWTH:
            high = rate
        else:
            low, held = rate, run
        rate = (low + high) / 2 if low else high / 2
    return Saturation(low, held)


def most_subscriptions(
    some: World, cost: Cost, policy: Policy, reading: Reading, effort: Effort, rate: float = RATE
) -> float:
    """Fig. 6b: how many the system carries at this rate, sets growing in proportion."""
    low, high = 0.0, 1.0
    while fluid(scaled(some, high), cost) > rate and high < 64:
        low, high = high, high * 2
    seconds = max(effort.seconds[0], effort.messages / rate)
    low = 0.0
    while high - low > effort.tolerance * high:
        share = (low + high) / 2
        run = run_once(scaled(some, share), cost, policy, reading, rate, seconds)
        low, high = (low, share) if run.growth > GROWTH else (share, high)
    return low * some.subscriptions
