"""The way of one publication through a balanced tree, and what it costs, without sending it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from grapevine.wire.relocation import NeighbourDelay
from tools.simulator.latency import Latency


class Tree:
    """Balanced, of fan-out 2: broker n has the parent n // 2, and is host n - 1 of the map."""

    def __init__(self, brokers: int, map: Latency) -> None:
        self.brokers = brokers
        self.one_way_s = cache(map.one_way_s)
        self.towards = cache(self._towards)
        self.neighbours = cache(self._neighbours)

    def _towards(self, broker: int, goal: int) -> int:
        """The next broker on the way to `goal`."""
        below = goal
        while below > broker:
            if below // 2 == broker:
                return below
            below //= 2
        return broker // 2

    def _neighbours(self, broker: int) -> tuple[NeighbourDelay, ...]:
        around = (broker // 2, 2 * broker, 2 * broker + 1)
        return tuple(
            NeighbourDelay(other, 0.0, 2 * self.one_way_s(broker - 1, other - 1))
            for other in around
            if 1 <= other <= self.brokers
        )

    def path(self, source: int, target: int) -> list[int]:
        path = [source]
        while path[-1] != target:
            path.append(self.towards(path[-1], target))
        return path

    def path_s(self, path: Sequence[int]) -> float:
        return sum(self.one_way_s(one - 1, other - 1) for one, other in pairwise(path))


class Spread:
    """From one broker to the homes of all who want it; `local` counts them by broker."""

    def __init__(self, tree: Tree, root: int, local: Counter[int]) -> None:
        self.local = local
        self.onward: dict[int, list[int]] = {root: []}  # for each broker reached, to whom it passes it on
        for home in local:
            step = home
            while step not in self.onward:
                self.onward[step] = []
                step = tree.towards(step, root)
        for broker in self.onward:
            if broker != root:
                self.onward[tree.towards(broker, root)].append(broker)
        self.order = [root]
        for broker in self.order:
            self.order += self.onward[broker]
        self.behind = Counter(local)  # subscribers at and behind each broker
        for broker in reversed(self.order):
            for other in self.onward[broker]:
                self.behind[broker] += self.behind[other]
        self.links = len(self.order) - 1


class Cost:
    """Copies between brokers, deliveries, and the sums of their hops and delays. `clients` are the
    subscribers as (broker, host); the publisher is a host too."""

    def __init__(self, tree: Tree, spread: Spread, clients: list[tuple[int, int]], publisher: int) -> None:
        root, one_way_s = spread.order[0], tree.one_way_s
        delay_s, hops = {root: one_way_s(publisher, root - 1)}, {root: 1}
        for broker in spread.order:
            for other in spread.onward[broker]:
                delay_s[other] = delay_s[broker] + one_way_s(broker - 1, other - 1)
                hops[other] = hops[broker] + 1
        self.links = spread.links
        self.deliveries = len(clients)
        self.hops = sum(hops[broker] for broker, _ in clients)
        self.delay_s = sum(delay_s[broker] + one_way_s(broker - 1, host) for broker, host in clients)
        self.farthest_s = max(delay_s.values()) - delay_s[root]  # from the first broker to the last
