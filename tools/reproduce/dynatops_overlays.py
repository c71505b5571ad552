"""The overlays that are compared: Tapestry below Bayeux, and what an event costs on any overlay with trees.

Tapestry routes by prefixes; where the next digit has no node, the next larger one that has is taken
(surrogate routing), so that a key has one root. Its tree of a root is, like the ring's, the routes from
there. With `near` a table entry is the nearest of the nodes that fit (proximity neighbour selection), else
a random one.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from overlay.coordinate.cost import Matrix


class Overlay(Protocol):
    size: int

    def ways(self, root: int) -> Matrix: ...


class Tapestry:
    def __init__(
        self, size: int, chance: np.random.Generator, base: int = 4, near: Matrix | None = None
    ) -> None:
        self.size, self.base = size, base
        self.digits = 16 if base == 4 else 8
        self.ids = chance.integers(0, base, (size, self.digits))
        alike = self.ids[:, None, :] == self.ids[None]
        self.shared = np.where(alike.all(2), self.digits, alike.argmin(2))  # digits of a common prefix
        self.table = np.full((size, self.digits, base), -1, np.int32)
        for node in range(size):
            self._fill(node, chance, near)
        self._ways: dict[int, Matrix] = {}

    def _fill(self, node: int, chance: np.random.Generator, near: Matrix | None) -> None:
        for level in range(self.digits):
            fitting = np.flatnonzero(self.shared[node] >= level)
            if fitting.size <= 1:
                self.table[node, level:, :] = -1
                self.table[node, np.arange(level, self.digits), self.ids[node, level:]] = node
                return
            for digit in range(self.base):
                found = fitting[self.ids[fitting, level] == digit]
                if self.ids[node, level] == digit:
                    self.table[node, level, digit] = node
                elif found.size:
                    chosen = chance.choice(found) if near is None else found[near[node, found].argmin()]
                    self.table[node, level, digit] = chosen

    def root(self, key: Matrix) -> int:
        node = 0
        for level in range(self.digits):
            for step in range(self.base):
                found = int(self.table[node, level, (key[level] + step) % self.base])
                if found >= 0:
                    node = found
                    break
        return node

    def way(self, start: int, end: int) -> list[int]:
        passed = []
        while start != end:
            level = self.shared[start, end]
            start = int(self.table[start, level, self.ids[end, level]])
            passed.append(start)
        return passed

    def ways(self, root: int) -> Matrix:
        if root not in self._ways:
            found = [self.way(root, node) for node in range(self.size)]
            longest = max(1, *map(len, found))
            self._ways[root] = np.array([way + [self.size] * (longest - len(way)) for way in found], np.int32)
        return self._ways[root]


def hops(overlay: Overlay) -> Matrix:
    """[from, to]."""
    return np.stack([(overlay.ways(node) < overlay.size).sum(1) for node in range(overlay.size)])


class Notified(NamedTuple):
    """Of an average event. Delays are hops from the publisher, to a user and to a broker."""

    messages: float
    relays: float
    delay: float
    broker_delay: float


def notified(overlay: Overlay, roots: Matrix, users: Matrix, publishers: Matrix, up: Matrix) -> Notified:
    """`users` [node, topic], `publishers` [node]: their share, `up` [node, root]: hops of the first leg."""
    size, (_, topics) = overlay.size, users.shape
    edges, relays, delay, of_brokers = (np.zeros(topics) for _ in range(4))
    for root in np.unique(roots):
        mine = np.flatnonzero(roots == root)
        way = overlay.ways(int(root))
        depth = (way < size).sum(1)
        first_leg = float(publishers @ up[:, root])
        node, column = np.nonzero(users[:, mine])
        inside = np.zeros((len(mine), size + 1), bool)
        inside[column[:, None], way[node]] = True
        wanted = users[:, mine] > 0
        tree = inside[:, :size].sum(1)
        edges[mine] = tree + first_leg
        relays[mine] = tree - wanted.sum(0) + wanted[root]
        delay[mine] = (depth + first_leg) @ users[:, mine]
        of_brokers[mine] = (depth + first_leg) @ wanted
    everybody, brokers = max(int(users.sum()), 1), max(int((users > 0).sum()), 1)
    return Notified(
        float(edges.mean()),
        float(relays.mean()),
        float(delay.sum() / everybody),
        float(of_brokers.sum() / brokers),
    )
