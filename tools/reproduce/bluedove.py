"""`pubctl reproduce bluedove`: the figures of BlueDove's paper (see docs/papers/bluedove.md).

Every figure with both placements: *overlap* as III-A says, *one* copy a dimension as its gains suggest.
Policies with all three readings of mu. Nothing is tuned: the one number that the paper does not give and a
run needs, what a message costs beside the scan, is 20 us; the scan's 0.295 us a subscription is what 67x
leaves full replication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from overlay.onehop.gossip import rounds_bar
from overlay.onehop.loads import READINGS, Reading
from overlay.onehop.policies import Policy
from tools.reproduce import bluedove_capacity as capacity
from tools.reproduce.bluedove_bytes import byte_rows, rounds_to_all
from tools.reproduce.bluedove_cluster import OURS, PAPER, Run, run_once
from tools.reproduce.bluedove_elastic import Addition, Crash, crash, elasticity, order_cost
from tools.reproduce.bluedove_pictures import draw
from tools.reproduce.bluedove_quotes import quote_shares
from tools.reproduce.bluedove_rows import rows_of
from tools.reproduce.bluedove_workload import (
    Placement,
    World,
    alone_share,
    first_dimension,
    full_replication,
    hot_spot_density,
    workload,
    world,
)
from tools.reproduce.row import Row

PLACEMENTS: tuple[Placement, ...] = ("one", "overlap")
POLICIES: tuple[Policy, ...] = ("adaptive", "response", "amount", "random", "price")
LIMITS = ((40_000, 250.0), (1_000_000, 50.0), (10_000_000, 10.0))
Tell = Callable[[int, int], None]
Key = tuple[Any, ...]
__all__ = ["draw", "reproduce"]


class Size(NamedTuple):
    effort: capacity.Effort
    matchers: tuple[int, ...]
    sds: tuple[float, ...]
    skews: tuple[int, ...]
    step_s: float
    limits: int
    seeds: int


FULL = Size(capacity.FULL, (5, 10, 15, 20), (250.0, 500.0, 750.0, 1000.0), (0, 1, 2, 3, 4), 60.0, 3, 1000)
QUICK = Size(capacity.QUICK, (5, 20), (250.0, 1000.0), (0, 4), 30.0, 2, 200)


class Case(NamedTuple):
    """A cluster at its limit."""

    placement: Placement
    matchers: int = 20
    system: str = "bluedove"  # or p2p, full
    policy: Policy = "adaptive"
    reading: Reading = "matching-time"
    dimensions: int = 4
    sd: float = 250.0
    skewed: int = 0


def cases(size: Size) -> Iterator[Case]:
    for placement in PLACEMENTS:
        for matchers in size.matchers:
            yield Case(placement, matchers)
            yield Case(placement, matchers, "p2p", "amount")
            yield Case(placement, matchers, "full", "random")
        for policy in POLICIES:
            readings = READINGS if policy in ("adaptive", "response") else ["matching-time"]
            yield from (Case(placement, policy=policy, reading=reading) for reading in readings)  # type: ignore[arg-type]
        yield from (Case(placement, dimensions=count) for count in (1, 2, 3, 4))
        yield from (Case(placement, sd=sd) for sd in size.sds)
        yield from (Case(placement, skewed=count) for count in size.skews)


def make_world(case: Case, count: int = 40_000) -> World:
    load = workload(count, sd=case.sd, skewed=case.skewed)
    made = world(load, case.matchers, case.placement, case.dimensions)
    if case.system == "p2p":
        return first_dimension(made)
    return full_replication(made) if case.system == "full" else made


def saturate(case: Case, effort: capacity.Effort) -> capacity.Saturation:
    return capacity.saturation(make_world(case), PAPER, case.policy, case.reading, effort)


def carry(case: Case, effort: capacity.Effort) -> float:
    return capacity.most_subscriptions(make_world(case), PAPER, case.policy, case.reading, effort)


def limits(count: int, width: float, matchers: int) -> tuple[float, float, float, float]:
    """With our index: the matchers' limit under price and amount, of P2P and of full replication."""
    drawn = workload(min(count, 1_000_000), width)
    made = world(drawn, matchers, "overlap", matches=True)
    share = count / len(drawn.low)
    if share != 1:
        made = made._replace(sizes=made.sizes * share, matches=made.matches * share, subscriptions=count)
    everyone = capacity.fluid(full_replication(made), OURS)
    alone = capacity.fluid(first_dimension(made), OURS, "amount")
    return capacity.fluid(made, OURS), capacity.fluid(made, OURS, "amount"), alone, everyone


def around_saturation(placement: Placement, effort: capacity.Effort) -> list[tuple[float, Run]]:
    """Fig. 5: 100 and 150 of 114."""
    case = Case(placement)
    made, rate = make_world(case), saturate(case, effort).rate
    seconds = effort.seconds[0] * 2
    return [
        (share, run_once(made, PAPER, "adaptive", "matching-time", rate * share, seconds))
        for share in (0.88, 1.32)
    ]


def after_crash(placement: Placement, effort: capacity.Effort) -> Crash:
    case = Case(placement)
    rate = saturate(case, effort._replace(tolerance=0.1)).rate
    return crash(make_world(case), PAPER, "adaptive", "matching-time", 0.25 * rate)


def cost_of_order(placement: Placement, effort: capacity.Effort) -> dict[tuple[float, int], float]:
    case = Case(placement, policy="price")
    rate = saturate(case, effort._replace(tolerance=0.1)).rate
    made = make_world(case)
    seconds = min(6.0, effort.messages / rate * 2)
    shares = ((0.5, 1000), (0.8, 1000), (0.9, 1000), (0.8, 10))
    return {
        (share, publishers): order_cost(made, PAPER, "price", share * rate, publishers, max(3.0, seconds))
        for share, publishers in shares
    }


def grow(policy: Policy, step_s: float) -> tuple[list[Addition], list[tuple[float, float]]]:
    return elasticity(workload(), "overlap", PAPER, policy, "matching-time", step_s)


def gossip_late(members: int, seeds: int) -> float:
    """Per cent of the seeds in which a change took more than 2 log2 N + 2 rounds."""
    return 100 * sum(rounds_to_all(members, seed) > rounds_bar(members) for seed in range(seeds)) / seeds


def alone_shares() -> dict[tuple[float, Placement], float]:
    return {
        (width, placement): alone_share(width, placement)
        for width in (250.0, 2.5)
        for placement in PLACEMENTS
    }


def densities() -> dict[tuple[float, str], float]:
    return {(sd, where): hot_spot_density(sd, where) for sd in (250.0, 1000.0) for where in ("even", "edge")}


def submit(pool: ProcessPoolExecutor, size: Size, data: Path | None) -> dict[Key, Future[Any]]:
    effort = size.effort
    work: dict[Key, Future[Any]] = {}
    for placement in PLACEMENTS:
        for system, policy in (("bluedove", "adaptive"), ("p2p", "amount"), ("full", "random")):
            case = Case(placement, system=system, policy=policy)  # type: ignore[arg-type]
            work["carry", case] = pool.submit(carry, case, effort)
        work["around", placement] = pool.submit(around_saturation, placement, effort)
        work["crash", placement] = pool.submit(after_crash, placement, effort)
        work["order", placement] = pool.submit(cost_of_order, placement, effort)
    for case in dict.fromkeys(cases(size)):
        work["rate", case] = pool.submit(saturate, case, effort)
    both: tuple[Policy, ...] = ("adaptive", "price")
    for rule in both:
        work["elastic", rule] = pool.submit(grow, rule, size.step_s)
    for count, width in LIMITS[: size.limits]:
        for matchers in (5, 20):
            work["limits", count, width, matchers] = pool.submit(limits, count, width, matchers)
    for members in (5, 20):
        work["gossip", members] = pool.submit(gossip_late, members, size.seeds)
    work["quotes", 20] = pool.submit(quote_shares, data, 20)
    work["quotes", 5] = pool.submit(quote_shares, data, 5)
    work["densities",] = pool.submit(densities)
    work["alone",] = pool.submit(alone_shares)
    return work


def reproduce(quick: bool, data: Path | None, jobs: int, tell: Tell = lambda done, of: None) -> list[Row]:
    with ProcessPoolExecutor(jobs) as pool:
        work = submit(pool, QUICK if quick else FULL, data)
        for number, _ in enumerate(as_completed(work.values()), 1):
            tell(number, len(work))
    done = {key: future.result() for key, future in work.items()}
    return [*rows_of(done), *byte_rows()]
