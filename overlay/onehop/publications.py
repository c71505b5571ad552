"""The data path of a dispatcher: what matchers have found goes to the homes, and there to the clients.

Nothing is matched here: an answer names the clients and the labels of their subscriptions. A publication is a
duplicate only where it is delivered (SPEC T5).

A home that a durable publication could not be brought to is *behind* with its publisher: a duplicate is
recognised by the last number there, so nothing newer goes there before that one. It is cut, and stranded if
it is durable, until custody is sent once more, the oldest first (journal/stranded.py). So a durable one that
newer ones have overtaken at a home was not owed there: who wants it has subscribed since.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from grapevine.wire.messages import CUT_LINK_LOST, DURABLE, Batch, HomeBatch, Publication
from overlay.core import Core
from overlay.data.duplicates import OrderedWindow, SeenWindow, Source
from overlay.data.local import LocalSubscriptions
from overlay.data.path import Publications, Used
from overlay.data.router import Router
from overlay.links.lane import Lane
from overlay.links.session import Session
from overlay.links.settling import Settling, cuts_of
from overlay.onehop.cluster import Cluster
from overlay.onehop.matcher import Matching
from overlay.onehop.member import Member
from overlay.onehop.packed import unpack_clients
from overlay.onehop.placing import Placing
from overlay.onehop.stage import Homes


class OneHopPublications(Publications):
    def __init__(
        self,
        router: Router,
        local: LocalSubscriptions,
        ordered: bool,
        cluster: Cluster,
        placing: Placing,
    ) -> None:
        super().__init__(router, local, ordered)
        self.seen: SeenWindow = OrderedWindow() if ordered else SeenWindow()
        self.cluster, self.placing = cluster, placing
        self.matching: Matching | None = None  # of a broker that is a matcher too
        self.behind: dict[Source, set[int]] = {}  # homes; of publishers here, while something is in custody
        self._again: dict[Source, Settling] = {}  # what is being sent once more

    def attach(self, core: Core) -> None:
        super().attach(core)
        self.cluster.giving_up.append(self._giving_up)
        self.router.on_gone.append(self._publisher_gone)

    # --- homes that lack something ----------------------------------------------------------------------

    def miss(self, publications: Iterable[Publication], home: int) -> None:
        """These do not reach that home, whether or not they are for it."""
        if self.keep is None:
            return  # nothing is in custody here
        for publication in publications:
            if publication.flags & DURABLE:
                self.behind.setdefault((publication.publisher, publication.incarnation), set()).add(home)

    def _publisher_gone(self, source: Source) -> None:
        self.behind.pop(source, None)
        self._again.pop(source, None)

    def link_losing(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            self._giving_up(session)

    def _giving_up(self, member: Member) -> None:
        for lane in member.every_lane():
            self.miss(lane.out.between(lane.out.settled + 1, lane.out.end()), member.id)

    def _is_behind(self, home: int, source: Source) -> bool:
        return bool(self.behind) and home in self.behind.get(source, ())

    def _sent_again(self, first: Publication, record: Settling) -> None:
        """From its first one on, what is sent once more goes everywhere again, and what comes later."""
        source = first.publisher, first.incarnation
        if self._again.get(source) is not record:
            self._again[source] = record
            self.behind.pop(source, None)

    def forward(self, peer: Lane, batch: Batch, repeated: int, now: float) -> None:
        """From a publisher's dispatcher, for clients of ours."""
        if not isinstance(batch, HomeBatch):
            self.core.refuse("batch without clients")
            return
        record = Settling(peer.incoming)
        used: Used = []
        peer.received_total += len(batch.publications) - repeated
        for publication, clients in zip(batch.publications[repeated:], batch.clients[repeated:]):
            publication.hops += 1
            self._deliver(peer, publication, clients, record, used, now)
        self.hold(used, peer, record)

    def lane_to(self, home: Member) -> Lane:
        return home

    def release(self, side: Lane, run: list[tuple[Publication, Homes]], record: Settling, now: float) -> None:
        """A client's publications, whose homes are known now, in order."""
        used: Used = []
        if record.again:
            self._sent_again(run[0][0], record)
        for publication, homes in run:
            source = publication.publisher, publication.incarnation
            for home, (incarnation, clients) in homes.items():
                member = self.cluster.get(home)
                if member is None or incarnation < member.incarnation or self._is_behind(home, source):
                    # Given up; or those clients went with its earlier life, but perhaps not its streams.
                    record.cuts += cuts_of([publication], CUT_LINK_LOST)
                    self.miss((publication,), home)
                elif member is self.cluster.itself:
                    self._deliver(side, publication, clients, record, used, now)
                else:
                    lane = self.lane_to(member)
                    lane.out.queue.append(publication)
                    lane.out.ids.append(clients)
                    used.append((lane,))
                    self.forwarded += 1
        sessions = dict.fromkeys(chain.from_iterable(used))
        for session in sessions:
            session.out.hold(record)
        self.core.dirty |= sessions

    def _deliver(
        self,
        side: Lane,
        publication: Publication,
        packed: bytes,
        record: Settling,
        used: Used,
        now: float,
    ) -> None:
        live = self.placing.live  # a matcher may have copies of who has gone
        deliveries = [one for one in unpack_clients(packed) if one[0] in live]
        if not deliveries:
            return
        route = self._route((), None, deliveries, True)
        self._use(route.fan, publication.publisher, used)
        source = publication.publisher, publication.incarnation
        fresh = self.seen.first(source, publication.sequence)
        if fresh:
            route.fan.take_one(publication, route.ids)
            self.delivered += len(deliveries)
        else:
            self.duplicates += len(deliveries)
            if not publication.flags & DURABLE and not self.seen.has(source, publication.sequence):
                record.cuts += cuts_of([publication], CUT_LINK_LOST)
        if source not in self.router.sources:
            self.seen.forget(source)
        if self.log is not None:
            self.log(side, publication, route, fresh, now)
