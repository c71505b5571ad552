"""SPEC M1: the Master Overlay Map, what a broker knows of the primary tree within Delta hops (paper, 3).

Each neighbour tells a *branch*: itself and the brokers behind it, away from us, at most Delta - 1 hops from
it. The map is the union of the branches around this broker; what we tell one neighbour is the map without
its own branch. A branch is told again whenever it changes, so that joins, leaves and losses travel Delta
hops and no further; on a cycle the depth ends the rumour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from grapevine.wire.mesh import Nearby

Branch = tuple[Nearby, ...]


class MasterOverlayMap:
    """Brokers by id. `via[b]` is the one before b on the primary path from here, `distance[b]` its hops."""

    def __init__(self, here: int, delta: int) -> None:
        self.here = here
        self.delta = delta
        self.branches: dict[int, Branch] = {}
        self.via: dict[int, int] = {}
        self.distance: dict[int, int] = {here: 0}
        self.nearby: dict[int, Nearby] = {}
        self._beside: dict[int, list[int]] = {here: []}

    def __contains__(self, broker: int) -> bool:
        return broker in self.via

    def __len__(self) -> int:
        return len(self.via)

    # --- what is known ------------------------------------------------------------------------------

    def hear(self, neighbour: int, branch: Branch) -> bool:
        """The neighbour's word about its side; whether anything has changed."""
        if self.branches.get(neighbour) == branch:
            return False
        self.branches[neighbour] = branch
        self._rebuild()
        return True

    def forget(self, neighbour: int) -> bool:
        if self.branches.pop(neighbour, None) is None:
            return False
        self._rebuild()
        return True

    def _rebuild(self) -> None:
        """Level by level: where two sides name a broker, one of them is out of date, and the shorter way
        counts, with what that side says is behind it."""
        self.via, self.distance, self.nearby = {}, {self.here: 0}, {}
        self._beside = {self.here: []}
        behind: dict[tuple[int, int], list[Nearby]] = {}
        for neighbour, branch in self.branches.items():
            for entry in branch:
                behind.setdefault((neighbour, entry.via if entry.broker != neighbour else 0), []).append(
                    entry
                )
        front = [(n, self.here, entry) for n in self.branches for entry in behind.get((n, 0), ())]
        for distance in range(1, self.delta + 1):
            placed = [found for found in front if self._place(*found[1:], distance)]
            front = [(n, e.broker, after) for n, _, e in placed for after in behind.get((n, e.broker), ())]

    def _place(self, before: int, entry: Nearby, distance: int) -> bool:
        if entry.broker in self.distance:
            return False
        self.via[entry.broker] = before
        self.distance[entry.broker] = distance
        self.nearby[entry.broker] = entry
        self._beside[entry.broker] = []
        self._beside[before].append(entry.broker)
        return True

    # --- what is asked ------------------------------------------------------------------------------

    def path(self, broker: int) -> tuple[int, ...]:
        """The brokers of the primary path, nearest first, `broker` last; empty if it is not on the map."""
        path: list[int] = []
        while broker in self.via:
            path.append(broker)
            broker = self.via[broker]
        return tuple(reversed(path))

    def beside(self, broker: int) -> Iterator[int]:
        """Its neighbours on the map, but not this broker itself."""
        if (before := self.via.get(broker)) is not None and before != self.here:
            yield before
        yield from self._beside.get(broker, ())

    def sides(self, broker: int) -> list[int]:
        """Every neighbour whose branch names `broker`: one, but for a while after a change of the tree."""
        return [n for n, branch in self.branches.items() if any(e.broker == broker for e in branch)]

    # --- what is told -------------------------------------------------------------------------------

    def branch_for(self, hidden: Collection[int], this: Nearby) -> Branch:
        """This broker (`this`) and what is behind it, nearest first, but not by the `hidden` neighbours: the
        one that is told, and others of which nobody is."""
        told = [this]
        front: Iterable[int] = [b for b in self._beside[self.here] if b not in hidden]
        for _ in range(self.delta - 1):
            told += [self.nearby[b] if self.via[b] != self.here else self._beneath(b) for b in front]
            front = [after for b in front for after in self._beside[b]]
        return tuple(told)

    def _beneath(self, broker: int) -> Nearby:
        """A neighbour's own entry says that it is reached by nobody: here it is reached by us."""
        entry = self.nearby[broker]
        return Nearby(entry.broker, entry.name, entry.addresses, self.here)

    def validate(self) -> None:
        for broker, before in self.via.items():
            assert self.distance[broker] == self.distance[before] + 1 <= self.delta, broker
            assert broker in self._beside[before], broker
