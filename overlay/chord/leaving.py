"""When a broker of the ring serves clients, and how it goes.

It serves when it is on the ring, those before it know it, and it is the root of its arc. Who leaves sends
its clients away, hands its topics to its successor, passes on what still comes for them, and says farewell
when nothing that came to it is unsettled. A broker that has streams stays: they are owed what is published,
and an administrator ends them first.
"""

from __future__ import annotations

from grapevine.wire.chord import RootCopied
from overlay.behaviour import Quiet
from overlay.chord.participation import Participation
from overlay.chord.planes import Planes
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.journal.streams import Streams
from overlay.links.readiness import Readiness

LOOK_S = 0.1


class RingLeaving(Quiet):
    def __init__(
        self,
        planes: Planes,
        participation: Participation,
        attachments: Attachments,
        readiness: Readiness,
    ) -> None:
        self.planes, self.participation = planes, participation
        self.attachments, self.readiness = attachments, readiness
        self.streams: Streams | None = None  # set by the profile, as is the journal they are in
        self.handed_over = False
        self._quiet_since = 0.0

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        self._again(now)

    def _again(self, now: float) -> None:
        """Until we serve, and again from when we are to leave."""
        self._look(now)
        if self.core.leaving or not self.core.ready:
            self.core.timers.at(now + LOOK_S, self._again)

    def _look(self, now: float) -> None:
        membership = self.planes.membership
        if self.core.leaving:
            self._maybe_finish(now)
        elif membership.member and membership.known_before and self.planes.roots.begin is not None:
            self.readiness.become_ready(self.core, now)

    def leave(self, now: float) -> None:
        if self.core.leaving:
            return
        if self.streams is not None and self.streams.sessions:
            self.core.event(now, "leaving", f"{self.core.name} stays: it has streams, end them first")
            return
        looking = not self.core.ready
        self.core.leaving = True
        self.attachments.send_away(now)
        if not looking:
            self._again(now)

    def _maybe_finish(self, now: float) -> None:
        if self.participation.running is not None:
            return  # nobody leaves during a reconfiguration
        if self.core.clients or self.core.numbered or self.planes.wants.unanswered:
            return
        if self.streams is not None and self.streams.journal.contents.custody.items:
            return  # only we have it
        self._retire()
        if any(plane.roots.giving or plane.roots.may_be_last for plane in self.planes.all):
            return  # who is given a part of our arc may have it already
        if not self.handed_over:
            self.handed_over = True
            self.planes.roots.hand_over(self._handed_over, now)

    def _retire(self) -> None:
        """Roots whose copy we have are to choose another holder; those that have died meanwhile are ours."""
        for plane in self.planes.all:
            for node in plane.roots.copies:
                plane.roots.contacts.tell(node, RootCopied(0))

    def _handed_over(self, now: float) -> None:
        """The ring closes behind us; what still comes here goes to who has our topics."""
        self.planes.membership.leave(now)
        self._quiet_since = now
        self._wait(now)

    def _wait(self, now: float) -> None:
        """Until nothing that came here is unsettled and nobody sends more."""
        peers = self.core.peers.values()
        busy = self.planes.path.waits or any(
            lane.out.unsettled or lane.incoming.records for peer in peers for lane in peer.every_lane()
        )
        if busy:
            self._quiet_since = now
        if now - self._quiet_since < 3 * self.planes.membership.settings.stabilise_s:
            self.core.timers.at(now + LOOK_S, self._wait)
        else:
            self.core.finished = True
