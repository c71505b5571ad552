"""Links and sessions of a broker: they come up, are suspended without a link, and are lost once.

Every behaviour hears of it, in the order in which the profile lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from overlay.behaviour import Behaviour
from overlay.links.session import Kind, Link, Remote, Session
from overlay.outputs import Outputs

if TYPE_CHECKING:
    from overlay.data.client import Client


class Lifecycle(Outputs):
    def __init__(self) -> None:
        super().__init__()
        self.links: dict[int, Link] = {}
        self.peers: dict[int, Remote] = {}  # the brokers next to this one in the overlay, by id
        self.clients: dict[int, Client] = {}  # by id
        self.numbered: dict[int, Client] = {}  # by session number, the ended ones too
        self.session_numbers = count(1)
        self.behaviours: list[Behaviour] = []
        self.on_transport: Callable[[Link, float], None] | None = None
        self.on_transport_ended: Callable[[Link, float], None] | None = None  # before its handshake did

    def link_up(
        self, number: int, peer: str, kind: Kind, now: float, dial: int = 0, address: str = ""
    ) -> None:
        link = self.links[number] = Link(number, peer, kind, dial, now)
        link.address = address
        if self.on_transport is not None:
            self.on_transport(link, now)

    def link_down(self, number: int, now: float) -> None:
        if (link := self.links.pop(number, None)) is None:
            return
        if link.session is not None and link.session.link is link:
            self.suspend(link.session, now)
        elif link.session is None and self.on_transport_ended is not None:
            self.on_transport_ended(link, now)

    def close(self, link: Link) -> None:
        """Give a link up; what remains of its session is the caller's business."""
        self.links.pop(link.number, None)
        self.out.closes.append(link.number)

    def drop(self, link: Link, reason: str, now: float) -> None:
        """End a link; its session, if it has one, waits for another."""
        if reason:
            self.refuse(reason)
        self.close(link)
        if link.session is not None and link.session.link is link:
            self.suspend(link.session, now)

    def suspend(self, session: Session, now: float) -> None:
        """The session's link is gone. Tables and retention stay; who waits for an answer goes on without,
        unless it is patient."""
        session.link = None
        session.writable = True
        for gather in list(session.gathers):
            gather.suspend(session, now)
        for behaviour in self.behaviours:
            behaviour.link_down(session, now)

    def lose(self, session: Session, now: float) -> None:
        """Give the session up: its positions end as cut, its tables go."""
        if session.lost:
            return
        if (link := session.link) is not None:
            self.suspend(session, now)
            self.close(link)
        for behaviour in self.behaviours:
            behaviour.link_losing(session, now)
        session.lost = True
        if session.lost_timer is not None:
            session.lost_timer.cancel()
        for lane in session.every_lane():
            lane.out.give_up()
            lane.incoming.new_epoch()
        for behaviour in self.behaviours:
            behaviour.link_lost(session, now)
        for gather in list(session.gathers):
            gather.lose(session, now)
