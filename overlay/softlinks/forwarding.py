"""The way in for publications with exclude lists or a plane: those that follow each other with one list and
one plane are routed on their own.

A batch without either goes to the tree's own data path untouched; so does everything with Delta 1. The stamp
of a plane that this broker knows nothing of is cleared (DECISIONS 19).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from grapevine.wire.messages import Batch, Publication
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.path import Publications, Used
from overlay.data.routes import Side
from overlay.links.exclusions import Names, of_batch, stretches
from overlay.links.lane import Lane
from overlay.links.session import Remote, Session
from overlay.links.settling import Settling
from overlay.softlinks.excludes import Narrowed

LISTS = 64  # exclude lists of one neighbour whose routes are kept
_plane_of = attrgetter("plane")


class Forwarding(Quiet):
    after = ("Publications",)

    def __init__(self, publications: Publications) -> None:
        self.publications = publications
        self.plane = 0  # the one whose stamp counts here; 0: none
        self._sides: dict[Lane, dict[tuple[Names, int], Narrowed]] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        if core.settings.overlay.delta > 1:
            self._forward = core.forward.wrap(self, self.forward)

    def forward(self, peer: Lane, batch: Batch, repeated: int, now: float) -> None:
        exclusions = of_batch(batch, repeated)
        if not exclusions and not any(map(_plane_of, batch.publications)):
            self._forward(peer, batch, repeated, now)
            return
        record = Settling(peer.incoming)
        used: Used = []
        publications = batch.publications[repeated:] if repeated else batch.publications
        for names, stretch in stretches(publications, exclusions):
            for plane, run in self._by_plane(stretch):
                self.publications.take(peer, self._side(peer, names, plane), run, record, used, now)
        self.publications.hold(used, peer, record)

    def _by_plane(self, publications: list[Publication]) -> Iterable[tuple[int, list[Publication]]]:
        if not any(map(_plane_of, publications)):
            return [(0, publications)]
        for publication in publications:
            if publication.plane != self.plane:
                publication.plane = 0
        return [(plane, list(run)) for plane, run in groupby(publications, _plane_of)]

    def _side(self, peer: Lane, names: Names, plane: int) -> Side:
        if not names and not plane:
            return peer
        assert isinstance(peer, Remote)
        sides = self._sides.setdefault(peer, {})
        side = sides.get((names, plane))
        if side is None:
            if len(sides) >= LISTS:
                sides.clear()
            side = sides[names, plane] = Narrowed(peer, frozenset(names), plane)
        return side

    def link_lost(self, session: Session, now: float) -> None:
        self._sides.pop(session, None)
