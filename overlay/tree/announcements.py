"""SPEC T2, ARCHITECTURE "Confirmations": what was announced on each link and who waits for the answer.

Every Advertise and Subscribe on a link carries a stamp; the neighbour answers Confirmed(stamp) when
every broker behind it that must know knows. After a broken link returns everything is announced again under
new stamps; who waited for a confirmation of that side waits for the new one, or for the side's loss. So does
who asks while the link is broken, unless that side has confirmed the same before: it has kept it.

A broker that has restarted does not know yet who publishes behind neighbours that have not told their tables:
it confirms no subscription before (the rule *unknown-confirms-late* of tests/model). Nobody waits with
telling tables, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.messages import Confirmed
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.tree.peer import Peer, peers_of
from overlay.tree.sync import Sync

Find = Callable[[Peer, int], "Announcement | None"]  # what stands for an item on a link now


class Announcement:
    """One item announced to one neighbour."""

    __slots__ = ("confirmed", "counted", "find", "stamp", "waiters")

    def __init__(self, stamp: int, counted: bool, find: Find) -> None:
        self.stamp = stamp
        self.find = find
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
        self._awaited: dict[Peer, list[tuple[Find, int, Gather]]] = {}  # until the link is back
        self._unheard: dict[Peer, list[tuple[Find, int, Gather]]] = {}  # until it has told its tables
        sync.tables_in.append(self._heard)
        sync.announced.append(self._resume)
        sync.forget_stale.append(self._discharge)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Confirmed, self.on_confirmed)

    def new(self, peer: Peer, find: Find) -> Announcement:
        self._stamp += 1
        counted = not peer.synced_by_us
        peer.sync_pending += counted
        announcement = Announcement(self._stamp, counted, find)
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
        """Whether it has confirmed everything that was announced to it."""
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

        return Gather(confirm, patient=True)

    def before_sync(self, peer: Peer) -> Gather:
        """Our SyncDone to this neighbour waits for what this gather waits for."""
        number = peer.sync_number
        peer.sync_pending += 1

        def done(gather: Gather, now: float) -> None:
            if peer.sync_number == number and peer.sync_pending:
                peer.sync_pending -= 1
                self.sync.check(peer, now)

        return Gather(done, patient=True)

    # --- neighbours that have not told their tables -------------------------------------------------

    def await_tables(self, source: Peer, find: Find, number: int, gather: Gather) -> None:
        """Item `number` of `source` may have to be announced to whoever has not told its tables yet."""
        for peer in peers_of(self.core).values():
            if peer is not source and not (peer.ever_synced or peer.tables_received or peer.going):
                gather.wait_for(peer)
                self._unheard.setdefault(peer, []).append((find, number, gather))

    def _heard(self, peer: Peer, now: float) -> None:
        for find, number, gather in self._unheard.pop(peer, ()):
            if not self._transfer(peer, find, number, gather, now):
                gather.answer(peer, None, now)

    # --- broken links ---------------------------------------------------------------------------------

    def await_return(self, peer: Peer, find: Find, number: int, gather: Gather) -> None:
        """Item `number` is to be announced there as soon as the link is back."""
        gather.wait_for(peer)
        self._awaited.setdefault(peer, []).append((find, number, gather))

    def reconsider(self, peer: Peer, find: Find, due: Callable[[int], bool], now: float) -> None:
        """Of what is to be announced there when its link is back, some may not be due any more."""
        awaited = self._awaited.pop(peer, [])
        if left := [one for one in awaited if one[0] != find or due(one[1])]:
            self._awaited[peer] = left
        for how, number, gather in awaited:
            if how == find and not due(number):
                self._wait_on(how, number, gather)
                gather.answer(peer, None, now)

    def _wait_on(self, find: Find, number: int, gather: Gather) -> None:
        """Who waits for one that is away waits for those who were told since in its place: nobody was asked
        for this answer when they were."""
        for peer in self._open:
            if (announcement := find(peer, number)) is not None:
                announcement.notify(number, gather, peer)

    def link_losing(self, session: Session, now: float) -> None:
        for waiting in self._awaited.get(session, ()):  # type: ignore[call-overload]
            self._wait_on(*waiting)

    def link_down(self, session: Session, now: float) -> None:
        if not isinstance(session, Peer):
            return
        for announcement in self._open.pop(session, {}).values():
            for number, gather in announcement.waiters:
                self._awaited.setdefault(session, []).append((announcement.find, number, gather))

    def _resume(self, peer: Peer, now: float) -> None:
        """The link is back, and everything has been announced on it."""
        awaited = self._awaited.pop(peer, [])
        left = [waiting for waiting in awaited if not self._transfer(peer, *waiting, now)]
        if left:
            self._awaited[peer] = left

    def _transfer(self, peer: Peer, find: Find, number: int, gather: Gather, now: float) -> bool:
        announcement = find(peer, number)
        if announcement is None:
            return False
        if announcement.confirmed:
            gather.answer(peer, None, now)
        else:
            announcement.waiters.append((number, gather))
        return True

    def _discharge(self, peer: Peer, now: float) -> None:
        """It has said SyncDone: what it was not told it need not know."""
        self._resume(peer, now)
        for _, _, gather in self._awaited.pop(peer, ()):
            gather.answer(peer, None, now)

    def link_lost(self, session: Session, now: float) -> None:
        self._awaited.pop(session, None)  # type: ignore[call-overload]
        self._unheard.pop(session, None)  # type: ignore[call-overload]

    def validate(self) -> None:
        for peer in self._open:
            assert peer.link is not None or not self._open[peer], peer
