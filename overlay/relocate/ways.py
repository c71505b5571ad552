"""Where the copies of a traced publication lead on the tree, whichever links carry them (SPEC G4).

Traces are asked for and answered over primary links. A soft link passes the brokers between its ends by, and
a copy with an exclude list is not for all that is behind its receiver; so what a neighbour has seen of a
publication need not be all that happened behind it. A *way* is the primary path to who gets a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grapevine.wire.relocation import Way
from overlay.data.routes import Route, Side
from overlay.links.session import Remote
from overlay.softlinks.excludes import Narrowed
from overlay.softlinks.soft import Soft
from overlay.tree.peer import Peer


def way_to(hop: Remote) -> Way:
    """Nearest first, without us."""
    return hop.path if isinstance(hop, Soft) else (hop.id,)


def whole_side(side: Side) -> Peer | None:
    """The neighbour that a publication came from, if it was for everybody who is here and behind us."""
    if isinstance(side, Narrowed):
        return whole_side(side.session) if not side.excluded else None
    return side if isinstance(side, Peer) else None


def sides_of(route: Route, peers: Mapping[int, Peer]) -> dict[Remote, bool]:
    """The neighbours behind which somebody gets a copy; with each whether one goes to the neighbour itself
    that is for all behind it. A soft link whose neighbour is gone stands for itself."""
    sides: dict[Remote, bool] = {}
    for hop, queue in zip(route.remotes, route.fan.links):
        side = peers.get(hop.path[0], hop) if isinstance(hop, Soft) else hop
        whole = side is hop and queue is hop.out.queue
        sides[side] = whole or sides.get(side, False)
    return sides


def onward(ways: Iterable[Way]) -> dict[int, tuple[bool, tuple[Way, ...]]]:
    """By neighbour, the lowest id first: whether it got a copy itself, and the ways from it to brokers that
    were served past it."""
    served: set[int] = set()
    direct: dict[int, list[Way]] = {}
    for first, *rest in sorted(ways):
        past = direct.setdefault(first, [])
        if rest:
            past.append(tuple(rest))
        else:
            served.add(first)
    return {first: (first in served, tuple(past)) for first, past in direct.items()}
