"""The way in for publications with exclude lists or a plane: a run of one publisher, one list and one plane
is routed on its own.

A batch without either goes to the tree's own data path untouched; so does everything with Delta 1. The stamp
of a plane that this broker knows nothing of is cleared (DECISIONS 19).
"""

from __future__ import annotations

from grapevine.wire import WireError
from grapevine.wire.limits import HOPS
from grapevine.wire.messages import Batch, Publication
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Remote, Session
from overlay.links.settling import Settling
from overlay.softlinks.excludes import NONE, Excluded, Narrowed, take_names
from overlay.tree.duplicates import Source
from overlay.tree.publications import Publications, Used
from overlay.tree.routes import Side

LISTS = 64  # exclude lists of one neighbour whose routes are kept


class Forwarding(Quiet):
    def __init__(self, publications: Publications) -> None:
        self.publications = publications
        self.plane = 0  # the one whose stamp counts here; 0: none
        self._sides: dict[Remote, dict[tuple[Excluded, int], Narrowed]] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        if core.settings.overlay.delta > 1:
            core.forward = self.forward

    def forward(self, peer: Remote, batch: Batch, repeated: int, now: float) -> None:
        if not any(publication.extension or publication.plane for publication in batch.publications):
            self.publications.forward(peer, batch, repeated, now)
            return
        record = Settling(peer.incoming)
        publications = batch.publications[repeated:] if repeated else batch.publications
        peer.received_total += len(publications)
        for publication in publications:
            publication.hops += 1
        if any(publication.hops > HOPS for publication in publications):
            publications = self.publications.too_far(publications, record)
        used: Used = []
        for side, source, run in self._runs(peer, publications):
            known = side.routes.at(self.publications.subscriptions.generation)
            self.publications.route_run(side, run, source, used, known, now)
        self.publications.hold(used, peer, record)

    def _runs(
        self, peer: Remote, publications: list[Publication]
    ) -> list[tuple[Side, Source, list[Publication]]]:
        runs: list[tuple[Side, Source, list[Publication]]] = []
        last: tuple[object, ...] = ()
        for publication in publications:
            if publication.plane != self.plane:
                publication.plane = 0
            key = (
                publication.publisher,
                publication.incarnation,
                publication.extension,
                publication.plane,
            )
            if key != last:
                last = key
                runs.append((self._side(peer, publication), key[:2], []))
            elif publication.extension:
                take_names(publication)
            runs[-1][2].append(publication)
        return runs

    def _side(self, peer: Remote, publication: Publication) -> Side:
        excluded = self._take(publication) if publication.extension else NONE
        if not excluded and not publication.plane:
            return peer
        sides = self._sides.setdefault(peer, {})
        side = sides.get((excluded, publication.plane))
        if side is None:
            if len(sides) >= LISTS:
                sides.clear()
            side = sides[excluded, publication.plane] = Narrowed(peer, excluded, publication.plane)
        return side

    def _take(self, publication: Publication) -> Excluded:
        try:
            return take_names(publication)
        except WireError:  # a driver that hands over what was never decoded
            self.core.refuse("extension")
            return NONE

    def link_lost(self, session: Session, now: float) -> None:
        self._sides.pop(session, None)  # type: ignore[call-overload]
