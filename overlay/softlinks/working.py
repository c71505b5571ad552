"""SPEC M2: the Working Overlay Map, the master map contracted to the brokers with a direct link (paper, 3).

Step 1, edge contraction: from the farthest inwards, each broker without a link is replaced by the one before
it on the primary path. Step 2: BrokerArr, the linked brokers by their distance in what is left. Step 3: for
each of them three bit vectors over BrokerArr:
  between  it and the linked brokers on the primary path to it
  beyond   it and the linked brokers behind it
  behind   the linked brokers that are behind us as it sees us
A map is made anew whenever links change and never altered.
"""

from __future__ import annotations

from collections.abc import Iterable

from bitarray import bitarray
from bitarray.util import zeros

from overlay.softlinks.master import MasterOverlayMap


class WorkingOverlayMap:
    __slots__ = ("behind", "between", "beyond", "brokers", "place", "substitute")

    def __init__(self, master: MasterOverlayMap, linked: Iterable[int]) -> None:
        links = {broker for broker in linked if broker in master}
        via = master.via
        nearest_first = sorted(via, key=lambda b: (master.distance[b], b))
        self.substitute: dict[int, int] = {}  # broker on the master map -> the linked one in its place
        depth: dict[int, int] = {master.here: 0}  # in the contracted graph
        for broker in nearest_first:
            before = self.substitute.get(via[broker], via[broker])
            if broker in links:
                self.substitute[broker] = broker
                depth[broker] = depth.get(before, 0) + 1
            elif before != master.here:
                self.substitute[broker] = before
        self.brokers = sorted(links, key=lambda b: (depth[b], master.distance[b], b))  # BrokerArr
        self.place = {broker: number for number, broker in enumerate(self.brokers)}
        self._relate(master)

    def _relate(self, master: MasterOverlayMap) -> None:
        count = len(self.brokers)
        self.between: list[bitarray] = []
        self.beyond = [zeros(count) for _ in self.brokers]
        side = []
        for number, broker in enumerate(self.brokers):
            before = self.substitute.get(master.via[broker])
            between = zeros(count) if before is None else self.between[self.place[before]].copy()
            between[number] = 1
            self.between.append(between)
            for other in between.search(1):
                self.beyond[other][number] = 1
            side.append(master.path(broker)[0])
        self.behind = [bitarray(other != mine for other in side) for mine in side]

    def __len__(self) -> int:
        return len(self.brokers)

    def anchors(self, masters: Iterable[int]) -> bitarray:
        """The working anchors of these master anchors."""
        bits = zeros(len(self.brokers))
        for anchor in masters:
            bits[self.place[self.substitute[anchor]]] = 1
        return bits

    def names(self, bits: bitarray) -> set[int]:
        return {self.brokers[number] for number in bits.search(1)}
