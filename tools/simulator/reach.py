"""Which brokers must know a subscription: the promise of a confirmation, computed from outside.

Brokers are bits. A *connected* link is past SyncDone at both ends; a *held* one is a session that neither
side has given up. When a subscription is confirmed its reach is what is connected to its home; a link that
becomes connected extends it; a link that is lost cuts it back to what is still held together; a broker that
crashes leaves it until a connected link brings it back. (DECISIONS 11 and 20.)

A broker that moves has two parents for a while, and they close a ring with the path between them. It passes
nothing from one to the other (softlinks/planes.py): should the path be lost, no way leads through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Edge = tuple[int, int]


def edge(one: int, other: int) -> Edge:
    return (one, other) if one < other else (other, one)


class Reach:
    direct = False  # whether only a link between the two themselves connects brokers

    def __init__(self) -> None:
        self.connected: dict[int, set[int]] = {}
        self.held: dict[int, set[int]] = {}
        self.losses: list[tuple[float, Edge]] = []
        self.parents: dict[int, Edge] = {}  # by who moves: its former one, and its new one
        self._synced: dict[int, frozenset[int]] = {}  # by broker: neighbours past SyncDone, as it sees them
        self._components: dict[int, int] = {}  # of connected brokers; until a link changes
        self._paths: dict[Edge, tuple[Edge, ...] | None] = {}  # over held links; until one changes

    def observe(self, broker: int, synced: frozenset[int]) -> list[Edge]:
        """What one broker says of its links; the links that have become connected by it."""
        before = self._synced.get(broker, frozenset())
        if synced == before:
            return []
        self._synced[broker] = synced
        self._components.clear()
        self._paths.clear()
        for gone in before - synced:
            self.connected.get(broker, set()).discard(gone)
            self.connected.get(gone, set()).discard(broker)
        fresh = []
        for other in sorted(synced - before):
            if broker in self._synced.get(other, frozenset()):
                self.connected.setdefault(broker, set()).add(other)
                self.connected.setdefault(other, set()).add(broker)
                self.held.setdefault(broker, set()).add(other)
                self.held.setdefault(other, set()).add(broker)
                self._has_moved(broker, other)
                fresh.append(edge(broker, other))
        return fresh

    def moves(self, broker: int, former: int, new: int) -> None:
        """Until its former link is given up."""
        if self.parents.get(broker) != (former, new):
            self.parents[broker] = former, new
            self._paths.clear()

    def _has_moved(self, one: int, other: int) -> None:
        """The link between these has another meaning by now."""
        for mover, former in ((one, other), (other, one)):
            if self.parents.get(mover, (None,))[0] == former:
                del self.parents[mover]

    def drop(self, one: int, other: int) -> None:
        """The two are no longer neighbours."""
        self._paths.clear()
        self._has_moved(one, other)
        self.held.get(one, set()).discard(other)
        self.held.get(other, set()).discard(one)

    def lose(self, now: float, one: int, other: int) -> None:
        self.drop(one, other)
        self.losses.append((now, edge(one, other)))

    # --- questions ----------------------------------------------------------------------------------

    def connected_to(self, start: int) -> int:
        """The bits of all brokers connected to this one."""
        mask = self._components.get(start)
        if mask is None:
            mask = _flood(self.connected, start)
            for broker in bits(mask):
                self._components[broker] = mask
        return mask

    def held_with(self, start: int) -> int:
        return sum(1 << broker for broker in self._ways(start))

    def path(self, start: int, end: int) -> tuple[Edge, ...] | None:
        """The held links between two brokers; None if there are none."""
        if (start, end) not in self._paths:
            self._paths[start, end] = self._find_path(start, end)
        return self._paths[start, end]

    def _find_path(self, start: int, end: int) -> tuple[Edge, ...] | None:
        came = self._ways(start)
        if end not in came:
            return None
        edges = []
        while end != start:
            edges.append(edge(end, came[end]))
            end = came[end]
        return tuple(edges)

    def _ways(self, start: int) -> dict[int, int]:
        """Whom held links lead to from here, each with the one before it on the shortest way."""
        came = {start: start}
        front = [start]
        for broker in front:
            for other in sorted(self.held.get(broker, ())):
                if other not in came and {came[broker], other} != set(self.parents.get(broker, ())):
                    came[other] = broker
                    front.append(other)
        return came

    def lost_between(self, path: Iterable[Edge], begin: float, end: float) -> bool:
        edges = set(path)
        return any(begin <= at <= end and lost in edges for at, lost in self.losses)

    def is_tree(self, brokers: int) -> bool:
        """Whether these many brokers are connected by one link less."""
        links = sum(len(others) for others in self.connected.values()) // 2
        first = next((b for b, others in self.connected.items() if others), 0)
        return links == brokers - 1 and self.connected_to(first).bit_count() == brokers


def bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _flood(links: dict[int, set[int]], start: int) -> int:
    seen = {start}
    front = [start]
    while front:
        fresh = links.get(front.pop(), set()) - seen
        seen |= fresh
        front += fresh
    return sum(1 << broker for broker in seen)
