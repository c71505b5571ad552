"""Trees of degree 3 and publications with the brokers that want them.

The paper gives mean numbers and a Zipf law without its exponent. A topic of rank r interests a broker with
probability min(1, c / r^a); publications take topics at random. `calibrate` finds c from the deliveries per
publication and a from S0's yield, and nothing else: what the other strategies do then is a prediction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

import msgspec

TOPICS = 400


class Tree:
    """Brokers 1..n (0 is nobody); each is given children until it has `degree` neighbours."""

    def __init__(self, size: int, degree: int = 3) -> None:
        self.brokers = range(1, size + 1)
        self.beside: list[list[int]] = [[] for _ in range(size + 1)]
        self._grow(degree)
        found = [self._search(broker) for broker in range(size + 1)]
        self.next = [first for first, _ in found]  # next[a][b]: the hop from a towards b
        self.distance = [distance for _, distance in found]

    def _grow(self, degree: int) -> None:
        room = deque([1])
        for broker in self.brokers[1:]:
            while len(self.beside[room[0]]) >= degree:
                room.popleft()
            self._join(room[0], broker)
            room.append(broker)

    def _join(self, one: int, other: int) -> None:
        self.beside[one].append(other)
        self.beside[other].append(one)

    def _search(self, start: int) -> tuple[list[int], list[int]]:
        first, distance = [start] * len(self.beside), [0] * len(self.beside)
        front = deque((other, other, start, 1) for other in self.beside[start])
        while front:
            broker, by, before, hops = front.popleft()
            first[broker], distance[broker] = by, hops
            front.extend((other, by, broker, hops + 1) for other in self.beside[broker] if other != before)
        return first, distance

    def path(self, start: int, end: int) -> tuple[int, ...]:
        """Nearest first, without the start."""
        path = []
        while start != end:
            start = self.next[start][end]
            path.append(start)
        return tuple(path)

    def passes(self, start: int, broker: int, end: int) -> bool:
        """Whether `broker` lies on the way from start to end."""
        distance = self.distance
        return distance[start][broker] + distance[broker][end] == distance[start][end]


class Publication(msgspec.Struct, frozen=True):
    source: int
    wanted: frozenset[int]  # brokers with a matching subscription, the source left out


class Workload:
    def __init__(self, tree: Tree, scale: float, exponent: float, seed: int) -> None:
        self.tree = tree
        self.scale = scale
        self.exponent = exponent
        self.sources: Sequence[int] = tree.brokers
        self._interested = self._place(Random(f"topics {seed}"))
        self._random = Random(f"publications {seed}")

    def _place(self, random: Random) -> list[list[int]]:
        """For each topic the brokers that want it."""
        chances = [[random.random() for _ in self.tree.brokers] for _ in range(TOPICS)]
        return [
            [b for b, chance in enumerate(row, 1) if chance < self.scale / rank**self.exponent]
            for rank, row in enumerate(chances, 1)
        ]

    def draw(self, count: int) -> list[Publication]:
        random = self._random
        drawn = []
        for _ in range(count):
            source = random.choice(self.sources)
            wanted = frozenset(self._interested[random.randrange(TOPICS)]) - {source}
            drawn.append(Publication(source, wanted))
        return drawn


def spanning_sends(tree: Tree, publication: Publication) -> int:
    """Messages that S0 sends: the edges of the smallest subtree with the source and all that want it."""
    edges = set()
    for broker in publication.wanted:
        at = publication.source
        while at != broker:
            following = tree.next[at][broker]
            edges.add((at, following))
            at = following
    return len(edges)


def s0_figures(tree: Tree, publications: list[Publication]) -> tuple[float, float]:
    """Deliveries per publication and yield in per cent."""
    delivered = sum(len(p.wanted) for p in publications)
    sends = sum(spanning_sends(tree, p) for p in publications)
    return delivered / len(publications), 100 * delivered / max(1, sends)


def calibrate(
    tree: Tree,
    deliveries: float,
    percent: float,
    seed: int,
    sample: int = 1500,
    family: type[Workload] = Workload,
) -> Workload:
    """By bisection: the scale that gives the deliveries for each exponent, the exponent for the yield."""
    low, high = 0.0, 3.0
    for _ in range(12):
        exponent = (low + high) / 2
        workload = scaled_to(tree, deliveries, exponent, seed, sample, family)
        if s0_figures(tree, workload.draw(sample))[1] < percent:
            low = exponent
        else:
            high = exponent
    chosen = scaled_to(tree, deliveries, (low + high) / 2, seed, sample, family)
    return family(tree, chosen.scale, chosen.exponent, seed)


def scaled_to(
    tree: Tree,
    deliveries: float,
    exponent: float,
    seed: int,
    sample: int,
    family: type[Workload] = Workload,
) -> Workload:
    low, high = 0.0, float(TOPICS) ** exponent * 2
    for _ in range(22):
        workload = family(tree, (low + high) / 2, exponent, seed)
        mean = sum(len(p.wanted) for p in workload.draw(sample)) / sample
        if mean < deliveries:
            low = workload.scale
        else:
            high = workload.scale
    return family(tree, (low + high) / 2, exponent, seed)
