"""A cluster of matchers under load: when is it saturated, how busy is each, how long does an answer take.

* A matcher serves one message at a time, from one queue for each dimension, round robin (III-B). What a
  message costs is a fixed part, a part for every subscription of the set, a part for every match.
* Dispatchers choose by `overlay.onehop.policies`, the broker's own code, from reports that every matcher
  sends once a second in the form of `overlay.onehop.loads`. Two of them, as in IV-B.
* A matcher's work is advanced only when somebody looks at it: its order depends on nobody else.
* Saturated: more wait at the end of a run than at its half, by a share of what arrived between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import log
from random import Random
from typing import NamedTuple

from grapevine.wire.onehop import DimensionLoad
from overlay.onehop.loads import Measured, Reading, dimension_load
from overlay.onehop.policies import MatcherLoad, Policy, pick_matcher
from tools.reproduce.bluedove_workload import World

DISPATCHERS = 2
REPORT_S = 1.0
GROWTH = 0.005  # of the arrivals of the second half
HOPELESS = 0.25  # of what has arrived still waits: no need to look further
USUAL_MATCHES = 20  # for a set that has matched nothing yet


class Cost(NamedTuple):
    """Seconds: of a message, for each subscription of the set, for each match."""

    fixed: float
    subscription: float
    match: float

    def of(self, size: float, matches: float) -> float:
        return self.fixed + self.subscription * size + self.match * matches


# 11.8 ms for 40,000: the rate that 67x leaves full replication at 114,000. The fixed part is our choice.
PAPER = Cost(20e-6, 0.295e-6, 0.0)
# Of this broker's index: what a publication, a subscription of the set and a match take.
OURS = Cost(1.33e-6, 0.067e-9, 0.054e-6)

Job = tuple[float, float, int]  # arrived, matches, number


class Matcher:
    __slots__ = (
        *("arrived", "base", "busy_s", "cost", "done", "finish", "job", "matched", "queues", "serving"),
        *("since", "turn", "waiting_s", "work"),
    )

    def __init__(self, sizes: Sequence[float], cost: Cost) -> None:
        self.cost = cost
        self.set_sizes(sizes)
        count = len(sizes)
        self.queues: list[deque[Job]] = [deque() for _ in range(count)]
        self.serving = -1  # dimension
        self.job: Job = (0.0, 0.0, 0)
        self.finish = 0.0
        self.turn = 0
        self.work = 0.0  # seconds, ever taken up
        self.done: list[tuple[float, float, int]] = []  # finished at, took, number
        self.since = [0.0] * count  # when the queue began not to be empty
        self._start_window()

    def set_sizes(self, sizes: Sequence[float]) -> None:
        self.base = [self.cost.of(size, 0.0) for size in sizes]

    def _start_window(self) -> None:
        count = len(self.base)
        self.arrived, self.matched = [0] * count, [0] * count
        self.busy_s, self.waiting_s = [0.0] * count, [0.0] * count

    def advance(self, now: float) -> None:
        """Finishes what is done by now."""
        while self.serving >= 0 and self.finish <= now:
            dimension, end = self.serving, self.finish
            self.done.append((end, end - self.job[0], self.job[2]))
            self.matched[dimension] += 1
            if not self.queues[dimension]:
                self.waiting_s[dimension] += end - self.since[dimension]
            self.serving = -1
            self._begin(end)

    def _begin(self, now: float) -> None:
        queues, count = self.queues, len(self.queues)
        for step in range(1, count + 1):
            dimension = (self.turn + step) % count
            if queues[dimension]:
                self.turn = self.serving = dimension
                self.job = queues[dimension].popleft()
                takes = self.base[dimension] + self.cost.match * self.job[1]
                self.finish = now + takes
                self.work += takes
                self.busy_s[dimension] += takes
                return

    def take(self, dimension: int, job: Job) -> None:
        """After `advance` to the job's arrival."""
        if self.serving != dimension and not self.queues[dimension]:
            self.since[dimension] = job[0]
        self.queues[dimension].append(job)
        self.arrived[dimension] += 1
        if self.serving < 0:
            self._begin(job[0])

    def waiting(self) -> int:
        return sum(map(len, self.queues)) + (self.serving >= 0)

    def backlog_s(self, now: float) -> float:
        left = max(0.0, self.finish - now) if self.serving >= 0 else 0.0
        return left + sum(len(queue) * base for queue, base in zip(self.queues, self.base))

    def report(self, now: float, window_s: float, sizes: Sequence[float], reading: Reading) -> MatcherLoad:
        self.advance(now)
        loads: list[DimensionLoad] = []
        for d, queue in enumerate(self.queues):
            if queue or self.serving == d:
                self.waiting_s[d] += now - self.since[d]
                self.since[d] = now
            waiting = len(queue) + (self.serving == d)
            arrived, matched, size = self.arrived[d], self.matched[d], int(sizes[d])
            busy_s, waiting_s = self.busy_s[d], self.waiting_s[d]
            measured = Measured(arrived, matched, busy_s, waiting_s, window_s, waiting, size)
            idle = self.base[d] + self.cost.match * USUAL_MATCHES
            loads.append(dimension_load(measured, idle, reading))
        self._start_window()
        return MatcherLoad(loads, now, self.backlog_s(now), now)


class Cluster:
    def __init__(
        self, some: World, cost: Cost, policy: Policy, reading: Reading = "matching-time", seed: int = 1
    ) -> None:
        self.world, self.cost, self.policy, self.reading = some, cost, policy, reading
        self.chance = Random(seed)
        self.matchers: list[Matcher] = []
        self.loads: list[dict[int, MatcherLoad]] = [{} for _ in range(DISPATCHERS)]
        self._reports: deque[tuple[float, int]] = deque()
        self.now = 0.0
        self.arrived = 0
        self.dead: set[int] = set()  # and not known to be
        self.lost = 0
        for number in range(some.matchers):
            self.add_matcher(self.world.sizes[:, number].tolist(), number / some.matchers * REPORT_S)

    def add_matcher(self, sizes: Sequence[float], phase_s: float) -> None:
        number = len(self.matchers)
        self.matchers.append(Matcher(sizes, self.cost))
        self._tell(number, 0.0, self.now)
        self._reports.append((self.now + max(phase_s, 1e-3), number))

    def _tell(self, number: int, window_s: float, now: float) -> None:
        sizes = self.world.sizes[:, number].tolist()
        load = self.matchers[number].report(now, max(window_s, 1e-6), sizes, self.reading)
        for known in self.loads:
            known[number] = load

    def _report_due(self, now: float) -> None:
        while self._reports and self._reports[0][0] <= now:
            at, number = self._reports.popleft()
            if number not in self.dead:
                self._tell(number, REPORT_S, at)
            self._reports.append((at + REPORT_S, number))

    def arrivals(self, rate: float, until: float) -> Iterator[float]:
        """Times of Poisson arrivals; the cluster's clock stands at each when it is given."""
        chance = self.chance
        while True:
            self.now += -log(1.0 - chance.random()) / rate
            if self.now > until:
                self.now = until
                return
            yield self.now

    def run(self, rate: float, until: float) -> None:
        chance, pool, matches = self.chance, self.world.candidates, self.world.matches.tolist()
        matchers, pool_size = self.matchers, len(self.world.candidates)
        for now in self.arrivals(rate, until):
            if self._reports[0][0] <= now:
                self._report_due(now)
            message = int(chance.random() * pool_size)
            loads = self.loads[self.arrived % DISPATCHERS]
            chosen = pick_matcher(self.policy, pool[message], loads, now, chance)
            number, dimension = chosen
            self.arrived += 1
            if number in self.dead:
                self.lost += 1
                continue
            matcher = matchers[number]
            matcher.advance(now)
            matcher.take(dimension, (now, matches[message], self.arrived))
            if self.policy == "price":
                cost = matcher.base[dimension] + self.cost.match * matches[message]
                loads[number] = loads[number].after_sending(DISPATCHERS * cost, now)
        for matcher in matchers:
            matcher.advance(self.now)

    def waiting(self) -> int:
        return sum(matcher.waiting() for matcher in self.matchers)

    def responses(self) -> list[tuple[float, float, int]]:
        """(finished at, took, number) of all messages so far."""
        return sorted(one for matcher in self.matchers for one in matcher.done)


class Run(NamedTuple):
    growth: float  # of the backlog in the second half, of what arrived in it
    response_s: float  # mean, second half
    busy: list[float]  # of each matcher, second half


def run_once(
    some: World, cost: Cost, policy: Policy, reading: Reading, rate: float, seconds: float, seed: int = 1
) -> Run:
    cluster = Cluster(some, cost, policy, reading, seed)
    half = seconds / 2
    cluster.run(rate, half / 2)
    if cluster.waiting() > HOPELESS * cluster.arrived:
        return Run(1.0, seconds, [1.0] * len(cluster.matchers))
    cluster.run(rate, half)
    waiting, arrived = cluster.waiting(), cluster.arrived
    work = [matcher.work for matcher in cluster.matchers]
    for matcher in cluster.matchers:
        matcher.done.clear()
    cluster.run(rate, seconds)
    growth = (cluster.waiting() - waiting) / max(1, cluster.arrived - arrived)
    took = [response for matcher in cluster.matchers for _, response, _ in matcher.done]
    busy = [(matcher.work - before) / half for matcher, before in zip(cluster.matchers, work)]
    return Run(growth, sum(took) / max(1, len(took)), busy)
