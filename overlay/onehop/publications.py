"""The data path of a dispatcher: what matchers have found goes to the homes, and there to the clients.

Nothing is matched here: an answer names the clients and the labels of their subscriptions. A publication is a
duplicate only where it is delivered (SPEC T5).
"""

from __future__ import annotations

from itertools import chain

from grapevine.wire.messages import CUT_LINK_LOST, Batch, HomeBatch, Publication
from overlay.data.duplicates import OrderedWindow, SeenWindow
from overlay.data.local import LocalSubscriptions
from overlay.data.path import Publications, Used
from overlay.data.router import Router
from overlay.links.lane import Lane
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
        for publication, homes in run:
            for home, (incarnation, clients) in homes.items():
                member = self.cluster.get(home)
                if member is None:
                    record.cuts += cuts_of([publication], CUT_LINK_LOST)
                elif incarnation < member.incarnation:
                    continue  # these clients went with its earlier life
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
            if not self.seen.has(source, publication.sequence):
                record.cuts += cuts_of([publication], CUT_LINK_LOST)
        if source not in self.router.sources:
            self.seen.forget(source)
        if self.log is not None:
            self.log(side, publication, route, fresh, now)
