"""A side that is met anew takes nothing durable of a publisher before what may be stranded (DECISIONS 28).

Behind a new link may be somebody who was cut off before, or has restarted, and to whom older publications are
owed: these wait in custody at their first broker. A newer one that came first would make duplicates of them.
So of every publisher that was there when the link came up, and of every one that is heard of from a side that
has not told all yet, durable publications are cut on their way to this side until these have passed here in a
replay; the first broker, being told of the cut, begins one. Publishers that advertise later have nothing
older.

Nobody is asked: whether something is stranded only its first broker knows, and the way to it may be the one
that was lost.

A neighbour that has restarted knows who is behind it by now, not who was: one that it had lost may have come
back elsewhere, even behind us. What was on its way to it is sent again, and settles for those that it knows;
so what is durable counts as cut as well, and is replayed, for whoever is anywhere by then.
"""

from __future__ import annotations

from grapevine.wire.messages import CUT_LINK_LOST, DURABLE, Advertisement, Publication
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.duplicates import Source
from overlay.data.path import Publications
from overlay.links.session import Session
from overlay.tree.peer import Peer, peers_of
from overlay.tree.router import TreeRouter


class ReturnedSides(Quiet):
    name = "returned"
    before = ("Sync",)

    def __init__(self, router: TreeRouter, publications: Publications) -> None:
        self.router = router
        self.unheard = publications.unheard
        self.ordered = publications.ordered
        router.on_gone.append(self._gone)
        router.placed = self._placed

    def attach(self, core: Core) -> None:
        self.core = core

    def link_up(self, session: Session, now: float) -> None:
        if not isinstance(session, Peer):
            return
        if session.tables_epoch not in (0, session.epoch):
            self._restarted(session)
        elif not session.tables_epoch and self.ordered:
            for source in self.router.sources:
                self.unheard.setdefault(source, {}).setdefault(session, 0)

    def _restarted(self, peer: Peer) -> None:
        peer.out.report(_durable, CUT_LINK_LOST)

    def _placed(self, item: Advertisement) -> None:
        entry = self.router.advertisements.table.by_key.get((item.origin, item.serial))
        side = entry.source if entry is not None else None
        if isinstance(side, Peer) and not side.synced_by_peer and self.ordered:
            others = [peer for peer in peers_of(self.core).values() if peer is not side]
            if others:
                unheard = self.unheard.setdefault((item.publisher, item.incarnation), {})
                unheard |= {peer: 0 for peer in others if peer not in unheard}

    def _gone(self, source: Source) -> None:
        self.unheard.pop(source, None)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            for source, sides in list(self.unheard.items()):
                sides.pop(session, None)
                if not sides:
                    del self.unheard[source]

    def status(self) -> Status:
        return {"publishers": len(self.unheard)}


def _durable(publication: Publication) -> bool:
    return bool(publication.flags & DURABLE)
