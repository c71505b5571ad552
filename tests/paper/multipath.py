"""Trees of named brokers for the tests of soft links; a broker's id is its place in the list of names."""

from __future__ import annotations

from collections.abc import Iterable

from grapevine.wire.mesh import Nearby
from overlay.softlinks.master import Branch, MasterOverlayMap
from overlay.softlinks.working import WorkingOverlayMap


class Tree:
    """`edges` are "A-B" pairs."""

    def __init__(self, edges: str) -> None:
        self.beside: dict[str, list[str]] = {}
        for one, other in (edge.split("-") for edge in edges.split()):
            self.beside.setdefault(one, []).append(other)
            self.beside.setdefault(other, []).append(one)
        self.id = {name: number for number, name in enumerate(sorted(self.beside), 1)}
        self.name = {number: name for name, number in self.id.items()}

    def nearby(self, name: str, via: str = "") -> Nearby:
        return Nearby(self.id[name], name, (f"sim://{name}",), self.id.get(via, 0))

    def branch(self, root: str, seen_from: str, depth: int) -> Branch:
        entries, front = [self.nearby(root)], [(root, seen_from)]
        for _ in range(depth):
            front = [
                (after, name) for name, before in front for after in self.beside[name] if after != before
            ]
            entries += [self.nearby(name, before) for name, before in front]
        return tuple(entries)

    def master(self, here: str, delta: int) -> MasterOverlayMap:
        map = MasterOverlayMap(self.id[here], delta)
        for neighbour in self.beside[here]:
            map.hear(self.id[neighbour], self.branch(neighbour, here, delta - 1))
        return map

    def working(self, here: str, delta: int, links: str) -> WorkingOverlayMap:
        return WorkingOverlayMap(self.master(here, delta), self.ids(links))

    def ids(self, names: str) -> list[int]:
        return [self.id[name] for name in names.split()]

    def names(self, ids: Iterable[int]) -> set[str]:
        return {self.name[number] for number in ids}
