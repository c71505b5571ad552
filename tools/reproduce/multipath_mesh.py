"""Brokers that choose links and forward by the product's own functions, without sessions and sockets.

A node has the true master map of its Delta-neighbourhood, its primary, soft and candidate links, and for
every home the working anchor that publications for it go to. It decides by overlay/softlinks' own functions:
WorkingOverlayMap, choose_links_*, excluded_beyond, link_gain, decide_round, explore_from. A test holds the
copies of this model against those of a real broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bitarray.util import zeros

from grapevine.wire.mesh import Nearby
from overlay.softlinks.gains import link_gain
from overlay.softlinks.master import MasterOverlayMap
from overlay.softlinks.rounds import decide_round, explore_from
from overlay.softlinks.strategies import (
    LinkChoice,
    choose_links_s0,
    choose_links_s1,
    choose_links_s2,
    choose_links_sd,
    excluded_beyond,
)
from overlay.softlinks.working import WorkingOverlayMap
from tools.reproduce.multipath_workload import Publication, Tree

NOBODY: frozenset[int] = frozenset()
LOAD_THRESHOLD = 0.8
Copy = tuple[int, frozenset[int]]  # to whom, excluding whom


class Node:
    def __init__(self, mesh: Mesh, broker: int) -> None:
        self.mesh = mesh
        self.broker = broker
        self.master = _master(mesh.tree, broker, mesh.delta)
        paths = [mesh.tree.path(broker, home)[: mesh.delta] for home in mesh.tree.brokers]
        self.anchors = [path[-1] if path else -1 for path in paths]  # of each home, on the master map
        self.soft: set[int] = set()
        self.candidates: set[int] = set()
        self.saving = False  # SH above its share of the uplink
        self.sent: dict[int, int] = {}  # this round, by link or candidate
        self.tried: dict[int, int] = {}
        self.rebuild()

    def rebuild(self) -> None:
        tree = self.mesh.tree
        links = [*tree.beside[self.broker], *self.soft]
        self.map = WorkingOverlayMap(self.master, links)
        self.stubs = WorkingOverlayMap(self.master, [*links, *self.candidates])
        self.hop = self._places(self.map)
        self.stub_hop = self._places(self.stubs)
        self.excluded = [
            frozenset(self.map.brokers[p] for p in excluded_beyond(self.map, place))
            for place in range(len(self.map))
        ]
        self._chosen: dict[tuple[bool, bytes], list[int]] = {}
        self._counted: dict[tuple[bool, bytes], list[int]] = {}

    def _places(self, map: WorkingOverlayMap) -> list[int]:
        """For each home: the place of its working anchor."""
        places = {anchor: map.place[by] for anchor, by in map.substitute.items()}
        return [-1, *(places.get(anchor, -1) for anchor in self.anchors)]

    # --- forwarding ---------------------------------------------------------------------------------

    def copies(self, homes: Iterable[int], excluded: frozenset[int]) -> list[Copy]:
        """`homes` lie onward and outside `excluded`."""
        homes = list(homes)
        strategy = self.mesh.strategy
        if strategy == "SD":
            return self._copies_direct(homes, excluded)
        bits = zeros(len(self.map))
        for home in homes:
            bits[self.hop[home]] = 1
        key = (self.saving, bits.tobytes())
        chosen = self._chosen.get(key)
        if chosen is None:
            choose = self._choose()
            chosen = self._chosen[key] = [self.map.brokers[p] for p in choose(self.map, bits)]
        return [(broker, NOBODY) for broker in chosen]

    def _choose(self) -> LinkChoice:
        strategy = self.mesh.strategy
        if strategy == "S0":
            return choose_links_s0
        return choose_links_s1 if strategy == "S1" or self.saving else choose_links_s2

    def _copies_direct(self, homes: list[int], excluded: frozenset[int]) -> list[Copy]:
        bits = zeros(len(self.map))
        for home in homes:
            bits[self.hop[home]] = 1
        copies = []
        for place, _ in choose_links_sd(self.map, bits):
            broker = self.map.brokers[place]
            beyond = frozenset(n for n in excluded if self.mesh.tree.passes(self.broker, broker, n))
            copies.append((broker, self.excluded[place] | beyond))
        return copies

    def count(self, homes: Iterable[int], copies: list[Copy]) -> None:
        """What was sent, and what each candidate would have got were it a link."""
        sent = self.sent
        for broker, _ in copies:
            sent[broker] = sent.get(broker, 0) + 1
        if not self.candidates:
            return
        bits = zeros(len(self.stubs))
        for home in homes:
            bits[self.stub_hop[home]] = 1
        key = (self.saving, bits.tobytes())
        counted = self._counted.get(key)
        if counted is None:
            if self.mesh.strategy == "SD":
                chosen = [place for place, _ in choose_links_sd(self.stubs, bits)]
            else:
                chosen = self._choose()(self.stubs, bits)
            brokers = [self.stubs.brokers[place] for place in chosen]
            counted = self._counted[key] = [b for b in brokers if b in self.candidates]
        for broker in counted:
            sent[broker] = sent.get(broker, 0) + 1

    # --- rounds -------------------------------------------------------------------------------------

    def choose_links(self, fanout: int, maxlinks: int) -> bool:
        """One round; whether the soft links have changed."""
        soft = {b: self.gain(b) for b in self.soft}
        candidates = {b: self.gain(b) for b in self.candidates}
        primary = self.mesh.tree.beside[self.broker]
        carried = {b: self.promise(b) for b in (*primary, *self.soft, *self.candidates)}
        found = explore_from(
            carried, self.master.beside, lambda b: b in primary or b in self.soft, lambda b: 0.0
        )
        wanted = [b for b in found if b not in self.tried] + [b for b in found if b in self.tried]
        decided = decide_round(primary, soft, candidates, wanted, fanout, maxlinks)
        changed = bool(decided.promote or decided.discard)
        self.tried = {b: left - 1 for b, left in self.tried.items() if left > 1}
        self.tried |= {b: 4 for b in candidates if b not in decided.promote}
        self.soft = (self.soft | set(decided.promote)) - set(decided.discard)
        self.candidates = set(decided.explore)
        self.sent = {}
        self.rebuild()
        return changed

    def promise(self, broker: int) -> float:
        """How early a link's neighbours are explored."""
        return float(self.sent.get(broker, 0))

    def gain(self, broker: int) -> float:
        path = self.master.path(broker)
        loads = [self.mesh.loads[b] for b in path[:-1]]
        return link_gain(self.sent.get(broker, 0), len(path), loads, LOAD_THRESHOLD, self.mesh.load_factor)


class Mesh:
    """All brokers of an overlay under one strategy."""

    def __init__(
        self,
        tree: Tree,
        strategy: str,
        delta: int = 4,
        load_factor: str = "boost",
        node: type[Node] = Node,
    ) -> None:
        self.tree = tree
        self.strategy = strategy
        self.delta = delta
        self.load_factor = load_factor
        self.loads = dict.fromkeys(tree.brokers, 0.0)
        self.nodes = {broker: node(self, broker) for broker in tree.brokers}

    def visits(self, publication: Publication) -> Iterator[tuple[int, int, int, list[Copy]]]:
        """(broker, sender, hops, copies it sends), the source first."""
        front: list[tuple[int, int, int, frozenset[int]]] = [
            (publication.source, publication.source, 0, NOBODY)
        ]
        for broker, sender, hops, excluded in front:
            copies = self.forward(publication, broker, sender, excluded)
            yield broker, sender, hops, copies
            front += [(to, broker, hops + 1, names) for to, names in copies]

    def forward(
        self, publication: Publication, broker: int, sender: int, excluded: frozenset[int]
    ) -> list[Copy]:
        tree = self.tree
        towards = tree.next[broker]
        back = towards[sender] if sender != broker else -1
        homes = [h for h in publication.wanted if h != broker and towards[h] != back]
        if excluded:
            homes = [h for h in homes if not any(tree.passes(broker, e, h) for e in excluded)]
        if not homes:
            return []
        node = self.nodes[broker]
        copies = node.copies(homes, excluded)
        node.count(homes, copies)
        return copies

    def choose_links(self, fanout: int, maxlinks: int) -> int:
        """A round of every broker; how many changed their links."""
        rates = {
            broker: sum(n for b, n in node.sent.items() if b not in node.candidates)
            for broker, node in self.nodes.items()
        }
        most = max(rates.values()) or 1
        self.loads = {broker: rate / most for broker, rate in rates.items()}
        return sum(node.choose_links(fanout, maxlinks) for node in self.nodes.values())

    def paths(self, start: int, end: int) -> int:
        """Number of ways over primary and soft links along the primary path."""
        if start == end:
            return 1
        links = {*self.tree.beside[start], *self.nodes[start].soft}
        return sum(self.paths(b, end) for b in self.tree.path(start, end) if b in links)


def _master(tree: Tree, broker: int, delta: int) -> MasterOverlayMap:
    master = MasterOverlayMap(broker, delta)
    for neighbour in tree.beside[broker]:
        entries = [Nearby(neighbour, f"b{neighbour}", ())]
        front = [(neighbour, broker)]
        for _ in range(delta - 1):
            front = [(after, b) for b, before in front for after in tree.beside[b] if after != before]
            entries += [Nearby(b, f"b{b}", (), via) for b, via in front]
        master.hear(neighbour, tuple(entries))
    return master
