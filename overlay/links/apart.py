"""Neighbours to be: a link that a broker makes before it moves, and that is of the tree only when it has.

Until `admit` no behaviour hears of it and nothing but the move's own messages travels on it. One that breaks
before is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grapevine.wire.messages import Hello, Refuse
from overlay.links.session import Link, Peer

if TYPE_CHECKING:
    from overlay.links.greeting import Greeting


class Apart:
    def __init__(self, greeting: Greeting) -> None:
        self.greeting = greeting
        self.sessions: dict[int, Peer] = {}
        self.refusal: Callable[[Hello], str] = lambda hello: "nobody moves here"  # "" admits

    def on_hello(self, link: Link, hello: Hello, now: float) -> None:
        core = self.greeting.core
        refusal = self.greeting.mismatch(hello)
        if refusal is None and (reason := self.refusal(hello)):
            refusal = Refuse("not-ready", reason)
        if refusal is not None:
            core.send(refusal, link)
            core.close(link)
        else:
            core.send(self.greeting.hello(hello.epoch, True, None, apart=True), link)
            self.establish(link, hello, dialled=False, now=now)

    def establish(self, link: Link, hello: Hello, *, dialled: bool, now: float) -> Peer:
        core = self.greeting.core
        if (old := self.sessions.get(hello.broker)) is not None:
            core.lose(old, now)
        peer = self.sessions[hello.broker] = Peer(core, hello.broker, hello.name)
        core.names[hello.broker] = hello.name
        link.session, peer.link = peer, link
        peer.incarnation, peer.addresses, peer.window = hello.incarnation, hello.addresses, hello.window
        peer.root_path, peer.epoch, peer.dialled = hello.root_path, hello.epoch, dialled
        peer.out.new_epoch(hello.window)
        self.greeting.watch(peer, link, now)
        return peer

    def admit(self, peer: Peer, now: float) -> None:
        """From now on it is a neighbour on the tree."""
        del self.sessions[peer.id]
        self.greeting.core.peers[peer.id] = peer
        peer.begin_sync()
        self.greeting.joined(peer, now)

    def give_up(self, now: float) -> None:
        for peer in list(self.sessions.values()):
            self.greeting.core.lose(peer, now)
