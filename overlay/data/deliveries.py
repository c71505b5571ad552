"""The stream to one subscriber, and what happens when it is slow (DECISIONS 2).

What is in flight holds settling until the client's session acknowledges it. What waits in the backlog
for the client's credit does not, nor does anything once the client has been silent for `stall_s`: a
stopped reader stops nobody. A full backlog is the subscriber's own loss, by the policy it chose. It is full
by number or by bytes; what is under way counts twice, since the transport has a copy of it. When too much is
under way its credit counts as used up until it says more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grapevine.wire.limits import BATCH_PUBLICATIONS
from grapevine.wire.messages import CUT_LINK_LOST, DISCONNECT, DROP_NEWEST, Cut
from overlay.data.backlog import Backlog
from overlay.links.outgoing import UNLIMITED, Chunk, Outgoing, Wait
from overlay.links.settling import Settling

if TYPE_CHECKING:
    from overlay.data.spill_queue import SpillQueue

FLIGHT_LEAST = 65_536
FLIGHT_SHARE = 8  # of the bytes, one part may be under way
LITTLE = 1024 * 1024  # bytes of a backlog that need no counting of what is under way


class Deliveries(Outgoing):
    __slots__ = ("backlog", "dropped", "most", "most_bytes", "on_slow", "overrun", "spill", "stalled")

    def __init__(self, on_slow: int, most: int, most_bytes: int = UNLIMITED) -> None:
        super().__init__(most_bytes // FLIGHT_SHARE)
        self.on_slow = on_slow
        self.backlog = Backlog()
        self.most = most  # that wait for the client's credit
        self.most_bytes = most_bytes  # that wait or are under way
        self.dropped = 0
        self.stalled = False
        self.overrun = False  # the policy says: disconnect
        self.spill: SpillQueue | None = None  # where things wait while it is dormant

    def hold(self, record: Settling) -> None:
        last = min(self.next - 1 + len(self.queue), self.limit)
        if last > self.settled and not self.stalled and not self.backlog:
            self.waits.append(Wait(last, last, record))
            record.pending += 1

    def seal(self, most: int = BATCH_PUBLICATIONS) -> None:
        room = self.limit - (self.next - 1)
        if self.spill is not None:
            if room > 0:
                self.spill.empty()
                self._fill(room, most)
            return
        if not self.backlog and len(self.queue) <= room:
            super().seal(most)
            return
        self.backlog.append(self.queue.copy(), self.ids.copy())
        self.queue.clear()
        self.ids.clear()
        self._fill(room, most)
        self.shed()

    def _fill(self, room: int, most: int) -> None:
        """Move from the backlog into the window what the credit and the bytes allow."""
        if room <= 0 or not self.backlog:
            return
        little = self.backlog.size <= LITTLE
        free_bytes = LITTLE if little else self.window_bytes - self.weight()
        if free_bytes > 0:
            self._retain(Chunk(self.next, *self.backlog.take(room, free_bytes)), most)

    def weigh(self) -> None:
        """Too much is under way: what comes next waits for the client's next word, as without credit."""
        if self.limit >= self.next and self.weight() >= self.window_bytes:
            self.limit = self.next - 1

    @property
    def ought_to_be_dormant(self) -> bool:
        """Whether it may be dormant: silent, behind, and not to be disconnected at a certain point."""
        return self.stalled and bool(self.backlog) and self.on_slow != DISCONNECT

    def shed(self) -> None:
        newest = self.on_slow == DROP_NEWEST
        dropped = 0
        if (surplus := len(self.backlog) - self.most) > 0:
            dropped = surplus
            self.backlog.drop(surplus, newest)
        if self.backlog.size > self.most_bytes // 2:  # less need not be weighed against what is under way
            excess = self.backlog.size + 2 * self.weight() - self.most_bytes
            dropped += self.backlog.drop_bytes(excess, newest)
        if dropped:
            self.dropped += dropped
            self.overrun = self.overrun or self.on_slow == DISCONNECT

    def limit_to(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self.window_bytes = most_bytes // FLIGHT_SHARE

    def begin(self, window: int) -> None:
        self.limit = min(window, self.flight)

    @property
    def flight(self) -> int:
        """So many at most are under way and not acknowledged, whatever a client says it takes."""
        return max(self.most, FLIGHT_LEAST)

    def resume(self, received: int, window: int) -> None:
        super().resume(received, min(window, self.flight))

    def marked(self, received: int, settled: int, credit: int) -> bool:
        before = self.settled
        right = super().marked(received, settled, min(credit, settled + self.flight))
        if self.settled > before:
            self.stalled = False
        return right

    def cut_by(self, cuts: tuple[Cut, ...], settled: int, later: int = 0) -> bool:
        """A subscriber cuts nothing: it has what it acknowledges, and its word is no publisher's loss."""
        return not cuts

    @property
    def in_flight(self) -> int:
        return self.sent - self.settled

    def stall(self) -> None:
        """Silent for too long: nobody waits for it."""
        self.stalled = True
        self._release()

    def give_up(self, reason: int = CUT_LINK_LOST) -> None:
        """A lost subscriber is no loss to the publishers, nor is what still comes for it."""
        self.stalled = True
        self.backlog.clear()
        self.forget()
        self._release()

    def _release(self) -> None:
        waits, self.waits = self.waits, deque()
        for wait in waits:
            wait.record.release()
