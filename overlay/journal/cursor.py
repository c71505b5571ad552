"""How far one reader of a stream has acknowledged, and what is under way to it.

`acknowledged`: everything up to here. `exceptions`: acknowledged above it, one by one. What was delivered
and not answered by its deadline, or was refused (nak), is delivered again; after `max_deliver` times it is
*parked*: not delivered any more, kept as the stream's limits say. One timer serves a cursor, not a message.
What is not on disk of this means that something is delivered twice, never that it is not delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

EXCEPTIONS_MOST = 65_536  # past this nothing new is delivered until the holes are answered


class Cursor:
    __slots__ = ("_again", "acknowledged", "deliveries", "due", "exceptions", "next", "parked")

    def __init__(
        self, acknowledged: int = 0, exceptions: Iterable[int] = (), parked: Iterable[int] = ()
    ) -> None:
        self.acknowledged = acknowledged
        self.exceptions = set(exceptions)
        self.parked = set(parked)
        self.next = acknowledged + 1  # the first offset never delivered in this life
        self.due: dict[int, float] = {}  # of what is under way
        self.deliveries: dict[int, int] = {}  # how often, of what is not acknowledged
        self._again: list[tuple[float, int]] = []  # when an offset may be delivered again
        self._advance()

    # --- to the reader ----------------------------------------------------------------------------

    def take(self, end: int, most: int, now: float, ack_wait_s: float, in_flight: int) -> list[int]:
        """The offsets before `end` to deliver now, what comes again first; they are under way from now on."""
        room = min(most, in_flight - len(self.due))
        taken: list[int] = []
        while self._again and self._again[0][0] <= now and len(taken) < room:
            _, offset = heappop(self._again)
            if self._wanted(offset):
                taken.append(offset)
        while len(taken) < room and self.next < end and len(self.exceptions) < EXCEPTIONS_MOST:
            offset = self.next
            self.next += 1
            if offset not in self.exceptions and offset not in self.parked:
                taken.append(offset)
        for offset in taken:
            self.due[offset] = now + ack_wait_s
            self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
        return taken

    def ready(self, end: int, now: float) -> int:
        """How many `take` could give, at most."""
        return end - self.next + sum(at <= now for at, _ in self._again)

    def _wanted(self, offset: int) -> bool:
        return (
            offset > self.acknowledged
            and offset not in self.exceptions
            and offset not in self.parked
            and offset not in self.due
        )

    def redelivered(self, offset: int) -> bool:
        return self.deliveries.get(offset, 0) > 1

    # --- what the reader says ---------------------------------------------------------------------

    def acknowledge(self, offset: int) -> bool:
        """One of them; whether that was news. Nobody acknowledges what it never got."""
        if offset <= self.acknowledged or offset >= self.next or offset in self.exceptions:
            return False
        self.exceptions.add(offset)
        self._done(offset)
        self._advance()
        return True

    def acknowledge_to(self, offset: int) -> bool:
        """All up to this one, which the reader got by this cursor or by asking for a range."""
        if offset <= self.acknowledged:
            return False
        self.acknowledged = offset
        self.next = max(self.next, offset + 1)
        for known in (self.due, self.deliveries):
            for old in [each for each in known if each <= offset]:
                del known[old]
        self.exceptions = {each for each in self.exceptions if each > offset}
        self._advance()
        return True

    def refuse(self, offset: int, at: float) -> None:
        """Not now: deliver it again from `at` on."""
        if self.due.pop(offset, None) is not None:
            heappush(self._again, (at, offset))

    def untake(self, offset: int, now: float) -> None:
        """It was not delivered after all."""
        self.refuse(offset, now)
        self.deliveries[offset] -= 1

    def working(self, offset: int, until: float) -> None:
        """It takes longer."""
        if offset in self.due:
            self.due[offset] = max(self.due[offset], until)

    def _done(self, offset: int) -> None:
        self.due.pop(offset, None)
        self.deliveries.pop(offset, None)

    def _advance(self) -> None:
        """Past what is acknowledged one by one; what is parked holds nobody."""
        at = self.acknowledged + 1
        while at in self.exceptions or at in self.parked:
            self.exceptions.discard(at)
            at += 1
        self.acknowledged = at - 1
        self.next = max(self.next, at)

    # --- time -------------------------------------------------------------------------------------

    def expire(self, now: float, max_deliver: int | None) -> list[int]:
        """Deadlines have passed: those come again, or are parked; which were parked."""
        late = [offset for offset, due in self.due.items() if due <= now]
        for offset in late:
            del self.due[offset]
            heappush(self._again, (now, offset))
        return self.park(max_deliver) if late and max_deliver else []

    def park(self, max_deliver: int) -> list[int]:
        """What waits to be delivered once more than allowed is set aside."""
        over = [offset for _, offset in self._again if self.deliveries.get(offset, 0) >= max_deliver]
        if over:
            gone = set(over)
            self._again = [each for each in self._again if each[1] not in gone]
            heapify(self._again)
            self.parked |= gone
            for offset in over:
                self._done(offset)
            self._advance()
        return sorted(over)

    def deadline(self) -> float | None:
        """When `expire` or `take` has something to do."""
        times = list(self.due.values())
        if self._again:
            times.append(self._again[0][0])
        return min(times, default=None)

    def detach(self, now: float) -> None:
        """The reader has gone: what was under way comes again to the next."""
        for offset in self.due:
            heappush(self._again, (now, offset))
        self.due.clear()

    def skip_to(self, offset: int) -> None:
        """Everything before is past the limits."""
        self.parked = {each for each in self.parked if each >= offset}
        if offset - 1 > self.acknowledged:
            self.acknowledge_to(offset - 1)

    def oldest(self) -> int:
        """The first offset that is needed for it."""
        return min(self.acknowledged + 1, min(self.parked, default=self.acknowledged + 1))
