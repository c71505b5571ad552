"""SPEC T5: the data path. Every subscriber gets each matching publication once, in its publisher's order.

A batch is routed whole: each publication goes to the lists of the streams on its route, one settle
record covers the batch (links/settling.py), and nothing is done per message that can be done per
batch. A route is what the tables say about one set of attributes for one incoming side; it is cached
by the attributes' bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import lt
from typing import Protocol, Self

from grapevine.filters.evaluate import matches
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.limits import HOPS
from grapevine.wire.messages import (
    CUT_NOT_ALLOWED,
    CUT_TOO_FAR,
    TRACED,
    Advertisement,
    Batch,
    Publication,
    Publish,
)
from matching.interface import Attributes
from matching.mentions import projection
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


class Fan:
    """The streams that the publications of one or several routes go to: the neighbours' queues, and the
    clients' with the ids of their subscriptions beside them."""

    __slots__ = ("clients", "links", "listed", "named", "peers", "queues", "sessions")

    def __init__(
        self, peers: tuple[Remote, ...], clients: list[Client], links: tuple[Queue, ...] | None = None
    ) -> None:
        self.peers = peers
        self.clients = clients
        self.links: tuple[Queue, ...] = tuple([p.out.queue for p in peers]) if links is None else links
        self.queues: list[Queue] = [*self.links, *[client.out.queue for client in clients]]
        self.listed = [client.out.ids for client in clients]
        self.sessions: dict[Session, None] = dict.fromkeys([*peers, *clients])
        self.named: set[int] = set()  # publishers whose names all these clients know

    def take_all(self, publications: list[Publication], ids: tuple[bytes, ...]) -> None:
        """Publications of one route."""
        for queue in self.queues:
            queue += publications
        count = len(publications)
        for listed, each in zip(self.listed, ids):
            listed += [each] * count

    def take(self, publications: list[Publication], routes: list[Route]) -> None:
        """Publications of several routes that end in this fan."""
        for queue in self.queues:
            queue += publications
        for place, listed in enumerate(self.listed):
            listed += [route.ids[place] for route in routes]

    def take_one(self, publication: Publication, ids: tuple[bytes, ...]) -> None:
        for queue in self.queues:
            queue.append(publication)
        for listed, each in zip(self.listed, ids):
            listed.append(each)

    def pass_on(self, publication: Publication) -> None:
        """To the neighbours only: the clients have it."""
        for queue in self.links:
            queue.append(publication)


class Route:
    """Where publications with certain attributes go from one side; `ids` for each client of the fan."""

    __slots__ = ("allowed", "fan", "ids")

    def __init__(self, fan: Fan, ids: tuple[bytes, ...], allowed: bool) -> None:
        self.fan = fan
        self.ids = ids
        self.allowed = allowed  # only asked where a client publishes

    @property
    def peers(self) -> tuple[Remote, ...]:
        return self.fan.peers

    @property
    def clients(self) -> list[tuple[Client, bytes]]:
        return list(zip(self.fan.clients, self.ids))


# Who gets a copy, and by which queues if not simply their own.
Hops = tuple[tuple[Remote, ...], tuple[Queue, ...] | None]
NOBODY: Hops = ((), None)
NOWHERE = Route(Fan((), []), (), False)
FAN_SHARED = 8  # destinations; larger fans hardly come again
FANS_SHARED = 4096
NAMES_FEW = 3
OFFER_MASK = 7


class Publications(Quiet):
    name = "publications"

    def __init__(self, advertisements: Advertisements, subscriptions: Subscriptions, ordered: bool) -> None:
        self.advertisements = advertisements
        self.subscriptions = subscriptions
        self.seen: LastSeen = LastSeen() if ordered else SeenWindow()
        self.ordered = ordered
        self.accepted = self.forwarded = self.delivered = self.duplicates = self.pure = 0
        self._fans: dict[object, Fan] = {}
        self._fans_at = -1
        self._few: tuple[str, ...] | None = None
        self._names_at = -1
        self._phase = 0
        # Set by others: which links the matching groups are served by, which publications a leaving
        # broker's heirs get in its place, and the delivery log.
        self.choose: Callable[[Side | None, Iterable[int]], Hops] = self.choose_primary
        self.instead: dict[Remote, Remote] = {}
        # Publications of a local publisher may be traced, and pass here traced.
        self.tag: Callable[[Client, list[Publication], float], None] | None = None
        self.traced: Callable[[Remote, list[Publication], float], None] | None = None
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
        if self.tag is not None:
            self.tag(client, publications, now)
        used: dict[Fan, None] = {}
        self.route_run(client, publications, source, used, routes.get, now)
        self.hold(used, client, record)

    def forward(self, peer: Remote, batch: Batch, repeated: int, now: float) -> None:
        """Cut the batch into runs of one publisher each."""
        publications = batch.publications[repeated:] if repeated else batch.publications
        record = Settling(peer.incoming)
        peer.received_total += len(publications)
        used: dict[Fan, None] = {}
        get = peer.routes.at(self.subscriptions.generation).get
        publisher = incarnation = start = far = flags = 0
        for index, publication in enumerate(publications):
            hops = publication.hops = publication.hops + 1
            flags |= publication.flags
            if hops > HOPS:
                far += 1
            if publication.publisher != publisher or publication.incarnation != incarnation:
                if index > start:
                    self.route_run(peer, publications[start:index], (publisher, incarnation), used, get, now)
                publisher, incarnation, start = publication.publisher, publication.incarnation, index
        if flags & TRACED and self.traced is not None:
            self.traced(peer, [p for p in publications if p.flags & TRACED], now)
        run = publications[start:] if start else publications
        if far:
            run = self.too_far(run, record)
        self.route_run(peer, run, (publisher, incarnation), used, get, now)
        self.hold(used, peer, record)

    def _routes(self, client: Client, publications: list[Publication]) -> dict[bytes, Route]:
        """The route of each set of attributes in the batch, each looked for once."""
        get = client.routes.at(self.subscriptions.generation).get
        distinct = dict.fromkeys([publication.attributes for publication in publications])
        return {attributes: get(attributes) or self.route(client, attributes) for attributes in distinct}

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
        used: dict[Fan, None],
        get: Callable[[bytes], Route | None],
        now: float,
    ) -> None:
        """Route consecutive publications of one publisher, those of one route together. `get` knows the
        routes already found."""
        if not self.ordered or self.log is not None:
            self._route_each(side, run, source, used, now)
            return
        if not run:
            return
        sequences = [publication.sequence for publication in run]
        if sequences[0] <= self.seen.last.get(source, 0) or not all(map(lt, sequences, sequences[1:])):
            self._route_each(side, run, source, used, now)  # some were here before
            return
        self.seen.last[source] = sequences[-1]
        found = [get(publication.attributes) for publication in run]
        if None in found:
            found = self._find_missing(side, run, found)
        routes: list[Route] = found  # type: ignore[assignment]
        route = routes[0]
        if routes.count(route) == len(routes):
            self._use(route.fan, source[0], used)
            route.fan.take_all(run, route.ids)
        else:
            self._route_mixed(run, routes, source[0], used)

    def _route_mixed(
        self, run: list[Publication], routes: list[Route], publisher: int, used: dict[Fan, None]
    ) -> None:
        """Consecutive publications with one fan are handed over together, whatever their routes."""
        fan, start = routes[0].fan, 0
        self._use(fan, publisher, used)
        for index, route in enumerate(routes):
            if route.fan is not fan:
                if start + 1 == index:
                    fan.take_one(run[start], routes[start].ids)
                else:
                    fan.take(run[start:index], routes[start:index])
                fan, start = route.fan, index
                self._use(fan, publisher, used)
        fan.take(run[start:], routes[start:])

    def _use(self, fan: Fan, publisher: int, used: dict[Fan, None]) -> None:
        used[fan] = None
        if publisher not in fan.named and fan.clients:
            self._name(fan, publisher)

    def _route_each(
        self, side: Side, run: list[Publication], source: Source, used: dict[Fan, None], now: float
    ) -> None:
        """The same one by one, where each is logged or its window must be asked."""
        for publication in run:
            route = self.route(side, publication.attributes)
            fan = route.fan
            self._use(fan, source[0], used)
            fresh = self.seen.first(source, publication.sequence)
            if fresh:
                fan.take_one(publication, route.ids)
            else:
                fan.pass_on(publication)
                self.duplicates += len(fan.clients)
            if self.log is not None:
                self.log(side, publication, route, fresh, now)

    def hold(self, used: dict[Fan, None], side: Session, record: Settling) -> None:
        """The batch settles when all that it was appended to has settled."""
        dirty = self.core.dirty
        sessions: dict[Session, None] = {}
        for fan in used:
            sessions |= fan.sessions
        for session in sessions:
            session.out.hold(record)
        dirty |= sessions
        side.incoming.settle_after(record)
        dirty[side] = None

    # --- routes ---------------------------------------------------------------------------------------

    def route(self, side: Side, attributes: bytes) -> Route:
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
        return self._find(side, content)

    def _find_missing(
        self, side: Side, run: list[Publication], found: list[Route | None]
    ) -> list[Route | None]:
        """All routes of a run, of which some are not known by the attributes' bytes. Attributes are offered
        to the cache once in a while: most of them may never come again."""
        names = self._deciding(side)
        if names is None:
            return [route or self.route(side, p.attributes) for route, p in zip(found, run)]
        get, offer = side.routes.at(self.subscriptions.generation).get, side.routes.offer
        self._phase = phase = (self._phase + 1) & OFFER_MASK
        routes = list(found)
        for index, publication in enumerate(run):
            if routes[index] is not None:
                continue
            try:
                content = decode_attributes(publication.attributes)
            except WireError:
                self.core.refuse("attributes")
                routes[index] = NOWHERE
                continue
            key = projection(names, content)
            route = get(key)
            if route is None:
                route = self._find(side, content)
                offer(key, route)
            routes[index] = route
            if index & OFFER_MASK == phase:
                offer(publication.attributes, route)
        return routes

    def _deciding(self, side: Side) -> tuple[str, ...] | None:
        """The attributes that decide a route, if they are so few that others will often have the same."""
        if isinstance(side, Client) and not side.unrestricted:
            return None
        if self._names_at != self.subscriptions.generation:
            self._names_at = self.subscriptions.generation
            self._few = self.subscriptions.mentions.few(NAMES_FEW)
        return self._few

    def _find(self, side: Side | None, content: Attributes) -> Route:
        subscriptions = self.subscriptions
        peers, links = NOBODY
        if len(subscriptions.remote):
            peers, links = self.choose(side, subscriptions.remote.groups(content))
        deliveries = subscriptions.local.deliveries(content)
        allowed = isinstance(side, Client) and (
            side.unrestricted
            or (matches(side.may_publish, content) and any(matches(f, content) for f in side.advertised()))
        )
        numbers = tuple([number for number, _ in deliveries])
        return Route(self._fan(peers, links, numbers), tuple([ids for _, ids in deliveries]), allowed)

    def choose_primary(self, side: Side | None, groups: Iterable[int]) -> Hops:
        peers: dict[Remote, None] = {}
        for number in groups:
            hop = self.subscriptions.groups[number].side
            if hop is not side:
                peers[self.instead.get(hop, hop)] = None
        return tuple(peers), None

    def _fan(
        self, peers: tuple[Remote, ...], links: tuple[Queue, ...] | None, numbers: tuple[int, ...]
    ) -> Fan:
        """The fan to these destinations. Small ones are the same object for the same destinations, so that
        publications with different attributes travel as one run."""
        numbered = self.core.numbered
        if len(peers) + len(numbers) > FAN_SHARED:
            return Fan(peers, [numbered[number] for number in numbers], links)
        if self._fans_at != self.subscriptions.generation or len(self._fans) >= FANS_SHARED:
            self._fans_at = self.subscriptions.generation
            self._fans.clear()
        queues = None if links is None else tuple([id(queue) for queue in links])
        key = (peers, queues, numbers)
        fan = self._fans.get(key)
        if fan is None:
            fan = self._fans[key] = Fan(peers, [numbered[number] for number in numbers], links)
        return fan

    def sides(self, attributes: bytes) -> set[Peer]:
        """The neighbours from which a matching subscription came."""
        groups = self.subscriptions.groups
        content = decode_attributes(attributes)
        return {groups[number].side for number in self.subscriptions.remote.groups(content)}

    def _name(self, fan: Fan, publisher: int) -> None:
        fan.named.add(publisher)
        if advertisements := self.advertisements.of_publisher(publisher):
            known = advertisements[0]
            for client in fan.clients:
                client.introduce(publisher, known.publisher_name, known.home_name)
        else:
            fan.named.discard(publisher)

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
