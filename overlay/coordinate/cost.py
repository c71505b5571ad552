"""Notification cost C(X) of brokers on a ring, and its change under every swap of one broker (DYNATOPS 5).

C(X) = sum over topics of N_p (relays of p's tree + w_d times the members' delays from the root), equation
(5); a delay is counted in hops. The leg from the publisher to the root is no part of it (5). Positions
stay, brokers move: `at[v]` is the broker on the node of rank v, ranks are in the order of positions.

What lies behind a node w in the tree of a root is an arc of ranks that begins at w, as long as `size` says.
So everything that a swap needs is kept per (topic, node): `below`, the members behind it, itself included;
`miss`, how many nodes of the way to it are outside the topic's tree; `ones`, how many serve one member
only. A member that goes from v to u takes the nodes with it that served only v, and needs those to u that
are missing:
    relays' change = miss[u] - ones[v] + (nodes of both ways that serve v only) + (v is not root) - (u
      is not root)
Summed over the topics that exactly one of the two brokers wants this is three matrix-vector products for
all u at once, and two sparse corrections for the common nodes. tests hold it against counting afresh.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from overlay.chord.ring import BITS

Matrix: TypeAlias = NDArray[Any]


class Geometry:
    """Ways of the ideal ring over these positions; a node is its rank."""

    def __init__(self, positions: Matrix, base: int = 2) -> None:
        self.positions = np.sort(np.asarray(positions, dtype=np.uint64))
        self.size = len(self.positions)
        self.links = 0.0  # pointers of a node, on average
        self.next = self._next_hops(base)
        self._ways: dict[int, Matrix] = {}

    def _next_hops(self, base: int) -> Matrix:
        bits, size = base.bit_length() - 1, self.size
        jumps = np.array(
            [j << shift for shift in range(0, BITS, bits) for j in range(1, base) if j << shift < 1 << BITS],
            dtype=np.uint64,
        )
        ranks, table = np.arange(size), np.empty((size, size), np.int32)
        for rank in range(size):
            fingers = np.searchsorted(self.positions, self.positions[rank] + jumps) % size
            steps = np.unique(np.append((fingers - rank) % size, 1 % size))
            steps = steps[steps > 0]
            self.links += len(steps) / size
            if size > 1:
                hops = steps[np.maximum(np.searchsorted(steps, ranks, "right") - 1, 0)]
                table[rank, (rank + ranks) % size] = (rank + hops) % size
            table[rank, rank] = rank
        return table

    def owner(self, keys: Matrix) -> Matrix:
        return np.searchsorted(self.positions, np.asarray(keys, dtype=np.uint64)) % self.size

    def ways(self, root: int) -> Matrix:
        """[node, hop]: the nodes after the root on the way to each, itself included; `size` fills up."""
        if root not in self._ways:
            columns = []
            here, target = np.full(self.size, root), np.arange(self.size)
            while not (here == target).all():
                hop = self.next[here, target]
                columns.append(np.where(here == target, self.size, hop))
                here = hop
            filled = np.stack(columns, 1) if columns else np.full((self.size, 1), self.size)
            self._ways[root] = filled.astype(np.int32)
        return self._ways[root]

    def hops(self) -> Matrix:
        """[from, to]."""
        return np.stack([(self.ways(root) < self.size).sum(1) for root in range(self.size)])


class Cost:
    """C(X), each broker's part of it, and the changes that swaps make."""

    def __init__(
        self,
        geometry: Geometry,
        roots: Matrix,
        events: Matrix,
        wanted: Matrix,
        at: Matrix,
        delay_weight: float,
    ) -> None:
        """`wanted` [broker, topic], `events` N_p, `at` [node]: the broker there."""
        self.geometry = geometry
        self.size = geometry.size
        self.roots = np.asarray(roots)
        self.events = np.asarray(events, dtype=float)
        self.at = np.array(at)
        self.delay_weight = delay_weight
        distinct, self.group = np.unique(self.roots, return_inverse=True)
        self.way = self._all_ways(distinct)
        self.depth = (self.way < self.size).sum(2)
        self.arc = self._arcs()
        self.member = np.ascontiguousarray(wanted[self.at].T)
        self.off_root = np.arange(self.size) != self.roots[:, None]
        self.delays = self._delays(wanted, len(distinct))
        self._count()

    def _all_ways(self, roots: Matrix) -> Matrix:
        ways = [self.geometry.ways(int(root)) for root in roots]
        found = np.full((len(ways), self.size, max(way.shape[1] for way in ways)), self.size, np.int32)
        for group, way in enumerate(ways):
            found[group, :, : way.shape[1]] = way
        return found

    def _arcs(self) -> Matrix:
        """[group, node]: how many nodes lie behind it, itself included."""
        return np.stack([np.bincount(way.ravel(), minlength=self.size + 1)[: self.size] for way in self.way])

    def _delays(self, wanted: Matrix, groups: int) -> Matrix:
        """[broker, node]: the broker's cumulative delay (11) if it sat there: linear in the assignment."""
        weight = np.zeros((groups, wanted.shape[0]))
        np.add.at(weight, self.group, (wanted * self.events).T)
        found: Matrix = weight.T @ self.depth
        return found

    def _count(self) -> None:
        topics, size = self.member.shape
        self.below = np.zeros((topics, size + 1), np.int32)
        self.ranks = np.zeros((topics, size + 1), np.int64)  # of the members below: where it is one, that one
        self.miss = np.zeros((topics, size), np.int32)
        self.ones = np.zeros((topics, size), np.int32)
        topic, node = np.nonzero(self.member)
        ways = self.way[self.group[topic], node]
        flat = topic[:, None] * (size + 1) + ways
        self.below += np.bincount(flat.ravel(), minlength=self.below.size).reshape(self.below.shape)
        weights = np.repeat(node, ways.shape[1])
        self.ranks += (
            np.bincount(flat.ravel(), weights, self.below.size).astype(np.int64).reshape(self.below.shape)
        )
        every = np.arange(topics)
        for wanted, table in ((0, self.miss), (1, self.ones)):
            row, place = np.nonzero((self.below[:, :size] == wanted) & self.off_root)
            table += self._behind(every, row, place, np.ones(len(row)))
        self._weigh(every)

    def _behind(self, topics: Matrix, row: Matrix, node: Matrix, change: Matrix) -> Matrix:
        """[topic, node]: the changes at some nodes, each for all that lie behind it."""
        width = 2 * self.size + 1
        start = row * width + node
        end = start + self.arc[self.group[topics[row]], node]
        length = len(topics) * width
        steps = np.bincount(start, change, length) - np.bincount(end, change, length)
        level = np.rint(steps.reshape(len(topics), width).cumsum(1)).astype(np.int32)
        found: Matrix = level[:, : self.size] + level[:, self.size : -1]
        return found

    def _weigh(self, topics: Matrix) -> None:
        """What the products of `swaps` are made of, for topics whose tree has changed."""
        if len(topics) == len(self.member):
            self.missing = np.empty(self.member.shape)
            self.alone = np.empty(self.member.shape)
            self.members = self.member.astype(float)
            self.relay = np.empty(self.member.shape, bool)
        member, off_root = self.member[topics], self.off_root[topics]
        self.missing[topics] = np.where(member, 0, self.miss[topics] - off_root)
        self.alone[topics] = np.where(member, off_root - self.ones[topics], 0)
        self.relay[topics] = (self.below[topics, : self.size] > 0) & ~member & off_root

    def parts(self) -> tuple[float, float]:
        """Relay overhead (3) and delay (4)."""
        relays = float(self.events @ self.relay.sum(1))
        return relays, float(self.delays[self.at, np.arange(self.size)].sum())

    def total(self) -> float:
        relays, delay = self.parts()
        return relays + self.delay_weight * delay

    def broker_costs(self) -> Matrix:
        """[node]: c_b of the broker there (10, 11); they add up to C (12)."""
        found: Matrix = self.events @ self.relay
        found += self.delay_weight * self.delays[self.at, np.arange(self.size)]
        return found

    def swaps(self, node: int) -> Matrix:
        """[node]: how C changes when the broker at `node` changes places with the one there."""
        broker, size = self.at[node], self.size
        change: Matrix = self.delay_weight * (
            self.delays[broker]
            - self.delays[broker, node]
            + self.delays[self.at, node]
            - self.delays[self.at, np.arange(size)]
        )
        mine, off_root = self.member[:, node], self.off_root[:, node]
        leaving, coming = np.where(mine, self.events, 0.0), np.where(mine, 0.0, self.events)
        left = leaving * (off_root - self.ones[:, node])
        taken = coming * (self.miss[:, node] - off_root)
        change = change + leaving @ self.missing + coming @ self.alone
        change += left.sum() + (taken - left) @ self.members
        self._needed_again(change, node, np.flatnonzero(mine & (self.ones[:, node] > 0)))
        self._kept(change, node, np.flatnonzero(~mine & (self.ones[:, node] > 0)))
        change[node] = 0.0
        return change

    def _needed_again(self, change: Matrix, node: int, topics: Matrix) -> None:
        """Nodes that served only the one that leaves are needed by all that lie behind them."""
        ways = self.way[self.group[topics], node]
        row, hop = np.nonzero((self.below[topics[:, None], ways] == 1) & (ways < self.size))
        place, topic = ways[row, hop], topics[row]
        weight, width = self.events[topic], 2 * self.size + 1
        end = place + self.arc[self.group[topic], place]
        level = (np.bincount(place, weight, width) - np.bincount(end, weight, width)).cumsum()
        change += level[: self.size] + level[self.size : -1]

    def _kept(self, change: Matrix, node: int, topics: Matrix) -> None:
        """Nodes on the way to `node` that serve one member stay when it is this one that comes."""
        ways = self.way[self.group[topics], node]
        first = ((self.below[topics[:, None], ways] == 1) & (ways < self.size)).argmax(1)
        alone = self.ranks[topics, ways[np.arange(len(topics)), first]]
        change += np.bincount(alone, self.events[topics] * self.ones[topics, node], self.size)

    def swap(self, node: int, other: int) -> None:
        topics = np.flatnonzero(self.member[:, node] != self.member[:, other])
        here = self.member[topics, node]
        self._move(topics, np.where(here, node, other), -1)
        self._move(topics, np.where(here, other, node), +1)
        for table in (self.member, self.members):
            table[:, [node, other]] = table[:, [other, node]]
        self.at[[node, other]] = self.at[[other, node]]
        self._weigh(topics)

    def _move(self, topics: Matrix, node: Matrix, sign: int) -> None:
        """A member comes to a node of each topic, or leaves it."""
        ways = self.way[self.group[topics], node]
        inside = ways < self.size
        before = self.below[topics[:, None], ways]
        after = before + sign
        self.below[topics[:, None], ways] = np.where(inside, after, 0)
        self.ranks[topics[:, None], ways] += sign * node[:, None]
        for wanted, table in ((0, self.miss), (1, self.ones)):
            change = (after == wanted).astype(np.int8) - (before == wanted).astype(np.int8)
            row, hop = np.nonzero((change != 0) & inside)
            if len(row):
                table[topics] += self._behind(topics, row, ways[row, hop], change[row, hop])
