"""What the data path knows of replays: a first broker sends all that is not settled again, oldest first.

A side that is met anew is *unheard* by a publisher: something older may be owed behind it (tree/returned.py).
What is cut here for it makes the first broker replay; when all that was cut has passed in a replay, the side
is heard. Another replay does not count: of one publisher several brokers may have something in custody, where
it was before and where it is now, and each sends its own.

What comes where newer ones were delivered is too late, however often it is sent again: it is told at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from grapevine.wire.messages import CUT_LINK_LOST, CUT_OVERTAKEN, DURABLE, REPLAYED, RESENT, Publication
from overlay.data.routes import Route
from overlay.data.runs import flags_of, look_up
from overlay.links.lane import Lane
from overlay.links.session import Remote
from overlay.links.settling import Settling, cuts_of


class Missed:
    """What somebody did not get who may be owed it."""

    __slots__ = ("cut",)

    def __init__(self) -> None:
        self.cut: dict[int, list[Publication]] = {}  # by reason

    def left_out(self, publication: Publication) -> None:
        """A side that was left out."""
        self.cut.setdefault(CUT_LINK_LOST, []).append(publication)

    def too_late(self, publication: Publication) -> None:
        """A client that had newer ones."""
        reason = CUT_OVERTAKEN if publication.flags & DURABLE else CUT_LINK_LOST
        self.cut.setdefault(reason, []).append(publication)

    def report(self, record: Settling) -> None:
        for reason, publications in self.cut.items():
            record.cuts += cuts_of(publications, reason)
        self.cut.clear()


Unheard = dict[Remote, int]  # the last number that was cut for each; 0: none was


def spared(unheard: Unheard, publication: Publication) -> set[Remote]:
    """Who does not get this one, after those have been taken out whom it makes heard: a replay is for all
    whose wishes are known by now."""
    if not publication.flags & REPLAYED:
        return set(unheard)
    for remote, last in list(unheard.items()):
        if remote.synced and 0 < last <= publication.sequence:
            del unheard[remote]
    return {remote for remote in unheard if not remote.synced}


def cut_for(unheard: Unheard, publication: Publication, without: set[Remote], peers: Iterable[Lane]) -> None:
    for remote in without.intersection(peers):
        unheard[remote] = max(publication.sequence, unheard[remote])


def concerns(unheard: Unheard, run: list[Publication], known: dict[bytes, Route]) -> bool:
    """Whether sides that are unheard make a difference. Mostly not: these are not durable, or for others."""
    flags = flags_of(run)
    if flags & REPLAYED or not flags & DURABLE:
        return bool(flags & REPLAYED)
    routes = dict.fromkeys(look_up(run, known))
    return any(route is None or not unheard.keys().isdisjoint(route.fan.peers) for route in routes)


def withdraw_durable(publications: list[Publication]) -> None:
    """Nothing is kept here, so nothing is durable."""
    for publication in publications:
        publication.flags &= ~DURABLE


def mark_replayed(publications: list[Publication]) -> None:
    """A client sends all again that it does not know to be settled."""
    for publication in publications:
        if publication.flags & RESENT:
            publication.flags |= REPLAYED
