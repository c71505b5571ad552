"""The one-hop cluster as the shared parts see it: subscriptions by placing, publishers by word of their
homes.

A publication's way is asked for (`asking`), so there are no hops here. Every dispatcher hears of a publisher
before its first publication: links carry control in front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from grapevine.filters.normal import Filter
from grapevine.wire.onehop import DISPATCHER, PublisherNews
from matching.interface import Attributes
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client, Key
from overlay.data.duplicates import Source
from overlay.data.local import LocalSubscriptions
from overlay.data.router import Introduction
from overlay.data.routes import NOBODY, Hops, Side
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.onehop.cluster import Cluster
from overlay.onehop.member import Member
from overlay.onehop.placing import Placing


class Place(NamedTuple):
    """Where a publisher is or was. One that stands in for it after a restart has the same name and an earlier
    incarnation, perhaps at the same home."""

    home: int
    incarnation: int


class Publisher(NamedTuple):
    name: str
    stand_in: bool = False


class Part:
    """What a gather waits for that is no session."""

    __slots__ = ("gathers",)

    def __init__(self) -> None:
        self.gathers: dict[Gather, None] = {}


class OneHopRouter(Quiet):
    name = "publishers"

    def __init__(self, cluster: Cluster, placing: Placing, local: LocalSubscriptions) -> None:
        self.cluster, self.placing, self.local = cluster, placing, local
        self.publishers: dict[int, dict[Place, Publisher]] = {}  # by id
        self.sources: dict[Source, int] = {}  # -> homes that know it
        self.on_gone: list[Callable[[Source], None]] = []
        # Of the clients here, by key: who advertises, and whether as a stand-in.
        self._advertised: dict[Source, dict[Key, tuple[Client, bool]]] = {}
        self._stale: dict[int, set[Source]] = {}  # by home: publishers not named since its link is up

    def attach(self, core: Core) -> None:
        self.core = core
        self.cluster.met.append(self._dispatcher_met)
        core.on(PublisherNews, self.on_publisher)

    # --- where next ------------------------------------------------------------------------------------

    def hops(self, side: Side | None, content: Attributes) -> Hops:
        return NOBODY

    # --- who publishes ---------------------------------------------------------------------------------

    def introduction(self, publisher: int) -> Introduction | None:
        places = self.publishers.get(publisher, {})
        for place in sorted(places, key=lambda place: places[place].stand_in):
            return Introduction(places[place].name, self.core.names.get(place.home, ""))
        return None

    def name_taken(self, publisher: int, incarnation: int) -> str:
        for place, known in self.publishers.get(publisher, {}).items():
            if place.incarnation != incarnation and place.home != self.core.id and not known.stand_in:
                return self.core.names.get(place.home, str(place.home))
        return ""

    def _learn(self, publisher: int, place: Place, known: Publisher) -> None:
        places = self.publishers.setdefault(publisher, {})
        if place not in places:
            source = publisher, place.incarnation
            self.sources[source] = self.sources.get(source, 0) + 1
        places[place] = known

    def _forget(self, publisher: int, place: Place) -> bool:
        places = self.publishers.get(publisher, {})
        if places.pop(place, None) is None:
            return False
        if not places:
            self.publishers.pop(publisher, None)
        source = publisher, place.incarnation
        self.sources[source] -= 1
        if not self.sources[source]:
            del self.sources[source]
            for call in self.on_gone:
                call(source)
        return True

    def on_publisher(self, member: Member, message: PublisherNews, now: float) -> None:
        if not message.publisher:  # that was all: what it did not say again is gone
            for publisher, incarnation in self._stale.pop(member.id, ()):
                self._forget(publisher, Place(member.id, incarnation))
            return
        place = Place(member.id, message.incarnation)
        if message.gone:
            self._forget(message.publisher, place)
        else:
            self._learn(message.publisher, place, Publisher(message.name, message.stand_in))
            self._stale.get(member.id, set()).discard((message.publisher, message.incarnation))

    def _dispatcher_met(self, member: Member, now: float) -> None:
        if self.cluster.roles & DISPATCHER and member.is_dispatcher and member is not self.cluster.itself:
            for publisher, place in self._at(self.core.id):
                known = self.publishers[publisher][place]
                member.tell(PublisherNews(publisher, place.incarnation, known.name, False, known.stand_in))
            member.tell(PublisherNews(0, 0, "", True))
            self._stale[member.id] = {
                (publisher, place.incarnation) for publisher, place in self._at(member.id)
            }

    def _at(self, home: int) -> list[tuple[int, Place]]:
        return [
            (publisher, place)
            for publisher, places in self.publishers.items()
            for place in places
            if place.home == home
        ]

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            ways = self._advertised.get((session.id, session.incarnation), {})
            for key in [key for key, (client, _) in ways.items() if client is session]:
                self.unadvertise(session, key, now)
        elif isinstance(session, Member):
            self._stale.pop(session.id, None)
            for publisher, place in self._at(session.id):
                self._forget(publisher, place)

    def _tell(self, news: PublisherNews) -> None:
        for member in self.cluster.dispatchers():
            member.tell(news)

    # --- registration ------------------------------------------------------------------------------------

    def refusal(self, filter: Filter) -> str:
        return ""

    def subscribe(self, client: Session, filter: Filter, number: int, gather: Gather, now: float) -> Key:
        assert isinstance(client, Client)
        serial = self.placing.subscribe(client, number, filter, now)
        self.local.generation += 1
        key = self.core.id, serial
        self.await_subscription(key, gather)
        return key

    def unsubscribe(self, client: Session, key: Key, now: float) -> None:
        if key[1] in self.placing.subscriptions:
            self.placing.unsubscribe(key[1], now)
            self.local.generation += 1

    def await_subscription(self, key: Key, gather: Gather) -> None:
        part = Part()
        gather.wait_for(part)  # type: ignore[arg-type]
        self.placing.when_confirmed(
            key[1],
            lambda later: gather.answer(part, None, later),  # type: ignore[arg-type]
            self.core.now,
        )

    def filter_of(self, key: Key) -> Filter:
        return self.placing.subscriptions[key[1]].filter

    def advertise(
        self, client: Session, filter: Filter, gather: Gather, now: float, stand_in: bool = False
    ) -> Key:
        assert isinstance(client, Client)
        key = self.core.id, self.core.serial()
        self._advertised.setdefault((client.id, client.incarnation), {})[key] = client, stand_in
        self._announce(client)
        return key

    def unadvertise(self, client: Session, key: Key, now: float) -> None:
        source = client.id, client.incarnation
        ways = self._advertised.get(source, {})
        if ways.pop(key, None) is not None:
            if not ways:
                del self._advertised[source]
            assert isinstance(client, Client)
            self._announce(client)

    def _announce(self, client: Client) -> None:
        """The other dispatchers hear what is new about it."""
        source, place = (client.id, client.incarnation), Place(self.core.id, client.incarnation)
        ways = self._advertised.get(source, {})
        known = Publisher(client.name, all(stand_in for _, stand_in in ways.values()))
        if not ways:
            if self._forget(client.id, place):
                self._tell(PublisherNews(*source, client.name, True))
        elif self.publishers.get(client.id, {}).get(place) != known:
            self._learn(client.id, place, known)
            self._tell(PublisherNews(*source, client.name, False, known.stand_in))

    def await_advertisement(self, key: Key, gather: Gather) -> None: ...

    def status(self) -> Status:
        return {"count": len(self.publishers)}

    def validate(self) -> None:
        counted: dict[Source, int] = {}
        for publisher, places in self.publishers.items():
            for place in places:
                source = publisher, place.incarnation
                counted[source] = counted.get(source, 0) + 1
        assert counted == self.sources
