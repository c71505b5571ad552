"""Matchers that come and go: figures 9 and 10, and what keeping each publisher's order costs.

* Fig. 9 begins with five matchers and 500 messages a second; every step brings 500 more. When the detector of
  `overlay.onehop.saturation` says saturated, a matcher joins: in each dimension it takes from the segment
  with the most work what lies above the median of its messages (IV-E, cut by messages). It fills for 13 us a
  copy before it serves. A step is shorter than the paper's five minutes.
* Fig. 10: dispatchers go on choosing a dead matcher until they know; how long that takes is the paper's own
  17.5 s, given, not found. What was sent to it is lost in the paper, asked elsewhere here.
* Order: each publisher's messages are released in the order in which they came (sections 5.4 and 5.6 of
  ours).
"""

from __future__ import annotations

from random import Random
from statistics import fmean
from typing import NamedTuple

import numpy as np

from overlay.onehop.loads import Reading
from overlay.onehop.policies import Policy
from overlay.onehop.saturation import saturated
from overlay.onehop.segments import Candidate
from overlay.onehop.splitting import heaviest, split_point
from tools.reproduce.bluedove_cluster import Cluster, Cost
from tools.reproduce.bluedove_workload import (
    DIMENSIONS,
    Floats,
    Placement,
    Workload,
    World,
    equal_edges,
    set_sizes,
)

FILL_S = 13e-6  # a copy
CHECK_S = 5.0
LOOK_BACK_S = 30.0
ADDITIONS = 3
PAPER_DETECTION_S = 17.5
HEDGE_S = 0.25  # an ask that is not answered by then goes to another candidate


class Partition:
    """Segments that change: for each dimension its edges and the owner of each segment."""

    def __init__(self, load: Workload, matchers: int, placement: Placement) -> None:
        self.load, self.placement, self.matchers = load, placement, matchers
        self.edges: list[Floats] = [equal_edges(matchers) for _ in range(DIMENSIONS)]
        self.owners = [list(range(matchers)) for _ in range(DIMENSIONS)]

    def world(self) -> World:
        sizes = np.zeros((DIMENSIONS, self.matchers))
        for d, (edges, owners) in enumerate(zip(self.edges, self.owners)):
            np.add.at(sizes[d], owners, set_sizes(self.load, d, edges, self.placement))
        candidates: list[list[Candidate]] = [[] for _ in self.load.messages]
        for d, (edges, owners) in enumerate(zip(self.edges, self.owners)):
            for found, place in zip(candidates, np.searchsorted(edges, self.load.messages[:, d], "right")):
                found.append(Candidate(owners[place], d))
        return World(candidates, sizes, np.zeros(len(candidates)), len(self.load.low))

    def join(self, work: list[dict[int, float]]) -> None:
        """A newcomer takes half of the messages of the heaviest segment of each dimension."""
        newcomer = self.matchers
        self.matchers += 1
        for d, of_dimension in enumerate(work):
            place = self.owners[d].index(heaviest(of_dimension)[0])
            ends = [-np.inf, *self.edges[d], np.inf]
            values = self.load.messages[:, d]
            inside = values[(values >= ends[place]) & (values < ends[place + 1])]
            cut = split_point(inside[:1024].tolist())
            assert isinstance(cut, float), "messages are uniform: there are no atoms"
            self.edges[d] = np.insert(self.edges[d], place, cut)
            self.owners[d].insert(place + 1, newcomer)


class Addition(NamedTuple):
    at_s: float
    matchers: int
    falls_after_s: float
    before_s: float  # mean response when it was added
    after_s: float  # 20 s later


def elasticity(
    load: Workload, placement: Placement, cost: Cost, policy: Policy, reading: Reading, step_s: float
) -> tuple[list[Addition], list[tuple[float, float]]]:
    """Until three matchers have joined; also the mean response of each second."""
    partition = Partition(load, 5, placement)
    cluster = Cluster(partition.world(), cost, policy, reading)
    seconds: list[tuple[float, float]] = []
    added: list[tuple[float, int]] = []
    quiet_until, second = CHECK_S, 0
    while len(added) < ADDITIONS or second < added[-1][0] + 25:
        rate = 500.0 * (1 + int(second / step_s))
        second += 1
        cluster.run(rate, float(second))
        took = [r for m in cluster.matchers for at, r, _ in m.done if at > second - 1]
        for matcher in cluster.matchers:
            matcher.done.clear()
        seconds.append((float(second), fmean(took) if took else 0.0))
        recent = [one for one in seconds if one[0] > max(second - LOOK_BACK_S, quiet_until - CHECK_S)]
        backlogs = [matcher.backlog_s(cluster.now) for matcher in cluster.matchers]
        if len(added) < ADDITIONS and second >= quiet_until and second % CHECK_S == 0:
            if saturated(recent, backlogs):
                added.append((float(second), partition.matchers + 1))
                _add(cluster, partition, rate)
                quiet_until = second + 2 * CHECK_S
    return [_addition(at, matchers, seconds) for at, matchers in added], seconds


def _add(cluster: Cluster, partition: Partition, rate: float) -> None:
    work: list[dict[int, float]] = [{} for _ in range(DIMENSIONS)]
    for matcher, load in cluster.loads[0].items():
        for dimension, of in enumerate(load.dimensions):
            work[dimension][matcher] = of.arrivals * of.cost_s
    partition.join(work)
    after = partition.world()
    copies = after.sizes[:, -1].sum()
    cluster.run(rate, cluster.now + FILL_S * float(copies))  # by the old segments
    cluster.world = after
    for number, old in enumerate(cluster.matchers):
        old.set_sizes(after.sizes[:, number].tolist())
    cluster.add_matcher(after.sizes[:, -1].tolist(), 1.0)


def _addition(at: float, matchers: int, seconds: list[tuple[float, float]]) -> Addition:
    later = [(s - at, response) for s, response in seconds if at < s <= at + 25]
    before = next(response for s, response in seconds if s == at)
    after = fmean(response for _, response in later[-5:])
    for (first, a), (_, b), (_, c) in zip(later, later[1:], later[2:]):
        if max(a, b, c) < before:
            return Addition(at, matchers, first, before, after)
    return Addition(at, matchers, float("inf"), before, after)


class Crash(NamedTuple):
    lost_percent: float  # of what was sent while nobody knew
    response_before_s: float
    response_after_s: float
    back_after_s: float


def crash(some: World, cost: Cost, policy: Policy, reading: Reading, rate: float) -> Crash:
    """The paper's way: messages to the dead matcher are lost until dispatchers know of it."""
    cluster = Cluster(some, cost, policy, reading)
    cluster.run(rate, 5.0)
    before = fmean(r for at, r, _ in cluster.responses() if at > 2.0)
    cluster.dead.add(0)
    sent = cluster.arrived
    cluster.run(rate, 5.0 + PAPER_DETECTION_S)
    lost = 100 * cluster.lost / (cluster.arrived - sent)
    others = [[one for one in found if one.matcher] for found in some.candidates]
    cluster.world = some._replace(candidates=[found for found in others if found])
    known = cluster.now
    cluster.run(rate, known + 5.0)
    after = fmean(r for at, r, _ in cluster.responses() if at > known + 2.0)
    return Crash(lost, before, after, PAPER_DETECTION_S)


def order_cost(
    some: World, cost: Cost, policy: Policy, rate: float, publishers: int, seconds: float
) -> float:
    """Mean response with each publisher's order over that without."""
    cluster = Cluster(some, cost, policy)
    cluster.run(rate, seconds)
    chance = Random(7)
    finished = {number: (at, took) for at, took, number in cluster.responses()}
    last = [0.0] * publishers
    plain = ordered = 0.0
    for number in sorted(finished):
        at, took = finished[number]
        publisher = chance.randrange(publishers)
        last[publisher] = max(last[publisher], at)
        plain += took
        ordered += took + last[publisher] - at
    return ordered / plain
