"""Straight to the root: a broker keeps a session to the roots it publishes to (`chord.direct`), as Scribe
caches its rendezvous' addresses. The way up is one hop then, whatever the size of the ring.

Who the root of a topic is it finds by a lookup, and looks again now and then. What it believes may be old: an
old root passes on what is no longer its own, a dead one is not connected, and a topic's way changes only when
what is on the old one is settled (path.py, rule U), to this one as from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from grapevine.wire.chord import RingNode
from overlay.chord.membership import Membership
from overlay.core import Core

MOST = 4_096  # topics whose roots are remembered


class DirectRoots:
    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.contacts = membership.contacts
        self.known: dict[int, RingNode | None] = {}  # by topic; None: asked, not answered yet
        self._used: dict[int, None] = {}  # since the last look
        self._looking = False

    def attach(self, core: Core) -> None:
        self.core = core

    def root(self, topic: int) -> RingNode | None:
        """Where this broker may send its publications straight to; None: by the ring's pointers."""
        if not self.membership.settings.direct:
            return None
        now = self.core.now
        if not self._looking:
            self._look_later(now)
        self._used[topic] = None
        if topic not in self.known:
            if len(self.known) >= MOST:
                del self.known[next(iter(self.known))]
            self.known[topic] = None
            self._find(topic, now)
        node = self.known[topic]
        return node if node is not None and self.contacts.connected(node) else None

    def nodes(self) -> Iterator[RingNode]:
        return (node for node in self.known.values() if node is not None)

    def _find(self, topic: int, now: float) -> None:
        def found(node: RingNode, later: float) -> None:
            if topic in self.known and node.broker != self.membership.me.broker:
                self.known[topic] = node
                self.membership.want(node, later)

        self.membership.fingers.find(topic, found, now)

    def _again(self, now: float) -> None:
        """Roots change; topics that nobody publishes any more are forgotten."""
        self._looking = False
        used, self._used = self._used, {}
        self.known = {topic: node for topic, node in self.known.items() if topic in used}
        for topic in self.known:
            self._find(topic, now)
        if self.known:
            self._look_later(now)

    def _look_later(self, now: float) -> None:
        self._looking = True
        self.core.timers.at(now + self.membership.settings.refresh_s, self._again)
