"""Neighbours to be: a link that a broker makes before it moves, and that is of the tree only when it has.

Until `admit` no behaviour hears of it and nothing but the move's own messages travels on it. One that breaks
before is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.wire.messages import Hello, Refuse
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.dialling import Dial
from overlay.links.handshake import STAGED, Handshake
from overlay.links.members import Members
from overlay.links.session import Link, Session
from overlay.tree.peer import Peer


class StagedLinks(Quiet):
    number = STAGED

    def __init__(self, handshake: Handshake, members: Members) -> None:
        self.handshake = handshake
        self.members = members
        self.sessions: dict[int, Peer] = {}
        self.refuses: Callable[[Hello], str] = lambda hello: "nobody moves here"  # "" admits
        handshake.register(self)

    def attach(self, core: Core) -> None:
        self.core = core

    # --- a purpose of links -----------------------------------------------------------------------------

    def offered(self, dial: Dial) -> None:
        return None

    def refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        return Refuse("not-ready", reason) if (reason := self.refuses(hello)) else None

    def accept(self, link: Link, hello: Hello, now: float) -> None:
        self.core.send(self.handshake.hello(hello.epoch, True, None, STAGED), link)
        self._establish(link, hello, dialled=False, now=now)

    def objection(self, hello: Hello) -> None:
        return None

    def answered(self, link: Link, hello: Hello, greeted: Callable[[Any, float], None], now: float) -> None:
        greeted(self._establish(link, hello, dialled=True, now=now), now)

    def _establish(self, link: Link, hello: Hello, *, dialled: bool, now: float) -> Peer:
        core = self.core
        if (old := self.sessions.get(hello.broker)) is not None:
            core.lose(old, now)
        peer = self.sessions[hello.broker] = Peer(core, hello.broker, hello.name)
        self.handshake.establish(peer, link, hello, dialled, now)
        peer.root_path = hello.root_path
        peer.begin_epoch(hello.epoch)
        self.handshake.liveness.watch(peer, link, now)
        return peer

    # --- the move ---------------------------------------------------------------------------------------

    def admit(self, peer: Peer, now: float) -> None:
        """From now on it is a neighbour on the tree."""
        del self.sessions[peer.id]
        self.core.peers[peer.id] = peer
        peer.begin_sync()
        self.members.joined(peer, now)

    def give_up(self, now: float) -> None:
        for peer in list(self.sessions.values()):
            self.core.lose(peer, now)

    def link_lost(self, session: Session, now: float) -> None:
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]
