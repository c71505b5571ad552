"""The receiving half of a link session: what was taken, what of it is settled, what was cut.

Positions are those of the current epoch. The settled mark moves in order and passes a position only
when its record is released; what did not reach everybody is listed in `cuts`, numbered within the
epoch and repeated until the peer has seen it. A frame holds so many cuts; what would need more waits, and the
settled mark with it, until the peer has seen the first: so their number is bounded, and a peer that never
says so comes to its credit's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from grapevine.wire.limits import CUTS
from grapevine.wire.messages import Cut, Marks, Resume
from overlay.links.settling import Settling

CUTS_LISTED = CUTS  # in one frame at most
EVERY_CUT = 2**63


class Incoming:
    __slots__ = (
        "_acknowledged",
        "_moved",
        "_unkept",
        "_unlisted",
        "cuts",
        "cuts_first",
        "kept_moved",
        "listed",
        "moved",
        "open",
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
        self.listed = CUTS_LISTED  # so many cuts at a time
        self.open = 0  # cuts listed so far of a record that had too many for one frame
        self.moved = False  # since the marks last left
        self.kept_moved = False  # the persisted mark, which only marks carry
        # Positions before those that wait for the disk, if there is one; and of what it has refused those
        # before and the last.
        self._unkept: deque[int] | None = None
        self._unlisted: deque[tuple[int, int]] = deque()
        self._moved = moved
        self._acknowledged = 0  # how far the peer knows the settled mark

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
        records = self.records
        record.last = self.received
        if record.pending or (record.cuts and not records):
            records.append(record)
            if not record.pending:
                self.advance()
        elif records:
            tail = records[-1]
            tail.last = self.received
            tail.cuts += record.cuts
        else:
            self.settled = self.received

    def advance(self) -> None:
        """Pass every record at the head that waits for nothing, once all that it cut is listed."""
        records = self.records
        while records and not records[0].pending:
            record = records[0]
            room = self.listed - len(self.cuts)
            if len(record.cuts) > room:
                if room > 0:
                    self.cuts += record.cuts[:room]
                    del record.cuts[:room]
                    self.open += room
                    self.mark()
                return
            records.popleft()
            self.open = 0
            self.settled = record.last
            self.cuts += record.cuts
            while self._unlisted and self._unlisted[0][1] <= self.settled:
                self._unlisted.popleft()
                self.kept_moved = True
            self.mark()

    def list_all(self) -> None:
        """Nobody at the other end takes cuts by the frame: none of them waits."""
        self.listed = EVERY_CUT
        self.advance()

    @property
    def unacknowledged(self) -> int:
        """Settled, and the peer may not know it."""
        return self.settled - self._acknowledged

    def acknowledge(self) -> None:
        """The marks leave."""
        self.moved = False
        self._acknowledged = self.settled

    def marks(self, epoch: int, cuts_seen: int) -> Marks:
        self.acknowledge()
        self.kept_moved = False
        cuts = tuple(self.cuts)
        marks = self.received, self.settled, self.credit, self.persisted
        return Marks(epoch, *marks, cuts, self.cuts_first, cuts_seen, self.open)

    # --- the disk -----------------------------------------------------------------------------------

    def has_journal(self) -> None:
        self._unkept = deque()

    @property
    def persisted(self) -> int:
        """All that was to be kept up to here is on disk."""
        if self._unkept is None:
            return 0
        kept = self._unkept[0] if self._unkept else self.received
        return min(kept, self._unlisted[0][0]) if self._unlisted else kept

    def keep_after(self, position: int) -> None:
        """What comes after this position waits for the disk."""
        if self._unkept is not None:
            self._unkept.append(position)

    @property
    def keeping(self) -> object:
        """What waits for the disk, until the peer counts anew."""
        return self._unkept

    def kept(self, refused_to: int = 0) -> None:
        """The disk has the first that waited; or has refused what goes up to this position."""
        if self._unkept:
            before = self._unkept.popleft()
            if refused_to:
                self.refused(before, refused_to)
            self.kept_moved = True
            self.mark()

    def refused(self, before: int, last: int) -> None:
        """The disk does not take these: nobody hears that they are persisted before that they are cut."""
        self._unlisted.append((before, last))

    def resume(self, epoch: int) -> Resume:
        """The same for a greeting."""
        return Resume(epoch, self.received, self.settled, tuple(self.cuts), self.cuts_first, self.open)

    def cuts_taken(self, seen: int) -> None:
        """The peer has `seen` cuts of this epoch."""
        gone = min(seen - self.cuts_first, len(self.cuts))
        if gone > 0:
            del self.cuts[:gone]
            self.cuts_first += gone
            self.advance()

    def new_epoch(self) -> None:
        """The peer starts counting anew and sends again what it does not know to be settled."""
        for record in self.records:
            record.incoming = None
        self.records.clear()
        self.cuts.clear()
        self.cuts_first = self.received = self.settled = self._acknowledged = self.open = 0
        if self._unkept is not None:
            self._unkept = deque()
            self._unlisted.clear()
        self.moved = False

    def mark(self) -> None:
        self.moved = True
        # each time: without a link nothing clears `moved`, and an ended client waits for the last
        self._moved()
