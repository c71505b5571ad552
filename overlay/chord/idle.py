"""Links that nobody needs are closed: a ring's brokers know few others, and meet many on the way.

A broker needs a link to who is on its lists, fingers included, to the roots it publishes straight to, to its
cluster, and to who is given topics by it or gives them. Who has needed a link for nothing for `chord.idle_s`
asks the other side; that one closes it if it needs it neither and nothing is under way, and says so. Nobody
is dead for that: who is wanted again is dialled again.

States of a link here: needed, unneeded (since when), asked. Asked ends with the answer, or with the link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grapevine.wire.chord import RingIdle, RingNode
from overlay.behaviour import Quiet, Status
from overlay.chord.contacts import RingContacts, RingPeer
from overlay.core import Core
from overlay.links.session import Session

ASK, YES, NO = range(3)
LOOKS = 4  # within idle_s


class IdleLinks(Quiet):
    name = "idle"
    before = ("Membership",)

    def __init__(self, contacts: RingContacts, at_rest: Callable[[], bool]) -> None:
        self.contacts = contacts
        self.at_rest = at_rest  # on the ring, and no reconfiguration
        self.reasons: list[Callable[[], Iterable[RingNode]]] = []  # who is needed
        self.closed = 0
        self._unneeded: dict[int, float] = {}  # brokers, since when

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(RingIdle, self.on_idle)

    def start(self, now: float) -> None:
        self.core.timers.at(now + self.contacts.settings.idle_s / LOOKS, self._again)

    def _again(self, now: float) -> None:
        self.start(now)
        needed = {node.broker for node in self.needed()}
        peers = {peer.id: peer for peer in self._peers() if self._unused(peer, needed)}
        self._unneeded = {broker: self._unneeded.get(broker, now) for broker in peers}
        for broker, since in self._unneeded.items():
            if now - since >= self.contacts.settings.idle_s:
                self._unneeded[broker] = now  # if there is no answer, once more after as long
                peers[broker].idle = True
                self.core.tell(RingIdle(ASK), peers[broker])

    def needed(self) -> list[RingNode]:
        return [node for reason in self.reasons for node in reason()]

    def _peers(self) -> list[RingPeer]:
        found = [peer for peer in self.core.peers.values() if isinstance(peer, RingPeer)]
        return [peer for peer in found if peer.link is not None] if self.at_rest() else []

    def _unused(self, peer: RingPeer, needed: set[int]) -> bool:
        busy = any(lane.out.unsettled or lane.incoming.records for lane in peer.every_lane())
        return peer.id not in needed and not peer.gathers and not busy

    def on_idle(self, session: Session, idle: RingIdle, now: float) -> None:
        if not isinstance(session, RingPeer):
            return
        if idle.word == NO:
            session.idle = False
        elif idle.word == YES and session.idle:
            self._close(session, now)
        elif idle.word == ASK:
            needed = {node.broker for node in self.needed()}
            unneeded = session in self._peers() and self._unused(session, needed)
            self.core.tell(RingIdle(YES if unneeded else NO), session)
            if unneeded:
                session.idle = True
                self._close(session, now)

    def _close(self, session: RingPeer, now: float) -> None:
        self.closed += 1
        self._unneeded.pop(session.id, None)
        self.core.lose(session, now)
        for node in self.needed():  # since we asked
            if node.broker == session.id:
                self.contacts.want(node, now)

    def link_up(self, session: Session, now: float) -> None:
        """What was asked may be lost: it is asked again."""
        if isinstance(session, RingPeer):
            session.idle = False

    def status(self) -> Status:
        return {"closed": self.closed}
