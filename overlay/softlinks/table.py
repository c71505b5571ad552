"""SPEC M3: the working subscription table, a map from each group (master anchor, path) to its next hop.

The hop is the farthest broker on the group's path that publications may be sent to directly: a mapped soft
link, else the side. Paths come from the subscriptions themselves, so the table is right whenever they are.
Candidates stand on the map as stubs: what they would carry goes over nearer links and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from bitarray import bitarray
from bitarray.util import zeros

from overlay.core import Core
from overlay.data.routes import Hops, Queue, Side
from overlay.links.session import Remote
from overlay.softlinks.excludes import NONE, Excluded, Narrowed, Stamped, Tap
from overlay.softlinks.master import MasterOverlayMap
from overlay.softlinks.soft import Soft, SoftSessions
from overlay.softlinks.strategies import LinkChoice
from overlay.softlinks.working import WorkingOverlayMap
from overlay.tree.anchors import Group
from overlay.tree.peer import peers_of
from overlay.tree.router import TreeRouter

CHOSEN = 4096  # sets of anchors whose links are remembered


class WorkingTable:
    """`printed` is the paper's way to choose (unordered); None: each group by its own hop (S0, SD)."""

    def __init__(self, core: Core, router: TreeRouter, master: MasterOverlayMap, softs: SoftSessions) -> None:
        self.core = core
        self.router = router
        self.groups = router.subscriptions.groups
        self.master = master
        self.softs = softs
        self.candidates: dict[int, Tap] = {}
        self.printed: LinkChoice | None = None
        self.mapped: dict[int, Soft] = {}
        self.map = WorkingOverlayMap(master, ())
        self.stubs = self.map  # with the candidates
        self._taps: dict[int, Tap] = {}  # by group
        self._beyond: dict[int, list[int]] = {}  # broker -> soft links that a copy to it names
        self._names: dict[tuple[int, Excluded], Excluded] = {}
        self._stamped: dict[tuple[Remote, Excluded], Stamped] = {}
        self._chosen: dict[bytes, tuple[list[Remote], list[Tap]]] = {}
        self.groups.entered = self.place

    # --- making -------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Links, candidates or the master map have changed."""
        core = self.core
        self.mapped = {broker: soft for broker, soft in self.softs.out.items() if soft.mapped}
        links = [*core.peers, *self.mapped]
        self.map = self.stubs = WorkingOverlayMap(self.master, links)
        if self.candidates:
            self.stubs = WorkingOverlayMap(self.master, [*links, *self.candidates])
        self._beyond = {}
        for soft in self.mapped.values():
            for before in self._named_by(soft):
                self._beyond.setdefault(before, []).append(soft.id)
        for memory in (self._taps, self._names, self._stamped, self._chosen):
            memory.clear()
        for group in self.groups:
            self.place(group)
        self.router.subscriptions.generation += 1

    def _named_by(self, soft: Soft) -> tuple[int, ...]:
        """The brokers before it on its path, from the last one with a link on: their copies name it."""
        before = soft.path[:-1]
        for at in range(len(before) - 1, -1, -1):
            if before[at] in self.mapped:
                return before[at:]
        return before

    def place(self, group: Group) -> None:
        """Find the hop of a group, which may be new, with the number of one that is gone."""
        group.hop = group.side
        for broker in group.path:
            if broker in self.mapped and self.mapped[broker].leads(group.path):
                group.hop = self.mapped[broker]
                break
            if broker in self.candidates and group.number not in self._taps:
                self._taps[group.number] = self.candidates[broker]
        names = self._named(group.hop.id, NONE)
        group.queue = self._stamp(group.hop, names) if names else group.hop.out.queue
        group.place = -1 if self.printed is None else self._anchor(group)

    def _anchor(self, group: Group) -> int:
        """The place of its working anchor; -1 if none. For a while after a broker has gone elsewhere two
        sides name it, and the map has one way to it: that need not be the subscription's."""
        place, path = self.stubs.place, group.path
        for at, broker in enumerate(path):
            if broker in place and self.master.path(broker) == path[at:][::-1]:
                return place[broker]
        return -1

    # --- choosing -----------------------------------------------------------------------------------

    def choose(self, side: Side | None, numbers: Iterable[int]) -> Hops:
        if not self.mapped and not self.candidates and not isinstance(side, Narrowed | Soft):
            return self.router.choose_primary(side, numbers)
        excluded = NONE
        if isinstance(side, Narrowed):
            excluded, side = side.excluded, side.session
        back = side.back if isinstance(side, Soft) else side
        groups = self.groups
        wanted = [group for number in numbers if (group := groups[number]).side is not back]
        if excluded:
            wanted = [group for group in wanted if excluded.isdisjoint(group.path)]
        if self.printed is not None:
            return self._choose_printed(wanted, self.printed)
        taps = [self._taps[g.number] for g in wanted if g.number in self._taps] if self._taps else []
        if excluded or self.router.next_hop_override:
            return self.copies(wanted, excluded, taps)
        hops = {group.hop: group.queue for group in wanted}  # the same, known of each group beforehand
        return tuple(hops), (*hops.values(), *dict.fromkeys(taps)) if taps else tuple(hops.values())

    def copies(self, groups: Iterable[Group], excluded: Excluded, taps: list[Tap]) -> Hops:
        """One copy to each hop, excluding what is served past it."""
        hops = {group.hop: None for group in groups}
        override = self.router.next_hop_override
        targets: dict[Remote, Excluded] = {}
        for hop in hops:
            target = override.get(hop, hop) if override else hop
            targets[target] = targets.get(target, NONE) | self._named(hop.id, excluded)
        links = [self._stamp(t, names) if names else t.out.queue for t, names in targets.items()]
        return tuple(targets), (*links, *dict.fromkeys(taps)) if taps or any(targets.values()) else None

    def _stamp(self, target: Remote, names: Excluded) -> Stamped:
        stamped = self._stamped.get((target, names))
        if stamped is None:
            stamped = self._stamped[target, names] = Stamped(target.out, names)
        return stamped

    def _named(self, hop: int, excluded: Excluded) -> Excluded:
        """Ours beyond the hop, and those handed to us that are not known to lie on another side. Of these
        also the ones that are not beyond it: should the link break, the copy goes by a nearer one."""
        names = self._names.get((hop, excluded))
        if names is None:
            found = set(self._beyond.get(hop, ()))
            side = self.master.path(hop)[:1]
            found |= {n for n in excluded if n not in self.master or self.master.path(n)[:1] == side}
            names = self._names[hop, excluded] = frozenset(found - {hop})
        return names

    # --- as printed -----------------------------------------------------------------------------------

    def _choose_printed(self, wanted: list[Group], printed: LinkChoice) -> Hops:
        bits = zeros(len(self.stubs))
        direct: dict[Remote, None] = {}
        for group in wanted:
            if group.place >= 0:
                bits[group.place] = 1
            else:  # not on the map yet: as without soft links
                direct[group.side] = None
        key = bits.tobytes()
        chosen = self._chosen.get(key)
        if chosen is None:
            if len(self._chosen) >= CHOSEN:
                self._chosen.clear()
            chosen = self._chosen[key] = self._print(bits, printed)
        hops, taps = chosen
        if direct or self.router.next_hop_override:
            override = self.router.next_hop_override
            hops = list(dict.fromkeys(override.get(hop, hop) for hop in [*hops, *direct]))
        queues: list[Queue] = [hop.out.queue for hop in hops]
        return tuple(hops), (*queues, *taps) if taps else None

    def _print(self, bits: bitarray, printed: LinkChoice) -> tuple[list[Remote], list[Tap]]:
        """Copies go over real links alone; a candidate counts what it would have got were it one of them."""
        real = bits
        taps: list[Tap] = []
        if self.candidates:
            brokers = [self.stubs.brokers[place] for place in bits.search(1)]
            real = self.map.anchors(b if b in self.map.place else self.map.substitute[b] for b in brokers)
            chosen = [self.stubs.brokers[place] for place in printed(self.stubs, bits)]
            taps = [self.candidates[b] for b in chosen if b in self.candidates]
        brokers = [self.map.brokers[place] for place in printed(self.map, real)]
        return [self.mapped.get(b) or peers_of(self.core)[b] for b in brokers], taps
