"""Publications that wait for their answer, in the order of their publisher (the price of order, section 5).

* A slot is one publication; a group is one batch of a client and settles as a whole.
* Ordered: only the longest answered prefix of a publisher's stage is released. Unordered: whatever is
  answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from grapevine.filters.normal import Value
from grapevine.wire.messages import Publication
from overlay.links.lane import Lane
from overlay.links.settling import Settling
from overlay.onehop.segments import Candidate

Source = tuple[int, int]  # publisher, incarnation
Homes = dict[int, tuple[int, bytes]]  # home -> its incarnation, packed clients


class Group:
    """The publications of one batch: `record` is held by one until all of them are released."""

    __slots__ = ("left", "record")

    def __init__(self, record: Settling, count: int) -> None:
        self.record, self.left = record, count

    def release(self, count: int) -> None:
        self.left -= count
        if not self.left:
            self.record.release()


class Slot:
    __slots__ = ("asked_at", "group", "matches", "publication", "stage", "tried", "values")

    def __init__(
        self,
        publication: Publication,
        values: Sequence[Value | None] | None,
        group: Group,
        stage: Stage,
        now: float,
    ) -> None:
        self.publication, self.values, self.group, self.stage = publication, values, group, stage
        self.matches: Homes | None = None  # once answered
        self.tried: set[Candidate] = set()
        self.asked_at = now


class Stage:
    __slots__ = ("_ordered", "_ready", "side", "slots", "source")

    def __init__(self, source: Source, side: Lane, ordered: bool) -> None:
        self.source, self.side = source, side  # where it comes from: its client, as a rule
        self._ordered = ordered
        self.slots: deque[Slot] = deque()  # not released, oldest first; unordered: not answered
        self._ready: list[Slot] = []

    def __len__(self) -> int:
        return len(self.slots)

    def add(self, slot: Slot) -> None:
        self.slots.append(slot)

    def answered(self, slot: Slot) -> None:
        if not self._ordered:
            self._ready.append(slot)

    def releasable(self) -> list[Slot]:
        """Takes out what may go now."""
        if not self._ordered:
            ready, self._ready = self._ready, []
            if ready:
                self.slots = deque(slot for slot in self.slots if slot.matches is None)
            return ready
        found = []
        while self.slots and self.slots[0].matches is not None:
            found.append(self.slots.popleft())
        return found
