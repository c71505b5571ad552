"""SPEC M1: neighbours tell each other who is behind them, so that every broker's master map stays right.

A branch is told when a link comes up, before any table, and again whenever it changes. A neighbour is on it
once it has said SyncDone: before, the subscriptions that came from there may name ways that nothing takes,
and a soft link past it would carry publications by them. A suspended link keeps its branch; a lost one takes
it along. With Delta 1 nobody needs to know more than its neighbours, and nothing is told.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.mesh import Branch, Nearby, Neighbourhood
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.handshake import Handshake
from overlay.links.session import Remote, Session
from overlay.softlinks.master import MasterOverlayMap
from overlay.tree.peer import Peer, peers_of
from overlay.tree.sync import Sync


class Neighbourhoods(Quiet):
    name = "map"

    def __init__(self, handshake: Handshake, sync: Sync) -> None:
        self.handshake = handshake
        sync.forget_stale.append(self._synced)
        self.changed: list[Callable[[float], None]] = []
        # Told the addresses of a parent that is lost and of those beyond it.
        self.parent_lost: Callable[[tuple[str, ...]], None] = lambda addresses: None
        self._sent: dict[Peer, Branch] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        self.master = MasterOverlayMap(core.id, core.settings.overlay.delta)
        core.on(Neighbourhood, self.on_neighbourhood)

    def on_neighbourhood(self, peer: Peer, message: Neighbourhood, now: float) -> None:
        if message.branch[0].broker != peer.id:
            self.core.refuse("branch")
        elif self.master.hear(peer.id, message.branch):
            self._spread(now)

    def behind(self, peer: Remote) -> list[str]:
        """Whom we know behind a neighbour, as far as the map reaches."""
        return [entry.name for entry in self.master.branches.get(peer.id, ())[1:]]

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self._tell(session)

    def link_down(self, session: Session, now: float) -> None:
        self._sent.pop(session, None)  # type: ignore[call-overload]

    def link_lost(self, session: Session, now: float) -> None:
        if not isinstance(session, Peer):
            return
        if session.dialled:
            branch = self.master.branches.get(session.id, ())
            self.parent_lost(tuple(address for entry in branch for address in entry.addresses))
        if self.master.forget(session.id):
            self._spread(now)

    def _synced(self, peer: Peer, now: float) -> None:
        for other in peers_of(self.core).values():
            self._tell(other)

    def _spread(self, now: float) -> None:
        for peer in peers_of(self.core).values():
            self._tell(peer)
        for call in self.changed:
            call(now)

    def _tell(self, peer: Peer) -> None:
        if peer.link is None or self.master.delta == 1:
            return
        core = self.core
        hidden = {peer.id, *(other.id for other in peers_of(core).values() if not other.ever_synced)}
        branch = self.master.branch_for(hidden, Nearby(core.id, core.name, self.handshake.addresses))
        if self._sent.get(peer) != branch:
            self._sent[peer] = branch
            core.tell(Neighbourhood(branch), peer)

    def status(self) -> Status:
        return {"brokers": len(self.master), "delta": self.master.delta}

    def validate(self) -> None:
        self.master.validate()
        assert all(peer.link is not None for peer in self._sent)
