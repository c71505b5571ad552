"""SPEC T4's second half: when do publications flow again over a link that came up (DECISIONS 11)?

Both sides announce all they know, then say TablesSent. A side says SyncDone when the other's tables
are in, when everything announced on this link in either direction is confirmed, when nothing that came
over it is still known from elsewhere (a shadow: somebody has not noticed yet that the tree changed),
and when all other neighbours have said theirs at least once. Publications are sent to a neighbour only
after its SyncDone; clients are served once all neighbours have said it. On a tree this waiting has no
cycle; on a cycle it never ends, and nothing flows there.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.messages import SyncDone, TablesSent
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.readiness import Readiness
from overlay.links.session import Session
from overlay.tree.peer import Peer, peers_of

TABLE = "tree"  # of durable rows; `Join` restores them


class Sync(Quiet):
    name = "sync"

    after = ("Announcements", "Advertisements", "Subscriptions", "Neighbourhoods", "Moves", "Leave")

    def __init__(self, readiness: Readiness) -> None:
        self.readiness = readiness
        self.announced: list[Callable[[Peer, float], None]] = []  # called when all tables are announced
        self.tables_in: list[Callable[[Peer, float], None]] = []  # called when it has told all of its own
        self.said: list[Callable[[Peer, float], None]] = []  # called when we have said SyncDone
        self.forget_stale: list[Callable[[Peer, float], None]] = []
        self.forget_shadows: list[Callable[[Peer, float], None]] = []
        self.seeking: Callable[[], bool] = lambda: False  # a configured parent is not reached yet
        self._written: list[tuple[str, tuple[str, ...]]] = []

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(TablesSent, self.on_tables_sent)
        core.on(SyncDone, self.on_sync_done)

    def link_up(self, session: Session, now: float) -> None:
        """Attached last: by now every behaviour has announced its tables."""
        if isinstance(session, Peer):
            for call in self.announced:
                call(session, now)
            session.tables_epoch = session.epoch
            self.core.tell(TablesSent(), session)
            self.remember()

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self.remember()
            self.check_all(now)

    def on_tables_sent(self, peer: Peer, message: TablesSent, now: float) -> None:
        """What it no longer says goes now if it never counted, or if another says it: were all that kept for
        the SyncDone, neighbours would wait for each other's."""
        peer.tables_received = True
        for call in self.tables_in:
            call(peer, now)
        self._forget_shadows(peer, now)
        self.check(peer, now)

    def _forget_shadows(self, peer: Peer, now: float) -> None:
        for forget in self.forget_shadows:
            forget(peer, now)

    def on_sync_done(self, peer: Peer, message: SyncDone, now: float) -> None:
        peer.synced_by_peer = peer.ever_synced = True
        for forget in self.forget_stale:
            forget(peer, now)
        if peer.shadows:  # it is believed now: others' old words yield to its own
            for other in list(peers_of(self.core).values()):
                if other.tables_received and not other.synced_by_peer:
                    self._forget_shadows(other, now)
        peer.touch()
        self.check_all(now)

    def check(self, peer: Peer, now: float) -> None:
        """Say SyncDone to this neighbour if it is due."""
        if (
            peer.link is not None
            and peer.tables_received
            and not peer.synced_by_us
            and not peer.sync_pending
            and not peer.shadows
            and self._all_known_but(peer)
        ):
            peer.synced_by_us = True
            self.core.tell(SyncDone(), peer)
            for call in self.said:
                call(peer, now)

    def check_all(self, now: float) -> None:
        for peer in list(peers_of(self.core).values()):
            self.check(peer, now)
        if not self.core.ready and self._all_known_but(None):
            self.readiness.become_ready(self.core, now)

    def _all_known_but(self, peer: Peer | None) -> bool:
        if self.seeking():
            return False
        return all(
            other.ever_synced or other.going for other in peers_of(self.core).values() if other is not peer
        )

    def remember(self) -> None:
        """A restarted broker waits for the neighbours it had."""
        names = [(peer.name, peer.addresses) for peer in peers_of(self.core).values() if not peer.retiring]
        if names != self._written:
            self._written = names
            self.core.keep(TABLE, "neighbours", names)

    def status(self) -> Status:
        return {"ready": self.core.ready}

    def validate(self) -> None:
        for peer in peers_of(self.core).values():
            assert peer.sync_pending >= 0 and peer.shadows >= 0, peer
