"""What brokers have told publishers to be on disk, and whether they still have it when they come back.

From the moment a publisher hears *persisted* until its first broker frees it, a publication is in that
broker's custody. A broker that starts without it must have reported a loss; else it has forgotten something
in silence. When custody ends, everybody it was owed to must have it, whatever became of its publisher.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from math import inf

from overlay.core import Core
from overlay.journal.bodies import Source
from tools.simulator.reach import Edge

BOTH_S = 60.0  # disks that are lost within this time may have had the same
Key = tuple[Source, int]  # a publisher's incarnation, and a sequence number


class CustodyWatch:
    """`freed(number)` when custody of a publication has ended, `lost(number, broker, told)` when it is gone;
    `told`: the broker has said so."""

    def __init__(self, freed: Callable[[int], None], lost: Callable[[int, int, bool], None]) -> None:
        self._freed = freed
        self._lost = lost
        self._held: dict[int, dict[Key, int]] = defaultdict(dict)  # by broker: numbers of publications
        self._done: dict[tuple[int, Source], int] = {}
        # By publication: its source and number, when its broker's disk was lost, and which broker that is.
        self._orphans: dict[int, tuple[Key, float, int]] = {}
        self._disks: list[tuple[int, float]] = []  # that were lost
        self._down: dict[int, list[tuple[float, float]]] = defaultdict(list)  # by broker: from when to when
        self._empty: set[int] = set()  # brokers that have not come back since
        self.both = 0  # publications that may have lain on two disks that were lost

    def persisted(self, broker: int, source: Source, sequence: int, number: int) -> None:
        if broker in self._empty:  # it had said so before
            self._orphans[number] = (source, sequence), self._disks[-1][1], broker
        elif sequence > self._done.get((broker, source), 0):
            self._held[broker][source, sequence] = number
        else:
            self._freed(number)  # before its publisher heard

    def attach(self, broker: int, core: Core) -> None:
        """The broker has started: what it had must be there, and what it frees is looked at."""
        journal = core.journal
        self._empty.discard(broker)
        if journal is None:
            return
        self._compare(broker, core, told=False)
        settle = journal.settle

        def watched(source: Source, sequence: int, now: float) -> None:
            settle(source, sequence, now)
            self.free(broker, source, sequence)

        journal.settle = watched  # type: ignore[method-assign]
        journal.on_lost.append(lambda first, last, reason, now: self._compare(broker, core, told=True))

    def disk_lost(self, broker: int, now: float) -> None:
        """What it had in custody must come from a copy."""
        self._disks.append((broker, now))
        self._empty.add(broker)
        for key, number in self._held.pop(broker, {}).items():
            self._orphans[number] = key, now, broker

    def orphans(self) -> list[int]:
        """Of these nothing may be missing in the end, although nobody has freed them: one disk was lost, and
        only one near that time."""
        found = []
        for number, (_, at, broker) in self._orphans.items():
            if any(other != broker and abs(lost - at) < BOTH_S for other, lost in self._disks):
                self.both += 1
            else:
                found.append(number)
        return found

    def crashed(self, broker: int, now: float) -> None:
        self._down[broker].append((now, inf))

    def back(self, broker: int, now: float) -> None:
        if self._down[broker]:
            self._down[broker][-1] = (self._down[broker][-1][0], now)

    def forgot(self, path: Iterable[Edge], settled_at: float) -> bool:
        """Whether a broker on the way had lost its disk, and with it whom it must wait for, while another one
        there was down."""
        if settled_at == inf:
            return False
        there = {broker for edge in path for broker in edge}
        lost = [(broker, at) for broker, at in self._disks if broker in there and at <= settled_at]
        return any(
            begin <= settled_at and end >= at
            for broker, at in lost
            for other in there - {broker}
            for begin, end in self._down[other]
        )

    def _compare(self, broker: int, core: Core, told: bool) -> None:
        assert core.journal is not None
        there = core.journal.contents.custody.held
        for (source, sequence), number in list(self._held[broker].items()):
            if not any(held.first <= sequence <= held.last for held in there.get(source, ())):
                del self._held[broker][source, sequence]
                self._lost(number, broker, told)

    def free(self, broker: int, source: Source, sequence: int) -> None:
        for number, (key, _, _) in list(self._orphans.items()):
            if key[0] == source and key[1] <= sequence:
                del self._orphans[number]
                self._freed(number)
        self._done[broker, source] = max(sequence, self._done.get((broker, source), 0))
        for key, number in list(self._held[broker].items()):
            if key[0] == source and key[1] <= sequence:
                del self._held[broker][key]
                self._freed(number)
