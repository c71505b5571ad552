"""SPEC T1: who may be a neighbour on the tree.

A broker's place is its root path, itself first; greetings and pings carry it, and it reveals a cycle before
the link would close one. Who leaves the overlay takes no new neighbour, unless in the place of another that
leaves as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grapevine.wire.messages import Hello, Refuse
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.handshake import Handshake
from overlay.links.members import Members
from overlay.links.session import Remote, Session
from overlay.tree.peer import Peer
from overlay.tree.staged_links import StagedLinks


class Neighbours(Quiet):
    def __init__(self, handshake: Handshake) -> None:
        self.handshake = handshake
        self.members = Members(handshake, Peer, self._refusal, self._met)
        self.staged = StagedLinks(handshake, self.members)
        self.heirs_of: Mapping[int, object] = {}  # in the place of these, who leave, new ones are taken
        self.came: Callable[[Peer, Hello, float], None] = lambda peer, hello, now: None
        self.closed = False  # not even an old one whose link broke is taken
        self.root_path: Callable[[], tuple[int, ...]] = lambda: (self.core.id,)
        self.moved_root: Callable[[Peer, float], None] = lambda peer, now: None
        handshake.liveness.place = lambda: self.root_path()
        handshake.liveness.placed = self._placed

    def attach(self, core: Core) -> None:
        self.core = core

    def _refusal(self, hello: Hello) -> Refuse | None:
        core = self.core
        heir = hello.replaces in self.heirs_of
        if not heir and (self.closed or (core.leaving and hello.broker not in core.peers)):
            return Refuse("leaving", f"{core.name} is leaving the overlay")
        if hello.broker in self.root_path()[1:]:
            return Refuse("cycle", f"{core.name} is below {hello.name}: dialling it would close a cycle")
        return None

    def _met(self, session: Remote, hello: Hello, now: float) -> None:
        assert isinstance(session, Peer)
        session.root_path = hello.root_path
        session.begin_sync()
        self.came(session, hello, now)

    def whole(self) -> bool:
        """Whether everybody behind a link is known and can be reached."""
        return all(isinstance(peer, Peer) and peer.whole for peer in self.core.peers.values())

    def _placed(self, session: Session, root_path: tuple[int, ...], now: float) -> None:
        if isinstance(session, Peer) and root_path != session.root_path:
            session.root_path = root_path
            self.moved_root(session, now)

    def link_down(self, session: Session, now: float) -> None:
        """First of all: what others do then must find it so."""
        if isinstance(session, Peer):
            session.end_sync()
