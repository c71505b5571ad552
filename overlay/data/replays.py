"""What the data path knows of replays: a first broker sends all that is not settled again, oldest first.

A side that is met anew is *unheard* by a publisher until a replay of it has passed here: something older may
be owed behind it (tree/returned.py).
"""

from __future__ import annotations

from grapevine.wire.messages import DURABLE, REPLAYED, RESENT, Publication
from overlay.data.routes import Route
from overlay.data.runs import flags_of, look_up
from overlay.links.session import Remote


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
