"""Roots that were given up, and whose topics we took. One of them may have been silent only: stopped for a
while with its machine, or cut off. What it knows is old then, and it is told so: it comes onto the ring as
another node and is given what we know."""

from __future__ import annotations

from typing import Protocol

from grapevine.wire.chord import MemberGone, RingNode
from overlay.chord.contacts import LIVES
from overlay.core import Core
from overlay.links.session import Session

MOST = 100


class Teller(Protocol):
    """By which plane it is told."""

    @property
    def core(self) -> Core: ...


class Followed:
    def __init__(self, teller: Teller) -> None:
        self.teller = teller
        self._nodes: dict[RingNode, None] = {}

    def add(self, node: RingNode) -> None:
        self._nodes[node] = None
        if len(self._nodes) > MOST:
            del self._nodes[next(iter(self._nodes))]

    def link_up(self, session: Session) -> None:
        for node in self._nodes:
            if node.broker == session.id and node.incarnation >> LIVES == session.incarnation:
                self.tell(node, session)

    def tell(self, node: RingNode, session: Session) -> bool:
        """If it is one of them."""
        if node not in self._nodes:
            return False
        self.teller.core.tell(MemberGone(node.position, node.incarnation, (), 0), session)
        return True
