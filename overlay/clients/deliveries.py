"""The stream to one subscriber, and what happens when it is slow (DECISIONS 2).

What is in flight holds settling until the client's session acknowledges it. What waits in the backlog
for the client's credit does not, nor does anything once the client has been silent for `stall_s`: a
stopped reader stops nobody. A full backlog is the subscriber's own loss, by the policy it chose.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grapevine.wire.limits import BATCH_PUBLICATIONS
from grapevine.wire.messages import CUT_LINK_LOST, DISCONNECT, DROP_NEWEST, Cut
from overlay.clients.backlog import Backlog
from overlay.links.outgoing import Chunk, Outgoing, Wait
from overlay.links.settling import Settling

if TYPE_CHECKING:
    from overlay.clients.shelf import Shelf

FLIGHT_LEAST = 65_536


class Deliveries(Outgoing):
    __slots__ = ("backlog", "dropped", "most", "on_slow", "overrun", "shelf", "stalled")

    def __init__(self, on_slow: int, most: int) -> None:
        super().__init__()
        self.on_slow = on_slow
        self.backlog = Backlog()
        self.most = most  # that wait for the client's credit
        self.dropped = 0
        self.stalled = False
        self.overrun = False  # the policy says: disconnect
        self.shelf: Shelf | None = None  # where things wait while it is asleep

    def hold(self, record: Settling) -> None:
        last = min(self.next - 1 + len(self.queue), self.limit)
        if last > self.settled and not self.stalled and not self.backlog:
            self.waits.append(Wait(last, last, record))
            record.pending += 1

    def seal(self, most: int = BATCH_PUBLICATIONS) -> None:
        room = self.limit - (self.next - 1)
        if self.shelf is not None:
            if room > 0:
                self.shelf.empty()
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
        """Move from the backlog into the window what the credit allows."""
        if room > 0 and self.backlog:
            self._retain(Chunk(self.next, *self.backlog.take(room)), most)

    @property
    def drowsy(self) -> bool:
        """Whether it may sleep: silent, behind, and not to be disconnected at a certain point."""
        return self.stalled and bool(self.backlog) and self.on_slow != DISCONNECT

    def shed(self) -> None:
        surplus = len(self.backlog) - self.most
        if surplus <= 0:
            return
        if self.on_slow == DISCONNECT:
            self.overrun = True
        self.dropped += surplus
        if self.on_slow == DROP_NEWEST:
            self.backlog.drop_newest(surplus)
        else:
            self.backlog.drop_oldest(surplus)

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
        """A lost subscriber is no loss to the publishers."""
        self.backlog.clear()
        self.forget()
        self._release()

    def _release(self) -> None:
        waits, self.waits = self.waits, deque()
        for wait in waits:
            wait.record.release()
