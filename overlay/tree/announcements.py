"""SPEC T2, ARCHITECTURE "Confirmations": what was announced on each link and who waits for the answer.

Every Advertise and Subscribe on a link carries a stamp; the neighbour answers Confirmed(stamp) when
every broker behind it that must know knows. A broken link discharges what was open on it; after it
returns everything is announced again under new stamps.
"""

from __future__ import annotations

from grapevine.wire.messages import Confirmed
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.gather import Gather
from overlay.links.session import Peer, Session
from overlay.links.sync import Sync


class Announcement:
    """One item told to one neighbour."""

    __slots__ = ("confirmed", "counted", "stamp", "waiters")

    def __init__(self, stamp: int, counted: bool) -> None:
        self.stamp = stamp
        self.confirmed = False
        self.counted = counted  # a SyncDone waits for it
        self.waiters: list[tuple[int, Gather]] = []  # with the number of the item it is about

    def notify(self, number: int, gather: Gather | None, peer: Peer) -> None:
        """Let `gather` wait for this confirmation on behalf of item `number`, if it is still to come."""
        if gather is not None and not self.confirmed:
            gather.wait_for(peer)
            self.waiters.append((number, gather))


class Announcements(Quiet):
    """Stamps and confirmations of all links; advertisements and subscriptions share them."""

    def __init__(self, sync: Sync) -> None:
        self.sync = sync
        self._stamp = 0
        self._open: dict[Peer, dict[int, Announcement]] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Confirmed, self.on_confirmed)

    def new(self, peer: Peer) -> Announcement:
        self._stamp += 1
        counted = not peer.synced_by_us
        peer.sync_pending += counted
        announcement = Announcement(self._stamp, counted)
        self._open.setdefault(peer, {})[self._stamp] = announcement
        return announcement

    def withdraw(self, peer: Peer, announcement: Announcement, now: float) -> None:
        """The item is retracted: nobody waits for it any more."""
        self._close(peer, announcement.stamp, now)

    def on_confirmed(self, peer: Peer, message: Confirmed, now: float) -> None:
        self._close(peer, message.stamp, now)

    def _close(self, peer: Peer, stamp: int, now: float) -> None:
        announcement = self._open.get(peer, {}).pop(stamp, None)
        if announcement is None:
            return
        announcement.confirmed = True
        waiters, announcement.waiters = announcement.waiters, []
        for _, gather in waiters:
            gather.answer(peer, None, now)
        if announcement.counted and peer.sync_pending:
            peer.sync_pending -= 1
            self.sync.check(peer, now)

    def all_confirmed(self, peer: Peer) -> bool:
        """Whether it has confirmed everything that it was told."""
        return not self._open.get(peer)

    def confirmation(self, peer: Peer, stamp: int) -> Gather:
        """Answers the neighbour's announcement `stamp` when all that it waits for is confirmed."""
        link, number = peer.link, peer.sync_number
        counted = not peer.synced_by_us
        peer.sync_pending += counted

        def confirm(gather: Gather, now: float) -> None:
            if peer.link is not link or link is None:
                return
            self.core.send(Confirmed(stamp), link)
            if counted and peer.sync_number == number and peer.sync_pending:
                peer.sync_pending -= 1
                self.sync.check(peer, now)

        return Gather(confirm)

    def link_down(self, session: Session, now: float) -> None:
        self._open.pop(session, None)  # type: ignore[call-overload]

    def validate(self) -> None:
        for peer in self._open:
            assert peer.link is not None or not self._open[peer], peer
