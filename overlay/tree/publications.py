"""SPEC T5: the data path. Every subscriber gets each matching publication once, in its publisher's order.

A batch is routed whole: each publication goes to the lists of the streams on its route, one settle
record covers the batch (links/settling.py), and nothing is done per message that can be done per
batch. A route is what the tables say about one set of attributes for one incoming side; it is cached
by the attributes' bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grapevine.filters.evaluate import matches
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.limits import HOPS
from grapevine.wire.messages import (
    CUT_NOT_ALLOWED,
    CUT_TOO_FAR,
    Advertisement,
    Batch,
    Publication,
    Publish,
)
from overlay.behaviour import Quiet, Status
from overlay.clients.client import Client
from overlay.core import Core
from overlay.links.outgoing import Outgoing
from overlay.links.session import Peer, Session
from overlay.links.settling import Settling, cuts_of
from overlay.tree.advertisements import Advertisements
from overlay.tree.duplicates import LastSeen, SeenWindow
from overlay.tree.subscriptions import Subscriptions


class Route:
    """Where publications with certain attributes go from one side: `links` are the append methods of
    the neighbours' queues, `local` those of the clients' with the ids of their subscriptions."""

    __slots__ = ("allowed", "clients", "links", "local", "named", "peers", "streams")

    def __init__(self, peers: list[Peer], clients: list[tuple[Client, bytes]], allowed: bool) -> None:
        self.peers = peers
        self.clients = clients
        self.allowed = allowed  # only asked where a client publishes
        self.links = tuple(peer.out.queue.append for peer in peers)
        self.local = tuple((c.out.queue.append, c.out.ids.append, ids) for c, ids in clients)
        self.streams: tuple[Outgoing, ...] = (*(p.out for p in peers), *(c.out for c, _ in clients))
        self.named: set[int] = set()  # publishers whose names all these clients know


NOWHERE = Route([], [], False)


class Publications(Quiet):
    name = "publications"

    def __init__(self, advertisements: Advertisements, subscriptions: Subscriptions, ordered: bool) -> None:
        self.advertisements = advertisements
        self.subscriptions = subscriptions
        self.seen: LastSeen = LastSeen() if ordered else SeenWindow()
        self.ordered = ordered
        self.accepted = self.forwarded = self.delivered = self.duplicates = self.pure = 0
        # Set by others: which publications a leaving broker's heirs get in its place, and the delivery log.
        self.instead: dict[Peer, Peer] = {}
        self.log: Callable[[Session, Publication, Route, bool, float], None] | None = None

    def attach(self, core: Core) -> None:
        self.core = core
        core.forward = self.forward
        core.accept = self.accept
        self.advertisements.on_gone.append(self._gone)

    # --- in -------------------------------------------------------------------------------------------

    def accept(self, client: Session, batch: Publish, repeated: int, now: float) -> None:
        """A client's own publications: this is their first broker."""
        assert isinstance(client, Client)
        publisher, incarnation = client.id, client.incarnation
        publications = batch.publications[repeated:] if repeated else batch.publications
        for publication in publications:
            publication.publisher = publisher
            publication.incarnation = incarnation
            publication.accepted_at = now
            publication.hops = publication.plane = 0
        record = Settling(client.incoming)
        if not client.unrestricted:
            publications = self._allowed(client, publications, record)
        self.accepted += len(publications)
        self._route_all(client, publications, record, now)

    def forward(self, peer: Peer, batch: Batch, repeated: int, now: float) -> None:
        publications = batch.publications[repeated:] if repeated else batch.publications
        record = Settling(peer.incoming)
        peer.received_total += len(publications)
        for publication in publications:
            publication.hops += 1
        if publications and max(p.hops for p in publications) > HOPS:
            publications = self._too_far(publications, record)
        self._route_all(peer, publications, record, now)

    def _allowed(
        self, client: Client, publications: list[Publication], record: Settling
    ) -> list[Publication]:
        refused = [p for p in publications if not self._route(client, p.attributes).allowed]
        if refused:
            self.core.refuse("outside its advertisements")
            record.cuts += cuts_of(refused, CUT_NOT_ALLOWED)
            return [p for p in publications if self._route(client, p.attributes).allowed]
        return publications

    def _too_far(self, publications: list[Publication], record: Settling) -> list[Publication]:
        self.core.refuse("hops")
        record.cuts += cuts_of((p for p in publications if p.hops > HOPS), CUT_TOO_FAR)
        return [p for p in publications if p.hops <= HOPS]

    # --- through --------------------------------------------------------------------------------------

    def _route_all(
        self, side: Session, publications: Iterable[Publication], record: Settling, now: float
    ) -> None:
        get = side.routes.at(self.subscriptions.generation).get
        last_seen = self.seen.last
        log = self.log
        used: dict[Route, None] = {}
        route = NOWHERE
        source = (0, 0)
        publisher = incarnation = last = 0
        links, local = route.links, route.local
        for publication in publications:
            found = get(publication.attributes)
            if found is None:
                found = self._route(side, publication.attributes)
            if found is not route:
                route = found
                links, local = route.links, route.local
                used[route] = None
            for append in links:
                append(publication)
            if not local:
                if log is not None:
                    log(side, publication, route, True, now)
                continue
            if publication.publisher != publisher or publication.incarnation != incarnation:
                publisher, incarnation = source = publication.publisher, publication.incarnation
                last = last_seen.get(source, 0)
            if publisher not in route.named:
                self._name(route, publisher)
            fresh = publication.sequence > last
            if fresh and self.ordered:
                last = last_seen[source] = publication.sequence
            elif not self.ordered:
                fresh = self.seen.first(source, publication.sequence)  # type: ignore[attr-defined]
            if fresh:
                for append, append_ids, ids in local:
                    append(publication)
                    append_ids(ids)
            else:
                self.duplicates += 1
            if log is not None:
                log(side, publication, route, fresh, now)
        self._hold(used, side, record)

    def _hold(self, used: dict[Route, None], side: Session, record: Settling) -> None:
        """The batch settles when all that it was appended to has settled."""
        dirty = self.core.dirty
        streams: dict[Outgoing, Session] = {}
        for route in used:
            for peer in route.peers:
                streams[peer.out] = peer
            for client, _ in route.clients:
                streams[client.out] = client
        for stream, session in streams.items():
            stream.hold(record)
            dirty[session] = None
        side.incoming.settle_after(record)
        dirty[side] = None

    # --- routes ---------------------------------------------------------------------------------------

    def _route(self, side: Session, attributes: bytes) -> Route:
        route: Route | None = side.routes.at(self.subscriptions.generation).get(attributes)
        if route is None:
            route = self.find_route(side, attributes)
            side.routes.offer(attributes, route)
        return route

    def find_route(self, side: Session, attributes: bytes) -> Route:
        try:
            content = decode_attributes(attributes)
        except WireError:
            self.core.refuse("attributes")
            return NOWHERE
        subscriptions = self.subscriptions
        peers: dict[Peer, None] = {}
        for number in subscriptions.remote.groups(content):
            hop = subscriptions.groups[number].side
            if hop is not side:
                peers[self.instead.get(hop, hop)] = None
        numbered = self.core.numbered
        clients = [(numbered[number], ids) for number, ids in subscriptions.local.deliveries(content)]
        allowed = isinstance(side, Client) and any(matches(f, content) for f in side.advertised())
        return Route(list(peers), clients, allowed)

    def sides(self, attributes: bytes) -> set[Peer]:
        """The neighbours from which a matching subscription came."""
        groups = self.subscriptions.groups
        content = decode_attributes(attributes)
        return {groups[number].side for number in self.subscriptions.remote.groups(content)}

    def _name(self, route: Route, publisher: int) -> None:
        route.named.add(publisher)
        if advertisements := self.advertisements.of_publisher(publisher):
            known = advertisements[0]
            for client, _ in route.clients:
                client.introduce(publisher, known.publisher_name, known.home_name)
        else:
            route.named.discard(publisher)

    def _gone(self, advertisement: Advertisement) -> None:
        publisher, incarnation = advertisement.publisher, advertisement.incarnation
        left = self.advertisements.of_publisher(publisher)
        if not any(other.incarnation == incarnation for other in left):
            self.seen.forget((publisher, incarnation))

    def status(self) -> Status:
        return {
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "publishers_seen": len(self.seen),
        }
