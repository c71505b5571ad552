"""What a client sends again was perhaps owed to a dispatcher that is lost here (DECISIONS 23, as on a tree).

A publisher whose dispatcher has failed goes on at another one and sends its unsettled publications again.
They were owed to the subscriptions that its former dispatcher knew, and of those at a dispatcher that we have
given up, or never met because it was held dead when we started, nobody can tell us: matchers have forgotten
them too. So for a while the publisher hears of each that it may be undelivered.

A durable one waits instead, in custody, until that dispatcher is back or has left for good: its streams are
owed it. Who was a dispatcher is known over a restart, so that one that comes back later than we is waited for
too.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from grapevine.wire.messages import CUT_LINK_LOST, DURABLE, RESENT, Publication
from grapevine.wire.onehop import DEAD, DISPATCHER, LEFT
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.duplicates import Source
from overlay.links.session import Session
from overlay.links.settling import Settling, cuts_of
from overlay.onehop.cluster import Cluster
from overlay.onehop.member import Member
from overlay.onehop.publications import OneHopPublications

LOOK_S = 0.25  # whether somebody is back
REMEMBERED = 10  # times lost_after_s: a client that goes on elsewhere has come by then


class Adopting(Quiet):
    name = "adopting"
    keeps = "dispatchers"

    def __init__(self, cluster: Cluster, publications: OneHopPublications) -> None:
        self.cluster, self.publications = cluster, publications
        self.missed: dict[int, float] = {}  # dispatchers that are not back -> when they are forgotten
        self.awaited: set[int] = set()  # the same, for what is durable: until they are back or have left
        self._written: tuple[int, ...] = ()

    def attach(self, core: Core) -> None:
        self.core = core
        self.cluster.met.append(self._met)
        self.cluster.table_changed.append(self._table_changed)

    def restore(self, rows: Mapping[str, bytes]) -> None:
        if (kept := rows.get("ids")) is not None:
            self._written = self.cluster.known_before = msgspec.json.decode(kept, type=tuple[int, ...])
            self._await(*self._written)

    def _met(self, member: Member, now: float) -> None:
        self.missed.pop(member.id, None)

    def _table_changed(self, now: float) -> None:
        """Of those that are held dead before we have met them. Whoever has left had sent its clients away."""
        dispatchers = []
        for entry in self.cluster.table.entries.values():
            if entry.state == LEFT:
                self.missed.pop(entry.owner, None)
                self.awaited.discard(entry.owner)
            elif entry.roles & DISPATCHER and entry.owner != self.core.id:
                dispatchers.append(entry.owner)
                if entry.state == DEAD and self.cluster.get(entry.owner) is None:
                    self._miss(entry.owner, now)
        self._write(tuple(sorted({*dispatchers, *self.awaited})))

    def _write(self, dispatchers: tuple[int, ...]) -> None:
        if dispatchers != self._written:
            self._written = dispatchers
            self.core.keep(self.keeps, "ids", dispatchers)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Member) and session.counts:
            entry = self.cluster.table.entries.get(session.id)
            if entry is None or entry.state != LEFT:
                self._miss(session.id, now)

    def _miss(self, member: int, now: float) -> None:
        until = now + REMEMBERED * self.core.settings.links.lost_after_s
        self.missed.setdefault(member, until)
        self._await(member)

    def _await(self, *members: int) -> None:
        if not self.awaited:
            self.core.timers.at(self.core.now + LOOK_S, self._look)
        self.awaited.update(members)
        self.publications.adopted = self._adopted

    def _look(self, now: float) -> None:
        self.awaited = {member for member in self.awaited if not self.is_back(member)}
        if self.awaited:
            self.core.timers.at(now + LOOK_S, self._look)

    def is_back(self, home: int) -> bool:
        """Whether answers that we believe have its streams, or it has left for good."""
        entry, member = self.cluster.table.entries.get(home), self.cluster.get(home)
        if entry is not None and entry.state == LEFT:
            return True
        return member is not None and member.connected and member.counts

    def is_time(self, source: Source) -> bool:
        """Whether what was stranded of this publisher can reach everybody that it did not."""
        return all(map(self.is_back, self.publications.behind.get(source) or self.awaited))

    def _adopted(self, publications: list[Publication], record: Settling) -> None:
        self.missed = {member: until for member, until in self.missed.items() if until > self.core.now}
        if not self.missed and not self.awaited:
            self.publications.adopted = None
        again = [publication for publication in publications if publication.flags & RESENT]
        durable = [p for p in again if p.flags & DURABLE] if self.publications.keep is not None else []
        if durable and self.awaited:
            record.cuts += cuts_of(durable, CUT_LINK_LOST)
            for home in sorted(self.awaited):
                self.publications.miss(durable, home)
        if self.missed and (others := again if not durable else [p for p in again if not p.flags & DURABLE]):
            record.cuts += cuts_of(others, CUT_LINK_LOST)

    def status(self) -> Status:
        return {"missed": [self.core.names.get(member, str(member)) for member in self.missed]}
