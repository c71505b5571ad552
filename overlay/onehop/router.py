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


class Publisher(NamedTuple):
    incarnation: int
    name: str


class Part:
    """What a gather waits for that is no session."""

    __slots__ = ("gathers",)

    def __init__(self) -> None:
        self.gathers: dict[Gather, None] = {}


class OneHopRouter(Quiet):
    name = "publishers"

    def __init__(self, cluster: Cluster, placing: Placing, local: LocalSubscriptions) -> None:
        self.cluster, self.placing, self.local = cluster, placing, local
        self.publishers: dict[int, dict[int, Publisher]] = {}  # by id, by home
        self.sources: dict[Source, int] = {}  # -> homes that know it
        self.on_gone: list[Callable[[Source], None]] = []
        self._advertised: dict[Key, Client] = {}
        self._stale: dict[int, set[int]] = {}  # by home: publishers not named since its link is up

    def attach(self, core: Core) -> None:
        self.core = core
        self.cluster.met.append(self._dispatcher_met)
        core.on(PublisherNews, self.on_publisher)

    # --- where next ------------------------------------------------------------------------------------

    def hops(self, side: Side | None, content: Attributes) -> Hops:
        return NOBODY

    # --- who publishes ---------------------------------------------------------------------------------

    def introduction(self, publisher: int) -> Introduction | None:
        for home, known in self.publishers.get(publisher, {}).items():
            return Introduction(known.name, self.core.names.get(home, ""))
        return None

    def name_taken(self, publisher: int, incarnation: int) -> str:
        for home, known in self.publishers.get(publisher, {}).items():
            if known.incarnation != incarnation and home != self.core.id:
                return self.core.names.get(home, str(home))
        return ""

    def _learn(self, publisher: int, home: int, known: Publisher) -> None:
        homes = self.publishers.setdefault(publisher, {})
        if homes.get(home) != known:
            self._forget(publisher, home)
            self.publishers.setdefault(publisher, {})[home] = known
            source = publisher, known.incarnation
            self.sources[source] = self.sources.get(source, 0) + 1

    def _forget(self, publisher: int, home: int) -> bool:
        homes = self.publishers.get(publisher, {})
        if (known := homes.pop(home, None)) is None:
            return False
        if not homes:
            self.publishers.pop(publisher, None)
        source = publisher, known.incarnation
        self.sources[source] -= 1
        if not self.sources[source]:
            del self.sources[source]
            for call in self.on_gone:
                call(source)
        return True

    def on_publisher(self, member: Member, message: PublisherNews, now: float) -> None:
        if not message.publisher:  # that was all: what it did not say again is gone
            for publisher in self._stale.pop(member.id, ()):
                self._forget(publisher, member.id)
        elif message.gone:
            self._forget(message.publisher, member.id)
        else:
            self._learn(message.publisher, member.id, Publisher(message.incarnation, message.name))
            self._stale.get(member.id, set()).discard(message.publisher)

    def _dispatcher_met(self, member: Member, now: float) -> None:
        if self.cluster.roles & DISPATCHER and member.is_dispatcher and member is not self.cluster.itself:
            for publisher, homes in self.publishers.items():
                if (known := homes.get(self.core.id)) is not None:
                    member.tell(PublisherNews(publisher, known.incarnation, known.name))
            member.tell(PublisherNews(0, 0, "", True))
            self._stale[member.id] = {p for p, homes in self.publishers.items() if member.id in homes}

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            for key in [key for key, client in self._advertised.items() if client is session]:
                self.unadvertise(session, key, now)
        elif isinstance(session, Member):
            self._stale.pop(session.id, None)
            for publisher in [one for one, homes in self.publishers.items() if session.id in homes]:
                self._forget(publisher, session.id)

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
        self._advertised[key] = client
        known = Publisher(client.incarnation, client.name)
        if self.publishers.get(client.id, {}).get(self.core.id) != known:
            self._learn(client.id, self.core.id, known)
            self._tell(PublisherNews(client.id, known.incarnation, known.name))
        return key

    def unadvertise(self, client: Session, key: Key, now: float) -> None:
        if self._advertised.pop(key, None) is None:
            return
        if not any(other.id == client.id for other in self._advertised.values()):
            if self._forget(client.id, self.core.id):
                self._tell(PublisherNews(client.id, client.incarnation, client.name, True))

    def await_advertisement(self, key: Key, gather: Gather) -> None: ...

    def status(self) -> Status:
        return {"count": len(self.publishers)}

    def validate(self) -> None:
        counted: dict[Source, int] = {}
        for publisher, homes in self.publishers.items():
            for known in homes.values():
                source = publisher, known.incarnation
                counted[source] = counted.get(source, 0) + 1
        assert counted == self.sources
