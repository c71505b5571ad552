"""SPEC T3: which subscriptions are announced to one neighbour, and which need not be.

A subscription is suppressed on a link only by an announced one that covers it *and has the same anchor
at the receiver*: with soft links the receiver sends to anchors, so a coverer behind another anchor
would serve the wrong place. So would one that leads to the same anchor by another way, as of a side that is
lost: the whole path is compared. When a coverer goes, those it suppressed are announced before it is
withdrawn, so that no publication falls between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.gather import Gather
from overlay.tree.announcements import Announcement
from overlay.tree.peer import Peer

Path = tuple[int, ...]  # the anchor first


class Announced:
    """The state of one link. Numbers are subscriptions of the broker's table. `send` and `withdraw` send;
    `covering` and `covered` ask the index; `path` is the one that the receiver would see."""

    def __init__(
        self,
        peer: Peer,
        send: Callable[[int, Peer], Announcement],
        withdraw: Callable[[int, Peer, Announcement, float], None],
        covering: Callable[[int], Iterable[int]],
        covered: Callable[[int], Iterable[int]],
        path: Callable[[int], Path],
    ) -> None:
        self.peer = peer
        self.announcements: dict[int, Announcement] = {}
        self.paths: dict[int, Path] = {}  # of what is announced: the path that it was announced with
        self.coverer: dict[int, int] = {}  # suppressed -> the announced one that covers it
        self.covers: dict[int, dict[int, None]] = {}
        self._send = send
        self._withdraw = withdraw
        self._covering = covering
        self._covered = covered
        self._path = path

    def __contains__(self, number: int) -> bool:
        return number in self.announcements or number in self.coverer

    def add(self, number: int, gather: Gather | None, now: float) -> None:
        """The neighbour must know this subscription, itself or by a coverer."""
        if number not in self:
            coverer = self._find_coverer(number)
            if coverer is None:
                self._announce(number, now)
            else:
                self._suppress(number, coverer)
        self.announcement_of(number).notify(number, gather, self.peer)

    def confirmed(self) -> list[int]:
        """What the neighbour is known to know, itself or by a coverer."""
        known = (*self.announcements, *self.coverer)
        return [number for number in known if self.announcement_of(number).confirmed]

    def wait(self, number: int, gather: Gather) -> None:
        """Let `gather` wait for what has been announced already."""
        if number in self:
            self.announcement_of(number).notify(number, gather, self.peer)

    def remove(self, number: int, now: float) -> None:
        """The neighbour need not know it any more."""
        if (coverer := self.coverer.pop(number, None)) is not None:
            del self.covers[coverer][number]
        elif (announcement := self.announcements.pop(number, None)) is not None:
            del self.paths[number]
            self._adopt(self.covers.pop(number, {}), announcement, now)
            self._withdraw(number, self.peer, announcement, now)

    def repeat(self, number: int, now: float) -> None:
        """Its path has changed: send it anew, and whoever it covered under another path again too."""
        if (coverer := self.coverer.pop(number, None)) is not None:
            del self.covers[coverer][number]
            self.add(number, None, now)
        elif (old := self.announcements.get(number)) is not None:
            announcement = self.announcements[number] = self._send(number, self.peer)
            announcement.waiters, old.waiters = old.waiters, []
            path = self._path(number)
            if self.paths[number] != path:
                self.paths[number] = path
                self._adopt(self.covers.pop(number, {}), announcement, now)

    def _adopt(self, orphans: dict[int, None], former: Announcement, now: float) -> None:
        """Announce what a coverer suppressed; who waited for the coverer's confirmation on their behalf
        waits for theirs."""
        for orphan in orphans:
            del self.coverer[orphan]
        for orphan in orphans:
            self.add(orphan, None, now)
        waiters, former.waiters = former.waiters, []
        for number, gather in waiters:
            if number not in orphans:
                former.waiters.append((number, gather))
            elif (announcement := self.announcement_of(number)).confirmed:
                gather.answer(self.peer, None, now)
            else:
                announcement.waiters.append((number, gather))

    def announcement_of(self, number: int) -> Announcement:
        """What stands for it: its own announcement or its coverer's."""
        return self.announcements[self.coverer.get(number, number)]

    def _find_coverer(self, number: int) -> int | None:
        path = self._path(number)
        for other in self._covering(number):
            if other != number and other in self.announcements and self.paths[other] == path:
                return other
        return None

    def _announce(self, number: int, now: float) -> None:
        """Tell it, then withdraw what it makes superfluous."""
        announcement = self.announcements[number] = self._send(number, self.peer)
        path = self.paths[number] = self._path(number)
        for other in self._covered(number):
            if other != number and other in self.announcements and self.paths[other] == path:
                self._supersede(other, number, announcement, now)

    def _supersede(self, other: int, number: int, announcement: Announcement, now: float) -> None:
        old = self.announcements.pop(other)
        del self.paths[other]
        announcement.waiters += old.waiters
        old.waiters = []
        for suppressed in self.covers.pop(other, ()):
            self._suppress(suppressed, number)
        self._suppress(other, number)
        self._withdraw(other, self.peer, old, now)

    def _suppress(self, number: int, coverer: int) -> None:
        self.coverer[number] = coverer
        self.covers.setdefault(coverer, {})[number] = None

    def validate(self) -> None:
        assert not self.announcements.keys() & self.coverer.keys(), self.peer
        assert self.paths.keys() == self.announcements.keys(), self.peer
        for number, coverer in self.coverer.items():
            assert coverer in self.announcements and number in self.covers[coverer], (self.peer, number)
