"""DECISIONS 18: exclude lists, and what stands before a queue.

A list names brokers. Who gets the publication serves no anchor whose primary path passes one of them, and
passes a name on to copies whose target lies before that broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from grapevine.wire.messages import Publication
from matching.routes import RouteCache
from overlay.links.outgoing import Outgoing
from overlay.links.session import Remote

Excluded = frozenset[int]
NONE: Excluded = frozenset()


class Narrowed:
    """A neighbour's publications that exclude certain brokers or are in a plane: routed, and cached, on their
    own."""

    __slots__ = ("excluded", "name", "plane", "routes", "session")

    def __init__(self, session: Remote, excluded: Excluded, plane: int = 0) -> None:
        self.session = session
        self.name = session.name
        self.excluded = excluded
        self.plane = plane
        self.routes = RouteCache()


class Stamped:
    """The queue of a link whose publications leave with an exclude list."""

    __slots__ = ("names", "out", "sorted")

    def __init__(self, out: Outgoing, names: Excluded) -> None:
        self.out = out
        self.names = names
        self.sorted = tuple(sorted(names))

    def append(self, publication: Publication, /) -> None:
        self.out.exclude((publication,), self.sorted)

    def __iadd__(self, publications: Iterable[Publication], /) -> Stamped:
        self.out.exclude(publications, self.sorted)
        return self


class Tap:
    """Counts what a candidate link would have carried."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def append(self, publication: Publication, /) -> None:
        self.count += 1

    def __iadd__(self, publications: Iterable[Publication], /) -> Tap:
        self.count += sum(1 for _ in publications)
        return self
