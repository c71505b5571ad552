"""Sessions between brokers of one overlay: one for each pair, resumed after a break (DECISIONS 9, 12).

The overlay says what a session is (`make`), whom it refuses, and what it does when a session comes up
(`met`). A link that ends suspends the session; after `lost_after_s` it is given up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.wire.messages import Hello, Refuse
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.dialling import Dial
from overlay.links.handshake import MEMBER, Handshake
from overlay.links.session import Kind, Link, Remote, Session

Make = Callable[[Core, int, str], Remote]
Refuses = Callable[[Hello], Refuse | None]
Met = Callable[[Remote, Hello, float], None]  # before any behaviour hears of the link


class Members(Quiet):
    name = "links"
    number = MEMBER
    after = ("Handshake", "Neighbours")

    def __init__(self, handshake: Handshake, make: Make, refuses: Refuses, met: Met) -> None:
        self.handshake = handshake
        self.make = make
        self.refuses = refuses
        self.met = met
        self.permits: Callable[[Hello, float], Refuse | None] = lambda hello, now: (
            None
        )  # None: it may come in
        self.objects: Callable[[int], str] = lambda broker: ""  # why we do not want this one's answer
        handshake.register(self)

    def attach(self, core: Core) -> None:
        self.core = core

    # --- a purpose of links -----------------------------------------------------------------------------

    def offered(self, dial: Dial) -> Remote | None:
        """The suspended session that the dialled addresses belong to."""
        for peer in self.core.peers.values():
            if peer.dialled and peer.link is None and set(peer.addresses) & set(dial.addresses):
                return peer
        return None

    def refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        peer = self.core.peers.get(hello.broker)
        if peer is not None and peer.incarnation == hello.incarnation and hello.epoch < peer.greeted:
            # It was on its way for long, and who sent it has dialled again since: nobody is at the other end.
            return Refuse("late", f"{hello.name} has greeted {self.core.name} again since")
        if (refusal := self.refuses(hello) or self.permits(hello, now)) is not None:
            return refusal
        if peer is None or peer.link is None or peer.link is link:
            return None
        if peer.incarnation != hello.incarnation:
            return self.handshake.liveness.challenge(peer, peer.link, hello.incarnation, now)
        if peer.dialled and self.core.id < hello.broker:
            return Refuse("twice", f"{self.core.name} has dialled {hello.name}")
        return None

    def accept(self, link: Link, hello: Hello, now: float) -> None:
        peer = self.core.peers.get(hello.broker)
        shared = (
            peer is not None
            and hello.resume is not None
            and peer.epoch == hello.resume.epoch
            and peer.incarnation == hello.incarnation
        )
        epoch = peer.epoch if peer is not None and shared else hello.epoch
        self.core.send(self.handshake.hello(epoch, True, peer if shared else None), link)
        peer = self._establish(link, hello, epoch, shared, dialled=False, now=now)
        peer.greeted = hello.epoch
        self.joined(peer, now)

    def objection(self, hello: Hello) -> tuple[str, str] | None:
        peer = self.core.peers.get(hello.broker)
        if why := self.objects(hello.broker):
            return "going", why
        if peer is not None and peer.link is not None and not peer.dialled and hello.broker < self.core.id:
            return "twice", f"{hello.name} has dialled us"
        if hello.resume is not None and not self._shared(peer, hello):
            # The session that we offered to resume was lost while the answer was on its way.
            return "forgotten", f"{hello.name} resumes what we have given up"
        return None

    def answered(self, link: Link, hello: Hello, greeted: Callable[[Any, float], None], now: float) -> None:
        shared = self._shared(self.core.peers.get(hello.broker), hello)
        peer = self._establish(link, hello, hello.epoch, shared, dialled=True, now=now)
        greeted(peer, now)
        self.joined(peer, now)

    @staticmethod
    def _shared(peer: Remote | None, hello: Hello) -> bool:
        return peer is not None and hello.resume is not None and hello.epoch == peer.epoch

    # --- the session ------------------------------------------------------------------------------------

    def _establish(
        self, link: Link, hello: Hello, epoch: int, shared: bool, *, dialled: bool, now: float
    ) -> Remote:
        core = self.core
        peer = core.peers.get(hello.broker)
        if peer is None:
            peer = core.peers[hello.broker] = self.make(core, hello.broker, hello.name)
        if (old := peer.link) is not None and old is not link:
            core.close(old)
            core.suspend(peer, now)
        if peer.lost_timer is not None:
            peer.lost_timer.cancel()
        self.handshake.establish(peer, link, hello, dialled, now)
        if shared and hello.resume is not None:
            peer.resume(hello.resume, hello.resumes)
        else:
            peer.begin_epoch(epoch)
        self.met(peer, hello, now)
        self.handshake.liveness.watch(peer, link, now)
        return peer

    def joined(self, peer: Remote, now: float) -> None:
        self.handshake.announce(peer, now)
        for lane in peer.every_lane():
            lane.touch()

    def link_down(self, session: Session, now: float) -> None:
        if session.kind is Kind.PEER:
            lost_at = now + self.core.settings.links.lost_after_s
            session.lost_timer = self.core.timers.at(lost_at, lambda later: self.core.lose(session, later))

    def link_lost(self, session: Session, now: float) -> None:
        if self.core.peers.get(session.id) is session:
            del self.core.peers[session.id]

    # --- what it looks like -----------------------------------------------------------------------------

    def status(self) -> Status:
        return {"peers": [self._row(peer) for peer in self.core.peers.values()]}

    def _row(self, peer: Remote) -> Status:
        lanes = peer.every_lane()
        return {
            "name": peer.name,
            "state": "suspended" if peer.link is None else "ready" if peer.synced else "syncing",
            "parent": peer.dialled,
            "round_trip_ms": round(peer.round_trip_s * 1000, 3) or None,  # none before the first pong
            "sent": sum(lane.out.sent for lane in lanes),
            "received": sum(lane.received_total for lane in lanes),
            "unsettled": sum(lane.out.unsettled for lane in lanes),
            "addresses": list(peer.addresses),
        }

    def validate(self) -> None:
        for peer in self.core.peers.values():
            assert not peer.lost, peer
            assert peer.link is None or peer.link.session is peer, peer
            for lane in peer.every_lane():
                out, incoming = lane.out, lane.incoming
                assert out.settled <= out.received <= out.sent < out.next, lane
                assert incoming.settled <= incoming.received, lane
