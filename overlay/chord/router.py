"""What a ring says to the parts that all overlays share (data/router.py).

A subscription is refused unless each of its alternatives names topics; it is confirmed when the roots of
all of them know this broker. An advertisement is the publisher's own promise, kept at its first broker and
nowhere else. Names of publishers come with their first publication on each link (path.py); the latest are
remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Protocol

from grapevine.filters.normal import Filter
from matching.interface import Attributes
from overlay.behaviour import Quiet, Status
from overlay.chord.topics import Refusal, Term, key_of, terms_of, topics_of
from overlay.core import Core
from overlay.data.client import Client, Key
from overlay.data.duplicates import Source
from overlay.data.local import LocalSubscriptions
from overlay.data.router import Introduction
from overlay.data.routes import NOBODY, Hops, Side
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.settings import TopicSettings

NAMES = 100_000


class Wanted(Protocol):
    """Where it is said what the subscribers here want."""

    @property
    def subscribed(self) -> dict[int, int]: ...
    @property
    def known(self) -> dict[int, bool]: ...
    def subscribe(
        self, topics: Iterable[int], confirmed: Callable[[float], None], now: float, lasting: bool = False
    ) -> None: ...
    def await_known(self, topics: Iterable[int], confirmed: Callable[[float], None], now: float) -> None: ...
    def unsubscribe(self, topics: Iterable[int], now: float, lasting: bool = False) -> None: ...


class Subscribed:
    __slots__ = ("client", "filter", "number", "topics")

    def __init__(self, client: Session, filter: Filter, number: int, topics: frozenset[int]) -> None:
        self.client, self.filter, self.number, self.topics = client, filter, number, topics


def is_lasting(client: Session) -> bool:
    """Streams are owed what is published while their broker is away."""
    return isinstance(client, Client) and client.lasting


class Names:
    """Of publishers and their brokers; those that were heard of longest ago go."""

    def __init__(self) -> None:
        self._known: dict[int, Introduction] = {}

    def learn(self, publisher: int, name: str, home_name: str) -> None:
        self._known.pop(publisher, None)
        self._known[publisher] = Introduction(name, home_name)
        if len(self._known) > NAMES:
            del self._known[next(iter(self._known))]

    def get(self, publisher: int) -> Introduction | None:
        return self._known.get(publisher)

    def __len__(self) -> int:
        return len(self._known)


class Everybody:
    """Duplicates are remembered by publisher and topic, elsewhere."""

    def __contains__(self, source: object) -> bool:
        return True


class ChordRouter(Quiet):
    name = "subscriptions"

    def __init__(self, settings: TopicSettings, local: LocalSubscriptions, wants: Wanted) -> None:
        self.terms: tuple[Term, ...] = terms_of(settings.by)
        self.most = settings.most
        self.local = local
        self.wants = wants
        self.names = Names()
        self.sources: Container[Source] = Everybody()
        self.on_gone: list[Callable[[Source], None]] = []
        # A subscription begins or ends: of whom, and how many topics this broker joins or leaves with it.
        self.on_change: list[Callable[[Session, int, float], None]] = []
        self.subscriptions: dict[Key, Subscribed] = {}
        self.advertisements: dict[Key, tuple[Session, Filter]] = {}
        self._numbers = 0
        self._free: list[int] = []

    def attach(self, core: Core) -> None:
        self.core = core

    def link_lost(self, session: Session, now: float) -> None:
        for key in [key for key, (client, _) in self.advertisements.items() if client is session]:
            del self.advertisements[key]

    # --- publications -----------------------------------------------------------------------------------

    def hops(self, side: Side | None, content: Attributes) -> Hops:
        """The path itself knows the ways (path.py); a route is what is delivered here."""
        return NOBODY

    def introduction(self, publisher: int) -> Introduction | None:
        client = self.core.clients.get(publisher)
        if client is not None and client.advertisements:
            return Introduction(client.name, self.core.name)
        return self.names.get(publisher)

    # --- subscriptions ----------------------------------------------------------------------------------

    def refusal(self, filter: Filter) -> str:
        found = topics_of(filter, self.terms, self.most)
        return found.text if isinstance(found, Refusal) else ""

    def topics(self, filter: Filter) -> frozenset[str]:
        found = topics_of(filter, self.terms, self.most)
        return frozenset() if isinstance(found, Refusal) else found

    def subscribe(self, client: Session, filter: Filter, number: int, gather: Gather, now: float) -> Key:
        key = (self.core.id, self.core.serial())
        topics = frozenset(sorted(map(key_of, self.topics(filter))))  # in one order under every hash seed
        if not self._free:
            self._numbers += 1
            self._free.append(self._numbers)
        place = self._free.pop()
        self.subscriptions[key] = Subscribed(client, filter, place, topics)
        self.local.add(place, filter, client.number, number)
        if self.on_change:
            self._tell_change(client, topics, now)
        self.wants.subscribe(topics, self._confirming(client, gather), now, is_lasting(client))
        return key

    def _tell_change(self, client: Session, topics: frozenset[int], now: float) -> None:
        """Before the first of them is wanted, or after the last."""
        changed = sum(topic not in self.wants.subscribed for topic in topics)
        for call in self.on_change:
            call(client, changed, now)

    def _confirming(self, client: Session, gather: Gather) -> Callable[[float], None]:
        """The client stands for all who must know: its session ends the wait as well."""
        gather.wait_for(client)

        def confirmed(now: float) -> None:
            gather.answer(client, None, now)

        return confirmed

    def unsubscribe(self, client: Session, key: Key, now: float) -> None:
        known = self.subscriptions.pop(key, None)
        if known is not None:
            self.local.remove(known.number, known.filter)
            self._free.append(known.number)
            self.wants.unsubscribe(known.topics, now, is_lasting(known.client))
            if self.on_change:
                self._tell_change(client, known.topics, now)

    def await_subscription(self, key: Key, gather: Gather) -> None:
        known = self.subscriptions[key]
        self.wants.await_known(known.topics, self._confirming(known.client, gather), self.core.now)

    def filter_of(self, key: Key) -> Filter:
        return self.subscriptions[key].filter

    # --- advertisements ---------------------------------------------------------------------------------

    def name_taken(self, publisher: int, incarnation: int) -> str:
        return ""

    def advertise(
        self, client: Session, filter: Filter, gather: Gather, now: float, stand_in: bool = False
    ) -> Key:
        key = (self.core.id, self.core.serial())
        self.advertisements[key] = (client, filter)
        self.names.learn(client.id, client.name, self.core.name)
        return key

    def unadvertise(self, client: Session, key: Key, now: float) -> None:
        self.advertisements.pop(key, None)

    def await_advertisement(self, key: Key, gather: Gather) -> None: ...

    # --- what it looks like -----------------------------------------------------------------------------

    def status(self) -> Status:
        return {"subscriptions": len(self.subscriptions), "topics": len(self.wants.subscribed)}

    def validate(self) -> None:
        counted: dict[int, int] = {}
        for known in self.subscriptions.values():
            for topic in known.topics:
                counted[topic] = counted.get(topic, 0) + 1
            assert isinstance(known.client, Client)
        assert counted == self.wants.subscribed, (counted, self.wants.subscribed)
