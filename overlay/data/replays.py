"""What the data path knows of replays: a first broker sends all that is not settled again, oldest first.

A side that is met anew is *unheard* by a publisher until a replay of it has passed here: something older may
be owed behind it (tree/returned.py).

What comes where newer ones were delivered is too late, however often it is sent again: it is told at once.
"""

from __future__ import annotations

from grapevine.wire.messages import CUT_LINK_LOST, CUT_OVERTAKEN, DURABLE, REPLAYED, RESENT, Publication
from overlay.data.routes import Route
from overlay.data.runs import flags_of, look_up
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


def concerns(unheard: set[Remote], run: list[Publication], known: dict[bytes, Route]) -> bool:
    """Whether sides that are unheard make a difference. Mostly not: these are not durable, or for others."""
    flags = flags_of(run)
    if flags & REPLAYED or not flags & DURABLE:
        return bool(flags & REPLAYED)
    routes = dict.fromkeys(look_up(run, known))
    return any(route is None or not unheard.isdisjoint(route.fan.peers) for route in routes)


def withdraw_durable(publications: list[Publication]) -> None:
    """Nothing is kept here, so nothing is durable."""
    for publication in publications:
        publication.flags &= ~DURABLE


def mark_replayed(publications: list[Publication]) -> None:
    """A client sends all again that it does not know to be settled."""
    for publication in publications:
        if publication.flags & RESENT:
            publication.flags |= REPLAYED
