"""Named mistakes of a ring (mutants.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.wire.chord import Member
from grapevine.wire.messages import Marks, Publication
from overlay.chord.behind import Behind
from overlay.chord.contacts import RingPeer
from overlay.chord.founding import Founding
from overlay.chord.holders import Holders
from overlay.chord.path import ChordPath
from overlay.chord.rebuilding import Rebuilding
from overlay.chord.roots import Roots
from overlay.chord.ways import Way
from overlay.core import Core
from overlay.journal.journal import Journal
from overlay.links.lane import Lane, share
from overlay.links.session import Remote, Session

Replacement = tuple[type[Any], str, Callable[..., Any]]


def _way_not_settled() -> list[Replacement]:
    """Without rules U and D: a better way is taken at once, whatever is on the old one."""
    real = ChordPath._next

    def following(self: ChordPath, target: int, came: int) -> Lane | None:
        self.next.pop(target, None)
        return real(self, target, came)

    return [(Way, "settled", property(lambda self: True)), (ChordPath, "_next", following)]  # type: ignore[list-item]


def _root_without_copy() -> list[Replacement]:
    """Nobody is told what a root knows."""
    return [(Holders, "choose", lambda self, now: self._check(now))]


def _lost_not_resent() -> list[Replacement]:
    """Without rule F: what was under way to a broker that failed is settled."""

    def losing(self: ChordPath, session: Session, now: float) -> None:
        if isinstance(session, Remote):
            for lane in session.every_lane():
                lane.out.settle(lane.out.end())

    return [(ChordPath, "link_losing", losing)]


def _founding_told_once() -> list[Replacement]:
    """A founder that does not hear of the ring's beginning is not told again, nor by others."""
    real = Founding.remind

    def remind(self: Founding, session: Session) -> None:
        if not self.place.member and self.nodes[:1] == (self.place.me,):
            real(self, session)

    return [(Founding, "remind", remind)]


def _begins_empty() -> list[Replacement]:
    """Roots of a ring that begins again know at once that nobody wants anything."""
    return [(Rebuilding, "founded_again", lambda self, nodes, now: False)]


def _nobody_known() -> list[Replacement]:
    """A broker that does not know a topic's members takes it for one that nobody wants."""

    def is_root(self: Roots, key: int) -> bool:
        return self.membership.is_here(key)

    return [(Roots, "is_root", is_root)]


def _order_of_lanes() -> list[Replacement]:
    """What goes another way takes the lane of the hop that was lost, not the one that it came by."""
    real = ChordPath.down

    def down(self: ChordPath, run: list[Publication], targets: Any, came: int, *rest: Any) -> list[Lane]:
        resent = came == 2 and self.core.random.random() < 0.5
        return real(self, run, targets, 3 if resent else came, *rest)

    return [(ChordPath, "down", down)]


def _one_lane() -> list[Replacement]:
    """The lanes of a session share one window: what goes round waits for itself."""
    taken = Lane.take_marks

    def flowing(self: Session) -> bool:
        open = self.link is not None and self.writable
        if not open or not isinstance(self, RingPeer):
            return open
        under_way = sum(lane.out.sent - lane.out.settled for lane in self.every_lane())
        return under_way < share(self.core.settings.links.window)

    def take_marks(self: Lane, marks: Marks) -> None:
        taken(self, marks)
        if isinstance(self.session, RingPeer):  # there may be room for the others now
            for lane in self.session.every_lane():
                lane.touch()

    return [(Session, "flowing", property(flowing)), (Lane, "take_marks", take_marks)]  # type: ignore[list-item]


def _stream_forgotten() -> list[Replacement]:
    """A root forgets a member with streams like any other that cannot be reached."""

    def lose(self: Roots, key: int, member: Member, now: float) -> None:
        self.remove(key, member.position, member.incarnation, member.number)

    return [(Roots, "lose", lose)]


def _newer_first() -> list[Replacement]:
    """Who lacks a durable publication gets newer ones of that publisher and topic before it."""
    return [(Behind, "_miss", lambda self, key, missed, now: None)]


def _stream_by_publisher() -> list[Replacement]:
    """A stream takes what comes behind a newer one of its publisher for a duplicate, of whatever topic."""
    real = Journal.attach

    def attach(self: Journal, core: Core) -> None:
        self.topic = None
        real(self, core)

    return [(Journal, "attach", attach)]


RING_MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "ring-one-lane": _one_lane,
    "ring-way-not-settled": _way_not_settled,
    "ring-root-without-copy": _root_without_copy,
    "ring-lost-not-resent": _lost_not_resent,
    "ring-founding-told-once": _founding_told_once,
    "ring-begins-empty": _begins_empty,
    "ring-nobody-known": _nobody_known,
    "ring-lane-changed": _order_of_lanes,
    "ring-stream-forgotten": _stream_forgotten,
    "ring-newer-first": _newer_first,
    "ring-stream-by-publisher": _stream_by_publisher,
}
