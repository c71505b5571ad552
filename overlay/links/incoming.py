"""The receiving half of a link session: what was taken, what of it is settled, what was cut.

Positions are those of the current epoch. The settled mark moves in order and passes a position only
when its record is released; what did not reach everybody is listed in `cuts`, numbered within the
epoch and repeated until the peer has seen it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from grapevine.wire.messages import Cut, Marks
from overlay.links.settling import Settling


class Incoming:
    __slots__ = (
        "_moved",
        "_told",
        "cuts",
        "cuts_first",
        "moved",
        "records",
        "received",
        "settled",
        "window",
    )

    def __init__(self, window: int, moved: Callable[[], None]) -> None:
        self.window = window
        self.received = 0
        self.settled = 0
        self.records: deque[Settling] = deque()
        self.cuts: list[Cut] = []
        self.cuts_first = 0  # number of cuts[0] within the epoch
        self.moved = False  # since the marks last left
        self._moved = moved
        self._told = 0  # how far the peer knows the settled mark

    @property
    def credit(self) -> int:
        return self.settled + self.window

    def take(self, first: int, count: int) -> int:
        """How many of the publications at `first`... were taken before; -1: they leave a gap or exceed
        the credit, so the two sides disagree about this epoch."""
        if first > self.received + 1 or first + count - 1 > self.credit or first < 1:
            return -1
        repeated = min(count, self.received + 1 - first)
        self.received += count - repeated
        self.mark()
        return repeated

    def settle_after(self, record: Settling) -> None:
        """All that was received by now is settled when `record` is released (or at once)."""
        if record.pending:
            record.last = self.received
            self.records.append(record)
        elif self.records:
            tail = self.records[-1]
            tail.last = self.received
            tail.cuts += record.cuts
        else:
            self.cuts += record.cuts
            self.settled = self.received

    def advance(self) -> None:
        """Pass every record at the head that waits for nothing."""
        records = self.records
        while records and not records[0].pending:
            record = records.popleft()
            self.settled = record.last
            self.cuts += record.cuts
            self.mark()

    @property
    def untold(self) -> int:
        """Settled, and the peer may not know it."""
        return self.settled - self._told

    def tell(self) -> None:
        """The marks leave."""
        self.moved = False
        self._told = self.settled

    def marks(self, epoch: int, cuts_seen: int) -> Marks:
        self.tell()
        return Marks(
            epoch, self.received, self.settled, self.credit, 0, tuple(self.cuts), self.cuts_first, cuts_seen
        )

    def cuts_taken(self, seen: int) -> None:
        """The peer has `seen` cuts of this epoch."""
        gone = min(seen - self.cuts_first, len(self.cuts))
        if gone > 0:
            del self.cuts[:gone]
            self.cuts_first += gone

    def new_epoch(self) -> None:
        """The peer starts counting anew and sends again what it does not know to be settled."""
        for record in self.records:
            record.incoming = None
        self.records.clear()
        self.cuts.clear()
        self.cuts_first = self.received = self.settled = self._told = 0
        self.moved = False

    def mark(self) -> None:
        self.moved = True
        # each time: without a link nothing clears `moved`, and an ended client waits for the last
        self._moved()
