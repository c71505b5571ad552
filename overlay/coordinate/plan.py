"""SPEC A5: who moves where when load is uneven (BAD 5.2, 5.3 and Algorithm 1).

A round is a shuffle, or dynamic migration, or nothing. Dynamic migration takes one subscriber at a time from
the broker of greatest load: LDM to the broker of least load, SDM to the one below the mean that shares most
with it. GSH places everybody anew. A plan names each subscriber once, with where it is and where it goes.

Algorithm 1 as printed does not always end and contradicts the text (docs/papers/bad.md). Here a migration is
valid if the target's load *after* it is strictly below the source's before it, so that the sorted loads fall
at every step; without a valid one the plan ends and says so. `printed=True` is line 17 as it stands.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from overlay.coordinate.loads import NOWHERE, Assignment, Floats, Ints, variation

Scheme: TypeAlias = Literal["LDM", "SDM"]
Stage: TypeAlias = Literal["shuffle", "migrate", "none"]
Moves: TypeAlias = dict[int, tuple[int, int]]  # subscriber -> (where it is, where it goes)

BALANCED = "balanced"
NO_VALID = "no valid migration"
LIMITED = "limit of moves"
UNBOUNDED = 10**9


class Thresholds(NamedTuple):
    """The paper gives alpha and beta for one experiment, gamma and theta for none."""

    alpha: float = 0.15  # cov above which subscribers move
    beta: float = 1e6  # bytes a second: mean load below which they do not
    gamma: float = 0.5  # cov above which everybody is placed anew
    theta: float = 1e6


class Plan(NamedTuple):
    moves: Moves
    steps: int
    ended: str


def stage(loads: Floats, thresholds: Thresholds) -> Stage:
    """One of them a round: after a shuffle, Algorithm 1 goes on by the cov of before."""
    cov, mean = variation(loads), float(loads.mean())
    if cov > thresholds.gamma and mean > thresholds.theta:
        return "shuffle"
    if cov > thresholds.alpha and mean > thresholds.beta:
        return "migrate"
    return "none"


def migrate(
    at: Assignment,
    alpha: float,
    beta: float,
    scheme: Scheme = "LDM",
    most: int = UNBOUNDED,
    staying: Collection[int] = (),
    printed: bool = False,
) -> Plan:
    """Dynamic migration; `at` is changed into what the plan leads to. `staying` are not to be moved."""
    before = at.home.copy()
    queues = _by_falling_weight(at, frozenset(staying))
    moved: list[int] = []
    ended = BALANCED
    while _uneven(at.loads, alpha, beta):
        if len(moved) >= most:
            ended = LIMITED
            break
        source = int(at.loads.argmax())
        found = _first_valid(at, queues[source], source, scheme, printed)
        if found is None:
            ended = NO_VALID
            break
        subscriber, target = found
        at.move(subscriber, target)
        heappush(queues[target], (-float(at.weights[subscriber]), subscriber))
        moved.append(subscriber)
    return Plan(compressed(before, at.home), len(moved), ended)


def _uneven(loads: Floats, alpha: float, beta: float) -> bool:
    """Asked at every step: the deviation from two sums, exact enough above a thousandth of the mean."""
    mean = float(loads.sum()) / loads.size
    if not (mean > beta and mean > 0):
        return False
    variance = float(loads.dot(loads)) / loads.size - mean * mean
    if variance < 1e-6 * mean * mean:
        variance = float(loads.var())
    return variance > (alpha * mean) ** 2


_Queue: TypeAlias = list[tuple[float, int]]  # a heap of (-u_i, i); who is elsewhere by now is skipped


def _by_falling_weight(at: Assignment, staying: frozenset[int]) -> list[_Queue]:
    order = np.lexsort((np.arange(len(at.home)), -at.weights))
    order = order[at.weights[order] > 0]
    queues: list[_Queue] = []
    for broker in range(at.brokers):
        here = order[at.home[order] == broker]
        entries = zip((-at.weights[here]).tolist(), here.tolist())
        queues.append([entry for entry in entries if entry[1] not in staying])
    return queues


def _first_valid(
    at: Assignment, queue: _Queue, source: int, scheme: Scheme, printed: bool
) -> tuple[int, int] | None:
    """The heaviest subscriber of the source whose migration is valid; it leaves the queue."""
    mean = float(at.loads.mean())
    least = int(at.loads.argmin())
    below = np.flatnonzero(at.loads < mean)
    limit = float(at.loads[source])
    if not below.size:  # equal but for rounding
        return None
    passed_over: _Queue = []
    found = None
    while queue and found is None:
        entry = heappop(queue)
        subscriber = entry[1]
        if at.home[subscriber] != source:
            continue
        target = least if scheme == "LDM" else most_similar(at, subscriber, below)
        if printed:
            valid = float(at.loads[target]) <= limit
        else:
            valid = float(at.loads[target]) + at.gain(subscriber, target) < limit
        if valid and target != source:
            found = subscriber, target
        else:
            passed_over.append(entry)
    for entry in passed_over:
        heappush(queue, entry)
    return found


def most_similar(at: Assignment, subscriber: int, below: Ints) -> int:
    """Of these brokers the one whose held results that the subscriber wants carry most data (5.2); ties go
    to the least load, then to the lowest number."""
    wanted = at.of_subscriber(subscriber)
    similarity = np.where(at.counts[below[:, None], wanted], at.rates[wanted], 0.0).sum(axis=1)
    best = similarity.max()
    ties = below[similarity >= best * (1 - 1e-12)]
    return int(ties[at.loads[ties].argmin()])


def shuffle(
    at: Assignment, keep: float | None = None, printed: bool = False, staying: Collection[int] = ()
) -> Plan:
    """GSH (5.3): all brokers empty, subscribers by falling weight, each to the broker of least load.

    `keep` (ours): who is somewhere stays while the load there stays within (1 + keep) of the mean before.
    Subscribers without load leave the least loaded broker least loaded, so that as printed all of them go
    there; ours go where the fewest subscribers are. `staying` are not to be moved, and are there first.
    """
    before = at.home.copy()
    order = np.lexsort((np.arange(len(before)), -at.weights))
    order = order[(before[order] != NOWHERE) & ~np.isin(order, list(staying))]
    bound = None if keep is None else (1 + keep) * float(at.loads.mean())
    crowd = None if keep is None else (1 + keep) * len(order) / at.brokers
    loaded = order[at.weights[order] > 0].tolist()
    idle = order[at.weights[order] <= 0].tolist()
    at.empty()
    for subscriber in staying:
        at.move(subscriber, int(before[subscriber]))
    for subscriber in loaded:
        _place(at, subscriber, int(before[subscriber]), bound)
    for subscriber in idle:
        own = int(before[subscriber])
        stays = crowd is not None and at.subscribers[own] + 1 <= crowd
        fewest = at.loads.argmin() if printed else at.subscribers.argmin()
        at.move(subscriber, own if stays else int(fewest))
    return Plan(compressed(before, at.home), len(order), BALANCED)


def _place(at: Assignment, subscriber: int, own: int, bound: float | None) -> None:
    """`Assignment.move` of somebody who is nowhere, without counting anything twice: it is done for each."""
    loads, rates = at.loads, at.rates
    wanted = at.wanted[at.start[subscriber] : at.start[subscriber + 1]]
    target, held = own, at.counts[own]
    grown = 0.0
    if bound is not None:
        grown = at.weights[subscriber] + rates[wanted[held[wanted] == 0]].sum()
    if bound is None or loads[own] + grown > bound:
        target = int(loads.argmin())
        held = at.counts[target]
        grown = at.weights[subscriber] + rates[wanted[held[wanted] == 0]].sum()
    loads[target] += grown
    held[wanted] += 1
    at.subscribers[target] += 1
    at.home[subscriber] = target


def compressed(before: Ints, after: Ints) -> Moves:
    """Algorithm 1 lists every step by its source; a subscriber that moved twice is told to go once, and one
    that ended where it began is not told at all."""
    moved = np.flatnonzero((before != after) & (before != NOWHERE))
    return {i: (int(before[i]), int(after[i])) for i in moved.tolist()}
