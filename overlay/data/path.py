"""SPEC T5: the data path. Every subscriber gets each matching publication once, in its publisher's order.

A batch is routed whole: each publication goes to the lists of the streams on its route, one settle
record covers the batch (links/settling.py), and nothing is done per message that can be done per
batch. A route is what the tables say about one set of attributes for one incoming side; it is cached
by the attributes' bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from grapevine.filters.evaluate import matches
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.limits import HOPS
from grapevine.wire.messages import (
    ASKS,
    CUT_NO_RESPONDERS,
    CUT_NOT_ALLOWED,
    CUT_TOO_FAR,
    DURABLE,
    RESENT,
    TRACED,
    Batch,
    ExtendedPublish,
    Publication,
    Publish,
)
from matching.interface import Attributes
from matching.mentions import projection
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import INTRODUCED, Client
from overlay.data.duplicates import LastSeen, SeenWindow, Source
from overlay.data.local import LocalSubscriptions
from overlay.data.replays import Missed, Unheard, concerns, cut_for, mark_replayed, spared, withdraw_durable
from overlay.data.router import Router
from overlay.data.routes import NOWHERE, Fan, Queue, Route, Side
from overlay.data.runs import flags_of, gather, look_up, rising, scatter, stamp, stamp_extended
from overlay.links.lane import Lane
from overlay.links.session import Remote, Session
from overlay.links.settling import Settling, cuts_of

FAN_SHARED = 8  # clients; larger fans hardly come again
FANS_SHARED = 4096
NAMES_FEW = 3
OFFER_MASK = 7
Used = list[Sequence[Lane]]  # whom a batch goes to, fan by fan
Stage = Callable[[Client, list[Publication], Settling, float], None]  # takes what a client has published
WasOwed = Callable[[list[tuple[Client, bytes]], int], bool]
Keep = Callable[[Client, list[Publication], int], tuple[list[Publication], Settling]]
UNKNOWN = 32  # publications whose routes are looked for before they are handed out; memory stays warm


class Publications(Quiet):
    name = "publications"

    def __init__(self, router: Router, local: LocalSubscriptions, ordered: bool) -> None:
        self.router = router
        self.local = local
        self.seen: LastSeen = LastSeen() if ordered else SeenWindow()
        self.ordered = ordered
        self.accepted = self.forwarded = self.delivered = self.duplicates = self.pure = 0
        self._fans: dict[object, Fan] = {}
        self._fans_at = -1
        self._key_of: Callable[[Attributes], object] | None = None
        self._names_at = -1
        self._named_to: dict[int, set[Client]] = {}
        self._named_at = -1
        self._phase = 0
        self._missed = Missed()  # of this drain
        self.plane = 0  # what local publishers' are stamped with
        self.held: dict[Source, int] = {}  # the last accepted of local publishers, while these are not routed
        self.stage: Stage | None = None  # of an overlay that asks before it routes
        # Set while a side was lost not long ago: what a client sends again here was perhaps owed there.
        self.adopted: Callable[[list[Publication], Settling], None] | None = None
        # Whether no hop means that nobody has subscribed, because nobody is unreachable; by the overlay.
        self.whole: Callable[[], bool] = lambda: False
        # Publications of a local publisher may be traced, and pass here traced.
        self.tag: Callable[[Client, list[Publication], float], None] | None = None
        self.traced: Callable[[Side, list[Publication], float], None] | None = None
        self.log: Callable[[Side, Publication, Route, bool, float], None] | None = None
        self.was_owed: WasOwed = lambda clients, when: True  # by those who had asked by then
        # Of these publishers something older may be owed to these sides; by the overlay.
        self.unheard: dict[Source, Unheard] = {}
        # Durable publications of a local publisher are kept: which are taken, and what settles them.
        self.keep: Keep | None = None

    def attach(self, core: Core) -> None:
        self.core = core
        core.forward.fill(self, self.forward)
        core.accept.fill(self, self.accept)
        self.router.on_gone.append(self.seen.forget)

    # --- in -------------------------------------------------------------------------------------------

    def accept(self, client: Session, batch: Publish, repeated: int, now: float) -> None:
        """A client's own publications: this is their first broker."""
        assert isinstance(client, Client)
        source = publisher, incarnation = client.id, client.incarnation
        publications = batch.publications[repeated:] if repeated else batch.publications
        if batch.kind == ExtendedPublish.kind:
            stamp_extended(publications, publisher, incarnation, now, self.plane)
        else:
            stamp(publications, publisher, incarnation, now, self.plane)
        if batch.first + repeated == 1 and client.begins and publications:
            self.seen.begin(source, publications[0].sequence, source in self.router.sources)
        record = Settling(client.incoming)
        routes: dict[bytes, Route] = client.routes.at(self.local.generation)
        if not client.unrestricted:
            routes = self._routes(client, publications)
            if any(not route.allowed for route in routes.values()):
                publications = self._allowed(publications, routes, record)
        flags = flags_of(publications)
        if flags & DURABLE and self.keep is None:
            withdraw_durable(publications)
        elif flags & DURABLE and self.keep is not None:
            if flags & RESENT:  # a client sends all again that it does not know to be settled
                mark_replayed(publications)
            cuts = record.cuts
            publications, record = self.keep(client, publications, batch.first + repeated - 1)
            record.cuts += cuts
        self.accepted += len(publications)
        if self.adopted is not None:
            self.adopted(publications, record)
        if self.tag is not None:
            self.tag(client, publications, now)
        if self.stage is not None:
            record.pending += 1  # until all of them are handed out
            client.incoming.settle_after(record)
            self.stage(client, publications, record, now)
            client.touch()
            return
        if flags & ASKS and self.adopted is None and self.whole():
            routes = self._answerable(client, publications, routes, record)
        used: Used = []
        self.route_run(client, publications, source, used, routes, now)
        self.hold(used, client, record)

    def _answerable(
        self, client: Client, publications: list[Publication], known: dict[bytes, Route], record: Settling
    ) -> dict[bytes, Route]:
        """Requests that nobody here or behind any link has subscribed to are told at once. Nothing is said
        while a side is unknown, nor of what is sent again or is kept: somebody may be there, or may have
        been. Returns the routes, which need not be looked for again."""
        found = look_up(publications, known)
        self._find_missing(client, publications, found)
        routes = {p.attributes: route for p, route in zip(publications, found) if route is not None}
        asking = (p for p in publications if p.flags & (ASKS | RESENT | DURABLE) == ASKS)
        alone = (p for p in asking if not routes[p.attributes].fan.reaches)
        record.cuts += cuts_of(alone, CUT_NO_RESPONDERS)
        return routes

    def forward(self, peer: Lane, batch: Batch, repeated: int, now: float) -> None:
        publications = batch.publications[repeated:] if repeated else batch.publications
        record = Settling(peer.incoming)
        used: Used = []
        self.take(peer, peer, publications, record, used, now)
        self.hold(used, peer, record)

    def take(
        self,
        peer: Lane,
        side: Side,
        publications: list[Publication],
        record: Settling,
        used: Used,
        now: float,
    ) -> None:
        """Cut what came from a neighbour into runs of one publisher each; they are routed as from `side`."""
        peer.received_total += len(publications)
        known = side.routes.at(self.local.generation)
        publisher = incarnation = start = far = flags = 0
        for index, publication in enumerate(publications):
            hops = publication.hops = publication.hops + 1
            flags |= publication.flags
            if hops > HOPS:
                far += 1
            if publication.publisher != publisher or publication.incarnation != incarnation:
                if index > start:
                    run = publications[start:index]
                    if far:
                        run = self.too_far(run, record)
                    self.route_run(side, run, (publisher, incarnation), used, known, now)
                publisher, incarnation, start = publication.publisher, publication.incarnation, index
        if flags & TRACED and self.traced is not None:
            self.traced(side, [p for p in publications if p.flags & TRACED], now)
        run = publications[start:] if start else publications
        if far:
            run = self.too_far(run, record)
        self.route_run(side, run, (publisher, incarnation), used, known, now)

    def _routes(self, client: Client, publications: list[Publication]) -> dict[bytes, Route]:
        """The route of each set of attributes in the batch, each looked for once."""
        get = client.routes.at(self.local.generation).get
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
        used: Used,
        known: dict[bytes, Route],
        now: float,
    ) -> None:
        """Route consecutive publications of one publisher, those of one fan together; `known` are the
        routes already found."""
        if self.unheard and source in self.unheard and concerns(self.unheard[source], run, known):
            run = self._spare_unheard(side, run, source, used, now)
        if not self.ordered or self.log is not None:
            self._route_each(side, run, source, used, now)
            return
        if not run:
            return
        last = self.seen.last.get(source, 0)
        if not last and self.seen.gone and source in self.router.sources:
            last = self.seen.returned(source, run[0].sequence)
        if not rising(run, last):
            self._route_each(side, run, source, used, now)  # some were here before
            return
        if source in self.router.sources:
            newest = run[-1].sequence
            if newest - last != len(run) and len(self.local.index):
                self.seen.skip(source, last, run)
            self.seen.last[source] = newest
        found = look_up(run, known)
        if all(found):
            self._hand_out(run, found, source[0], used)  # type: ignore[arg-type]
            return
        self._phase = (self._phase + 1) & OFFER_MASK
        for start in range(0, len(run), UNKNOWN):
            part, routes = run[start : start + UNKNOWN], found[start : start + UNKNOWN]
            self._find_missing(side, part, routes)
            self._hand_out(part, routes, source[0], used)  # type: ignore[arg-type]

    def _hand_out(self, run: list[Publication], routes: list[Route], publisher: int, used: Used) -> None:
        route = routes[0]
        if routes[-1] is route and routes.count(route) == len(routes):
            self._use(route.fan, publisher, used)
            route.fan.take_all(run, route.ids)
        else:
            for fan in scatter(run, routes):
                self._use(fan, publisher, used)

    def _use(self, fan: Fan, publisher: int, used: Used) -> None:
        used.append(fan.sessions)
        if publisher not in fan.named and fan.clients:
            self._name(fan, publisher)

    def _route_each(self, side: Side, run: list[Publication], source: Source, used: Used, now: float) -> None:
        """The same one by one, where each is logged or its window must be asked."""
        for publication in run:
            self._hand_one(side, publication, self.route(side, publication.attributes), source, used, now)
        if source not in self.router.sources:
            self.seen.forget(source)

    def _spare_unheard(
        self, side: Side, run: list[Publication], source: Source, used: Used, now: float
    ) -> list[Publication]:
        """Those who may be owed something older get nothing durable but replays; what is left of the run when
        all of them are heard."""
        unheard = self.unheard[source]
        for index, publication in enumerate(run):
            without = spared(unheard, publication)
            if not unheard:
                del self.unheard[source]
                return run[index:]
            route = self.route(side, publication.attributes)
            if publication.flags & DURABLE and not without.isdisjoint(route.fan.peers):
                route = self._route_without(side, publication, route, without)
            self._hand_one(side, publication, route, source, used, now)
        return []

    def _route_without(
        self, side: Side, publication: Publication, route: Route, without: set[Remote]
    ) -> Route:
        content = decode_attributes(publication.attributes)
        peers, links = self.router.hops(side, content)
        if links is not None:
            return route  # soft links: nobody knows here who is behind which
        self._missed.left_out(publication)
        cut_for(self.unheard[publication.publisher, publication.incarnation], publication, without, peers)
        heard = tuple([peer for peer in peers if peer not in without])
        return self._route(heard, None, self.local.index.deliveries(content), route.allowed)

    def _hand_one(
        self, side: Side, publication: Publication, route: Route, source: Source, used: Used, now: float
    ) -> None:
        fan = route.fan
        self._use(fan, source[0], used)
        fresh = self.seen.first(source, publication.sequence)
        if fresh:
            fan.take_one(publication, route.ids)
        else:
            fan.pass_on(publication)
            self.duplicates += len(fan.clients)
            when = self.seen.missed(source, publication.sequence) if fan.clients else 0
            if when and self.was_owed(route.clients, when):
                self._missed.too_late(publication)
        if self.log is not None:
            self.log(side, publication, route, fresh, now)

    def hold(self, used: Used, side: Lane, record: Settling) -> None:
        """The batch settles when all that it was appended to has settled."""
        self.hold_for(used, record)
        side.incoming.settle_after(record)
        self.core.dirty[side] = None

    def hold_for(self, used: Used, record: Settling) -> None:
        """The same of what takes no position of anybody's."""
        sessions = dict.fromkeys(chain.from_iterable(used))
        for session in sessions:
            session.out.hold(record)
        self.core.dirty |= sessions
        if self._missed.cut:
            self._missed.report(record)

    def send_again(
        self, side: Client, run: list[Publication], source: Source, record: Settling, now: float
    ) -> None:
        """Publications of one publisher that this broker has sent before, once more and in order."""
        if self.stage is not None:
            record.pending += 1  # until all of them are handed out
            self.stage(side, run, record, now)
            return
        used: Used = []
        self.route_run(side, run, source, used, side.routes.at(self.local.generation), now)
        self.hold_for(used, record)

    # --- asked about first ----------------------------------------------------------------------------

    def hand_out(
        self, side: Side, run: list[Publication], routes: list[Route], record: Settling, now: float
    ) -> None:
        """Consecutive staged publications of one publisher, whose routes are known by now. Their stage
        releases `record` when it has handed out the last."""
        used: Used = []
        source = run[0].publisher, run[0].incarnation
        if self.ordered and self.log is None and rising(run, self.seen.last.get(source, 0)):
            self.seen.last[source] = run[-1].sequence
            self._hand_out(run, routes, source[0], used)
        else:
            for publication, route in zip(run, routes):
                self._hand_one(side, publication, route, source, used, now)
        if source not in self.router.sources:
            self.seen.forget(source)
        sessions = dict.fromkeys(chain.from_iterable(used))
        for session in sessions:
            session.out.hold(record)
        self.core.dirty |= sessions

    # --- routes ---------------------------------------------------------------------------------------

    def route(self, side: Side, attributes: bytes) -> Route:
        route: Route | None = side.routes.at(self.local.generation).get(attributes)
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

    def _find_missing(self, side: Side, run: list[Publication], routes: list[Route | None]) -> None:
        """The routes that are not known by the attributes' bytes. These are offered to the cache once in a
        while: most of them may never come again."""
        key_of = self._deciding(side)
        if key_of is None:
            routes[:] = [route or self.route(side, p.attributes) for route, p in zip(routes, run)]
            return
        get, offer = side.routes.at(self.local.generation).get, side.routes.offer
        phase = self._phase
        for index, route in enumerate(routes):
            if route is not None:
                continue
            attributes = run[index].attributes
            try:
                content = decode_attributes(attributes)
            except WireError:
                self.core.refuse("attributes")
                routes[index] = NOWHERE
                continue
            key = key_of(content)
            route = get(key)
            if route is None:
                route = self._find(side, content)
                offer(key, route)
            routes[index] = route
            if index & OFFER_MASK == phase:
                offer(attributes, route)

    def _deciding(self, side: Side) -> Callable[[Attributes], object] | None:
        """What decides a route, if it is so few attributes that others will often have the same."""
        if isinstance(side, Client) and not side.unrestricted:
            return None
        if self._names_at != self.local.generation:
            self._names_at = self.local.generation
            few = self.local.mentions.few(NAMES_FEW)
            self._key_of = None if few is None else projection(few)
        return self._key_of

    def _find(self, side: Side | None, content: Attributes) -> Route:
        peers, links = self.router.hops(side, content)
        deliveries = self.local.index.deliveries(content)
        allowed = isinstance(side, Client) and (
            side.unrestricted
            or (matches(side.may_publish, content) and any(matches(f, content) for f in side.advertised()))
        )
        return self._route(peers, links, deliveries, allowed)

    def route_to(self, lanes: tuple[Lane, ...], content: Attributes) -> Route:
        """To these neighbours, and to whom of the clients here it is for: of a staged publication."""
        return self._route(lanes, None, self.local.index.deliveries(content), True)

    def _route(
        self,
        peers: tuple[Lane, ...],
        links: tuple[Queue, ...] | None,
        deliveries: list[tuple[int, bytes]],
        allowed: bool,
    ) -> Route:
        numbered, spill = self.core.numbered, self.local.spill
        active, dormant = spill.part(deliveries) if spill.dormant else (deliveries, [])
        key = self._fan_key(peers, links, deliveries)
        fan = self._fans.get(key) if key is not None else None
        if fan is not None:
            return Route(fan, tuple([ids for _, ids in (*active, *dormant)]), allowed)
        ids, streams = gather(active, numbered)
        fan = Fan(peers, streams, links)
        if dormant:
            fan.lead_to_spill(spill, [numbered[number] for number, _ in dormant])
            ids += tuple([each for _, each in dormant])
        if key is not None:
            self._fans[key] = fan
        return Route(fan, ids, allowed)

    def _fan_key(
        self, peers: tuple[Lane, ...], links: tuple[Queue, ...] | None, deliveries: list[tuple[int, bytes]]
    ) -> object | None:
        """Fans of few clients are the same object for the same destinations, so that publications with
        different attributes travel as one run; None for others."""
        if len(deliveries) > FAN_SHARED:
            return None
        if self._fans_at != self.local.generation or len(self._fans) >= FANS_SHARED:
            self._fans_at = self.local.generation
            self._fans.clear()
        queues = None if links is None else tuple([id(queue) for queue in links])
        return peers, queues, tuple([number for number, _ in deliveries])

    def _name(self, fan: Fan, publisher: int) -> None:
        """The clients hear the publisher's name before its first publication."""
        if (known := self.router.introduction(publisher)) is None:
            return
        clients = self._named_clients(publisher)
        if not clients.issuperset(fan.clients):
            for client in fan.clients:
                if client not in clients:
                    client.introduce(publisher, known.publisher_name, known.home_name)
                    clients.add(client)
        fan.named.add(publisher)

    def _named_clients(self, publisher: int) -> set[Client]:
        """Clients that know this publisher's name since the tables last changed."""
        if len(self._named_to) >= INTRODUCED and publisher not in self._named_to:
            self.local.generation += 1  # fans too are made anew, and who is still there is named again
        if self._named_at != self.local.generation:
            self._named_at = self.local.generation
            self._named_to.clear()
        return self._named_to.setdefault(publisher, set())

    def status(self) -> Status:
        return {
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "publishers_seen": len(self.seen),
        }
