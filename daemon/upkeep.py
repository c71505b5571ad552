"""What the indexes have put off, in turns: a bounded piece now and then, soon again while some is left.

An index places new subscriptions by the hundred and cuts its segments anew in steps; matches and inserts do
that in passing, and here it is done while nobody waits for it.
"""

from __future__ import annotations

from matching.group import warm_up
from matching.index import Index

UNITS = 32  # for one index in one turn: about a millisecond at most
SOON_S, LATER_S = 0.02, 1.0


class Upkeep:
    def __init__(self) -> None:
        warm_up()  # a daemon shall not pause for an import later
        self._indexes: list[Index] = []

    def index(self) -> Index:
        """A new index that has its turns."""
        self._indexes.append(Index())
        return self._indexes[-1]

    def __call__(self, now: float) -> float:
        left = [index.work(UNITS) for index in self._indexes]
        return now + (SOON_S if any(left) else LATER_S)
