"""What a client sends again was perhaps owed to a dispatcher that is lost here (DECISIONS 23, as on a tree).

A publisher whose dispatcher has failed goes on at another one and sends its unsettled publications again.
They were owed to the subscriptions that its former dispatcher knew, and of those at a dispatcher that we have
given up, or never met because it was held dead when we started, nobody can tell us: matchers have forgotten
them too. So for a while the publisher hears of each that it may be undelivered.
"""

from __future__ import annotations

from grapevine.wire.messages import CUT_LINK_LOST, RESENT, Publication
from grapevine.wire.onehop import DEAD, DISPATCHER, LEFT
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.path import Publications
from overlay.links.session import Session
from overlay.links.settling import Settling, cuts_of
from overlay.onehop.cluster import Cluster
from overlay.onehop.member import Member

REMEMBERED = 10  # times lost_after_s: a client that goes on elsewhere has come by then


class Adopting(Quiet):
    name = "adopting"

    def __init__(self, cluster: Cluster, publications: Publications) -> None:
        self.cluster, self.publications = cluster, publications
        self.missed: dict[int, float] = {}  # dispatchers that are not back -> when they are forgotten

    def attach(self, core: Core) -> None:
        self.core = core
        self.cluster.met.append(self._met)
        self.cluster.table_changed.append(self._table_changed)

    def _met(self, member: Member, now: float) -> None:
        self.missed.pop(member.id, None)

    def _table_changed(self, now: float) -> None:
        """Of those that are held dead before we have met them. Whoever has left had sent its clients away."""
        for entry in self.cluster.table.entries.values():
            if entry.state == LEFT:
                self.missed.pop(entry.owner, None)
            elif entry.state == DEAD and entry.roles & DISPATCHER and self.cluster.get(entry.owner) is None:
                self._miss(entry.owner, now)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Member) and session.counts:
            entry = self.cluster.table.entries.get(session.id)
            if entry is None or entry.state != LEFT:
                self._miss(session.id, now)

    def _miss(self, member: int, now: float) -> None:
        until = now + REMEMBERED * self.core.settings.links.lost_after_s
        self.missed.setdefault(member, until)
        self.publications.adopted = self._adopted

    def _adopted(self, publications: list[Publication], record: Settling) -> None:
        self.missed = {member: until for member, until in self.missed.items() if until > self.core.now}
        if not self.missed:
            self.publications.adopted = None
        elif again := [publication for publication in publications if publication.flags & RESENT]:
            record.cuts += cuts_of(again, CUT_LINK_LOST)

    def status(self) -> Status:
        return {"missed": [self.core.names.get(member, str(member)) for member in self.missed]}
