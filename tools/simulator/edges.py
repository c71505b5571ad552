"""Edges as every broker knows them against the parents that brokers have, when the world is at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlay.tree.edges import KnownEdges
from overlay.tree.join import Join

if TYPE_CHECKING:
    from overlay.core import Core
    from tools.simulator.broker import BrokerHost
    from tools.simulator.simulation import Simulation
    from tools.simulator.tables import Comparison


class NoCycle:
    """P4, all the time: whoever has joined and follows its parents over links comes to a root. Two newcomers
    that have dialled each other have not joined."""

    def __init__(self, simulation: Simulation) -> None:
        self.oracle = simulation.oracle
        self.brokers = simulation.brokers
        self._seen: dict[int, tuple[int, bool]] = {}  # by broker: its parent, and whether it is ready
        simulation.watcher.on_step = self.look

    def look(self, broker: BrokerHost, core: Core) -> None:
        now = self._parent(core), core.ready
        if self._seen.get(core.id) != now:
            self._seen[core.id] = now
            if now[0] and self._is_on_cycle(core.id):
                self.oracle.violation(f"{core.name} is on a cycle")

    def _parent(self, core: Core) -> int:
        parent = next(b for b in core.behaviours if isinstance(b, Join)).parent
        return parent.id if parent is not None and parent.link is not None else 0

    def _is_on_cycle(self, start: int) -> bool:
        cores = {b.core.id: b.core for b in self.brokers if b.core is not None and b.core.ready}
        way = {start: 0}
        while (at := next(reversed(way))) in cores:
            above = self._parent(cores[at])
            if above in way:
                return above == start
            way[above] = at
        return False


def compare_edges(comparison: Comparison) -> None:
    cores = [comparison.core(broker) for broker in comparison.brokers]
    joins = {core.id: next(b for b in core.behaviours if isinstance(b, Join)) for core in cores}
    right = {id: join.parent.id if join.parent is not None else 0 for id, join in joins.items()}
    older = len({core.protocol for core in cores}) > 1  # who does not speak of edges passes none on
    for core in cores:
        edges = next(b for b in core.behaviours if isinstance(b, KnownEdges))
        known = {edge.broker: edge.parent for edge in edges.by_broker.values()}
        wrong = sorted(joins[id].core.name for id, parent in right.items() if known.get(id) != parent)
        if wrong and not older:
            comparison.oracle.violation(f"{core.name} is wrong about the edges of {', '.join(wrong)}")
        sides = {id: edges.side(id) for id in right if id != core.id} if not wrong else {}
        for id, side in sides.items():
            if side != _side(right, core.id, id):
                comparison.oracle.violation(f"{core.name} sees {joins[id].core.name} on the wrong side")


def _side(parents: dict[int, int], here: int, there: int) -> int:
    """The neighbour of `here` on the way."""
    way = there
    while way and parents[way] != here:
        way = parents[way]
    return way or parents[here]
