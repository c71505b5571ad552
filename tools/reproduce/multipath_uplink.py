"""The same brokers behind uplinks that carry so many messages a second.

Queues grow, and what arrives within the time counts. A broker under SH saves copies while what it wants to
send is above a share of its uplink.
"""

from __future__ import annotations

from heapq import heappop, heappush

from tools.reproduce.multipath_mesh import Mesh
from tools.reproduce.multipath_workload import Publication

SHARE = 0.8
LOOK_S = 1.0


class Uplinks:
    """`cap` in messages a second for every broker, `link_s` from one to the next."""

    def __init__(self, mesh: Mesh, cap: float, link_s: float) -> None:
        self.mesh = mesh
        self.cap = cap
        self.link_s = link_s
        self.delivered = 0
        self.hops = 0
        self._free_at = dict.fromkeys(mesh.tree.brokers, 0.0)
        self._given = dict.fromkeys(mesh.tree.brokers, 0)
        self._count = 0
        for node in mesh.nodes.values():
            node.saving = False  # as another cap has left it

    def run(self, publications: list[Publication], seconds: float) -> None:
        """Publications enter evenly spread over the time."""
        heap: list[tuple[float, int, Publication, int, int, int, frozenset[int]]] = []
        step = seconds / len(publications)
        for number, publication in enumerate(publications):
            source = publication.source
            heappush(heap, (number * step, self._next(), publication, source, source, 0, frozenset()))
        look_at = LOOK_S
        while heap and heap[0][0] <= seconds:
            now, _, publication, broker, sender, hops, excluded = heappop(heap)
            if now >= look_at:
                look_at += LOOK_S
                self._look()
            if broker in publication.wanted:
                self.delivered += 1
                self.hops += hops
            for to, names in self.mesh.forward(publication, broker, sender, excluded):
                self._given[broker] += 1
                at = self._free_at[broker] = max(now, self._free_at[broker]) + 1 / self.cap
                heappush(heap, (at + self.link_s, self._next(), publication, to, broker, hops + 1, names))

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _look(self) -> None:
        for broker, given in self._given.items():
            if self.mesh.strategy == "SH":
                self.mesh.nodes[broker].saving = given / LOOK_S >= SHARE * self.cap
            self._given[broker] = 0
