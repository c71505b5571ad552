"""What brokers have told publishers to be on disk, and whether they still have it when they come back.

From the moment a publisher hears *persisted* until its first broker frees it, a publication is in that
broker's custody. A broker that starts without it must have reported a loss; else it has forgotten something
in silence. When custody ends, everybody it was owed to must have it, whatever became of its publisher.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from overlay.core import Core
from overlay.journal.bodies import Source

Key = tuple[Source, int]  # a publisher's incarnation, and a sequence number


class CustodyWatch:
    """`freed(number)` when custody of a publication has ended, `lost(number, broker, told)` when it is gone;
    `told`: the broker has said so."""

    def __init__(self, freed: Callable[[int], None], lost: Callable[[int, int, bool], None]) -> None:
        self._freed = freed
        self._lost = lost
        self._held: dict[int, dict[Key, int]] = defaultdict(dict)  # by broker: numbers of publications
        self._done: dict[tuple[int, Source], int] = {}

    def persisted(self, broker: int, source: Source, sequence: int, number: int) -> None:
        if sequence > self._done.get((broker, source), 0):
            self._held[broker][source, sequence] = number
        else:
            self._freed(number)  # before its publisher heard

    def attach(self, broker: int, core: Core) -> None:
        """The broker has started: what it had must be there, and what it frees is looked at."""
        journal = core.journal
        if journal is None:
            return
        self._compare(broker, core, told=False)
        settle = journal.settle

        def watched(source: Source, sequence: int, now: float) -> None:
            settle(source, sequence, now)
            self.free(broker, source, sequence)

        journal.settle = watched  # type: ignore[method-assign]
        journal.on_lost.append(lambda first, last, reason, now: self._compare(broker, core, told=True))

    def _compare(self, broker: int, core: Core, told: bool) -> None:
        assert core.journal is not None
        there = core.journal.contents.custody.held
        for (source, sequence), number in list(self._held[broker].items()):
            if not any(held.first <= sequence <= held.last for held in there.get(source, ())):
                del self._held[broker][source, sequence]
                self._lost(number, broker, told)

    def free(self, broker: int, source: Source, sequence: int) -> None:
        self._done[broker, source] = max(sequence, self._done.get((broker, source), 0))
        for key, number in list(self._held[broker].items()):
            if key[0] == source and key[1] <= sequence:
                del self._held[broker][key]
                self._freed(number)
