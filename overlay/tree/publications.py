"""SPEC T5: the data path. Every subscriber gets each matching publication once, in its publisher's order.

A batch is routed whole: each publication goes to the lists of the streams on its route, one settle
record covers the batch (links/settling.py), and nothing is done per message that can be done per
batch. A route is what the tables say about one set of attributes for one incoming side; it is cached
by the attributes' bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, Self

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
from matching.routes import RouteCache
from overlay.behaviour import Quiet, Status
from overlay.clients.client import Client
from overlay.core import Core
from overlay.links.session import Peer, Remote, Session
from overlay.links.settling import Settling, cuts_of
from overlay.tree.advertisements import Advertisements
from overlay.tree.duplicates import LastSeen, SeenWindow, Source
from overlay.tree.subscriptions import Subscriptions


class Queue(Protocol):
    """A list of publications, or what stands before one."""

    def append(self, publication: Publication, /) -> None: ...
    def __iadd__(self, publications: Iterable[Publication], /) -> Self: ...


class Side(Protocol):
    """Where publications come from: a session, or a session's publications that exclude some brokers."""

    name: str
    routes: RouteCache


class Route:
    """Where publications with certain attributes go from one side: the neighbours' queues, and the
    clients' with the ids of their subscriptions beside them."""

    __slots__ = ("allowed", "appends", "clients", "ids", "links", "named", "peers", "queues", "sessions")

    def __init__(
        self,
        peers: list[Remote],
        clients: list[tuple[Client, bytes]],
        allowed: bool,
        links: Iterable[Queue] | None = None,
    ) -> None:
        self.peers = peers
        self.clients = clients
        self.allowed = allowed  # only asked where a client publishes
        self.links: list[Queue] = [peer.out.queue for peer in peers] if links is None else list(links)
        self.queues = [*self.links, *(client.out.queue for client, _ in clients)]
        self.appends = [queue.append for queue in self.queues]
        self.ids = [(client.out.ids, ids) for client, ids in clients]
        self.sessions: dict[Session, None] = dict.fromkeys([*peers, *(client for client, _ in clients)])
        self.named: set[int] = set()  # publishers whose names all these clients know

    def take(self, publications: list[Publication]) -> None:
        """Append to every queue of the route."""
        for queue in self.queues:
            queue += publications
        count = len(publications)
        for listed, ids in self.ids:
            listed += [ids] * count

    def take_one(self, publication: Publication) -> None:
        for append in self.appends:
            append(publication)
        for listed, ids in self.ids:
            listed.append(ids)

    def pass_on(self, publication: Publication) -> None:
        """To the neighbours only: the clients have it."""
        for queue in self.links:
            queue.append(publication)


# Who gets a copy, and by which queues if not simply their own.
Hops = tuple[tuple[Remote, ...], tuple[Queue, ...] | None]
NOBODY: Hops = ((), None)
NOWHERE = Route([], [], False)
ROUTE_SHARED = 8  # destinations; comparing longer routes costs more than it saves
ROUTES_SHARED = 4096


class Publications(Quiet):
    name = "publications"

    def __init__(self, advertisements: Advertisements, subscriptions: Subscriptions, ordered: bool) -> None:
        self.advertisements = advertisements
        self.subscriptions = subscriptions
        self.seen: LastSeen = LastSeen() if ordered else SeenWindow()
        self.ordered = ordered
        self.accepted = self.forwarded = self.delivered = self.duplicates = self.pure = 0
        self._same: dict[object, Route] = {}  # routes with the same destinations are one object
        self._same_at = -1
        # Set by others: which links the matching groups are served by, which publications a leaving
        # broker's heirs get in its place, and the delivery log.
        self.choose: Callable[[Side | None, Iterable[int]], Hops] = self.choose_primary
        self.instead: dict[Remote, Remote] = {}
        self.log: Callable[[Side, Publication, Route, bool, float], None] | None = None

    def attach(self, core: Core) -> None:
        self.core = core
        core.forward = self.forward
        core.accept = self.accept
        self.advertisements.on_gone.append(self._gone)

    # --- in -------------------------------------------------------------------------------------------

    def accept(self, client: Session, batch: Publish, repeated: int, now: float) -> None:
        """A client's own publications: this is their first broker."""
        assert isinstance(client, Client)
        source = publisher, incarnation = client.id, client.incarnation
        publications = batch.publications[repeated:] if repeated else batch.publications
        for publication in publications:
            publication.publisher = publisher
            publication.incarnation = incarnation
            publication.accepted_at = now
        record = Settling(client.incoming)
        routes: dict[bytes, Route] = client.routes.at(self.subscriptions.generation)
        if not client.unrestricted:
            routes = self._routes(client, publications)
            if any(not route.allowed for route in routes.values()):
                publications = self._allowed(publications, routes, record)
        self.accepted += len(publications)
        used: dict[Route, None] = {}
        self.route_run(client, publications, source, used, routes.get, now)
        self.hold(used, client, record)

    def forward(self, peer: Remote, batch: Batch, repeated: int, now: float) -> None:
        """Cut the batch into runs of one publisher each."""
        publications = batch.publications[repeated:] if repeated else batch.publications
        record = Settling(peer.incoming)
        peer.received_total += len(publications)
        used: dict[Route, None] = {}
        get = peer.routes.at(self.subscriptions.generation).get
        publisher = incarnation = start = far = 0
        for index, publication in enumerate(publications):
            hops = publication.hops = publication.hops + 1
            if hops > HOPS:
                far += 1
            if publication.publisher != publisher or publication.incarnation != incarnation:
                if index > start:
                    self.route_run(peer, publications[start:index], (publisher, incarnation), used, get, now)
                publisher, incarnation, start = publication.publisher, publication.incarnation, index
        run = publications[start:] if start else publications
        if far:
            run = self.too_far(run, record)
        self.route_run(peer, run, (publisher, incarnation), used, get, now)
        self.hold(used, peer, record)

    def _routes(self, client: Client, publications: list[Publication]) -> dict[bytes, Route]:
        """The route of each set of attributes in the batch, each looked for once."""
        get = client.routes.at(self.subscriptions.generation).get
        distinct = dict.fromkeys([publication.attributes for publication in publications])
        return {attributes: get(attributes) or self._route(client, attributes) for attributes in distinct}

    def _allowed(
        self, publications: list[Publication], routes: dict[bytes, Route], record: Settling
    ) -> list[Publication]:
        """Those inside their client's advertisements; the others are cut."""
        self.core.refuse("outside its advertisements")
        record.cuts += cuts_of((p for p in publications if not routes[p.attributes].allowed), CUT_NOT_ALLOWED)
        return [p for p in publications if routes[p.attributes].allowed]

    def too_far(self, publications: list[Publication], record: Settling) -> list[Publication]:
        self.core.refuse("hops")
        record.cuts += cuts_of((p for p in publications if p.hops > HOPS), CUT_TOO_FAR)
        return [p for p in publications if p.hops <= HOPS]

    # --- through --------------------------------------------------------------------------------------

    def route_run(
        self,
        side: Side,
        run: list[Publication],
        source: Source,
        used: dict[Route, None],
        get: Callable[[bytes], Route | None],
        now: float,
    ) -> None:
        """Route consecutive publications of one publisher, those of one route together. `get` knows the
        routes already found."""
        if not self.ordered or self.log is not None:
            self._route_each(side, run, source, used, now)
            return
        last = self.seen.last.get(source, 0)
        route = NOWHERE
        start = 0
        for index, publication in enumerate(run):
            found = get(publication.attributes)
            sequence = publication.sequence
            if found is not route or sequence <= last:
                if start + 1 == index:
                    route.take_one(run[start])
                elif start < index:
                    route.take(run[start:index])
                start = index
                route = found if found is not None else self._route(side, publication.attributes)
                used[route] = None
                if route.clients and source[0] not in route.named:
                    self._name(route, source[0])
                if sequence <= last:
                    route.pass_on(publication)
                    self.duplicates += len(route.clients)
                    start = index + 1
                    continue
            last = sequence
        if start < len(run):
            route.take(run[start:] if start else run)
        self.seen.last[source] = last

    def _route_each(
        self, side: Side, run: list[Publication], source: Source, used: dict[Route, None], now: float
    ) -> None:
        """The same one by one, where each is logged or its window must be asked."""
        for publication in run:
            route = self._route(side, publication.attributes)
            used[route] = None
            if route.clients and source[0] not in route.named:
                self._name(route, source[0])
            fresh = self.seen.first(source, publication.sequence)
            if fresh:
                route.take_one(publication)
            else:
                route.pass_on(publication)
                self.duplicates += len(route.clients)
            if self.log is not None:
                self.log(side, publication, route, fresh, now)

    def hold(self, used: dict[Route, None], side: Session, record: Settling) -> None:
        """The batch settles when all that it was appended to has settled."""
        dirty = self.core.dirty
        sessions: dict[Session, None] = {}
        for route in used:
            sessions |= route.sessions
        for session in sessions:
            session.out.hold(record)
        dirty |= sessions
        side.incoming.settle_after(record)
        dirty[side] = None

    # --- routes ---------------------------------------------------------------------------------------

    def _route(self, side: Side, attributes: bytes) -> Route:
        route: Route | None = side.routes.at(self.subscriptions.generation).get(attributes)
        if route is None:
            route = self.find_route(side, attributes)
            side.routes.offer(attributes, route)
        return route

    def find_route(self, side: Side | None, attributes: bytes) -> Route:
        """Without a side: what an administrator asks about."""
        try:
            content = decode_attributes(attributes)
        except WireError:
            self.core.refuse("attributes")
            return NOWHERE
        subscriptions = self.subscriptions
        peers, links = NOBODY
        if len(subscriptions.remote):
            peers, links = self.choose(side, subscriptions.remote.groups(content))
        deliveries = subscriptions.local.deliveries(content)
        allowed = isinstance(side, Client) and (
            side.unrestricted or any(matches(f, content) for f in side.advertised())
        )
        return self._to(peers, links, tuple(deliveries), allowed)

    def choose_primary(self, side: Side | None, groups: Iterable[int]) -> Hops:
        peers: dict[Remote, None] = {}
        for number in groups:
            hop = self.subscriptions.groups[number].side
            if hop is not side:
                peers[self.instead.get(hop, hop)] = None
        return tuple(peers), None

    def _to(
        self,
        peers: tuple[Remote, ...],
        links: tuple[Queue, ...] | None,
        deliveries: tuple[tuple[int, bytes], ...],
        allowed: bool,
    ) -> Route:
        """The route with these destinations. Short ones are the same object for the same destinations, so
        that publications with different attributes travel as one run."""
        if len(peers) + len(deliveries) > ROUTE_SHARED:
            return self._new_route(peers, links, deliveries, allowed)
        if self._same_at != self.subscriptions.generation or len(self._same) >= ROUTES_SHARED:
            self._same_at = self.subscriptions.generation
            self._same.clear()
        queues = None if links is None else tuple([id(queue) for queue in links])
        key = (peers, queues, deliveries, allowed)
        route = self._same.get(key)
        if route is None:
            route = self._same[key] = self._new_route(peers, links, deliveries, allowed)
        return route

    def _new_route(
        self,
        peers: tuple[Remote, ...],
        links: tuple[Queue, ...] | None,
        deliveries: tuple[tuple[int, bytes], ...],
        allowed: bool,
    ) -> Route:
        numbered = self.core.numbered
        clients = [(numbered[number], ids) for number, ids in deliveries]
        return Route(list(peers), clients, allowed, links)

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
