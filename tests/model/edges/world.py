"""The model of edge changes: brokers that take other parents and crash, with publications on their way.

One publisher with one advertisement that everybody knows, subscriptions at some brokers. The side of an entry
is the first hop to its home by the broker's own view of the edges. Sides are never given up here (that is the
model of ownership); what cannot be reached is held.

Properties: P1 settled is delivered to every subscription whose home did not crash; P2 once and in order;
P3 when faults stop there is one tree, everything is settled and the tables are right; P4 no cycle of edges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from tests.model.edges import events, properties
from tests.model.edges.state import Broker, Edge, Link, Stamp, path, side
from tests.model.explorer import Event, frozen


@dataclass(frozen=True)
class Limits:
    changes: int = 2
    breaks: int = 1
    crashes: int = 1
    publications: int = 2


class World:
    def __init__(
        self,
        parents: Sequence[int | None],
        publisher: int,
        subscribers: Iterable[int],
        limits: Limits,
        without: Iterable[str] = (),
    ) -> None:
        self.limits = limits
        self.without = frozenset(without)
        self.count = len(parents)
        self.publisher = publisher
        self.subscribers = frozenset(subscribers)
        edges = {child: Edge(1, parent, True) for child, parent in enumerate(parents)}
        self.brokers = [Broker(dict(edges), subscribed=one in self.subscribers) for one in range(self.count)]
        self.disks: list[tuple[Edge, set[int]]] = [(edges[one], set()) for one in range(self.count)]
        self.channels: dict[tuple[int, int], list[Event]] = {}
        self.sessions = 0
        self.sequence = 0
        self.unsettled: list[int] = []
        self.owed: dict[int, frozenset[int]] = {}
        self.ended: set[int] = set()  # subscribers whose home has crashed
        self.changes = self.breaks = self.crashes = 0
        for child, edge in edges.items():
            if edge.parent is not None:
                self.connect(child, edge.parent)
        self._tell_all(edges)

    def _tell_all(self, edges: dict[int, Edge]) -> None:
        """At the start everything is synchronised and confirmed."""
        for broker in self.brokers:
            for link in broker.links.values():
                link.tables_in = link.sync_said = link.sync_heard = link.sync_ever = True
        for here, broker in enumerate(self.brokers):
            for there, link in broker.links.items():
                link.asked = side(edges, here, self.publisher) != there
        for key in self.subscribers:
            way = path(edges, key, self.publisher)
            assert way is not None
            for here, there in pairwise(way):
                self.brokers[there].links[here].heard.add(key)
                self.brokers[here].links[there].announced.add(key)

    def connect(self, one: int, other: int) -> None:
        """A link that was not there, or that one side alone still waits for."""
        self.sessions += 1
        for here, there in ((one, other), (other, one)):
            links = self.brokers[here].links
            if there not in links or links[there].gone:
                links[there] = Link()
            self.new_session(here, there)
            links[there].up = True
            self.channels[here, there] = []
            self.disks[here][1].add(there)

    def new_session(self, one: int, other: int) -> None:
        """One of the two has forgotten the other: what is retained goes again, under new positions."""
        broker = self.brokers[one]
        link = broker.links[other]
        link.session, link.received, link.done = self.sessions, 0, set()
        for settle in broker.settles.values():
            if settle.source == other:
                settle.position = None
        link.retained = [
            entry._replace(position=place, sent=False) for place, entry in enumerate(link.retained, 1)
        ]
        link.next = 1 + len(link.retained)

    def on(self, rule: str) -> bool:
        return rule not in self.without

    def send(self, one: int, other: int, *message: object) -> None:
        link = self.brokers[one].links[other]
        if link.up and not link.gone:
            self.channels[one, other].append(message)

    def parent_reached(self, one: int) -> int | None:
        """The parent, if the link to it is up at both ends."""
        parent = self.brokers[one].view[one].parent
        if parent is None:
            return None
        link, back = self.brokers[one].links.get(parent), self.brokers[parent].links.get(one)
        both = (
            link is not None and back is not None and link.up and back.up and not link.gone and not back.gone
        )
        return parent if both else None

    def stamp(self, one: int) -> Stamp:
        view = self.brokers[one].view
        return tuple([view[other].number if other in view else 0 for other in range(self.count)])

    # --- what the explorer asks -----------------------------------------------------------------------

    def events(self, free: bool = False) -> list[Event]:
        return events.possible(self, replace(self.limits, changes=self.changes + 1) if free else self.limits)

    def do(self, event: Event) -> None:
        events.do(self, event)
        properties.check_cycle(self)

    def calm(self, random: Random | None, done: list[Event]) -> None:
        properties.check_at_rest(self, random, done)

    def key(self) -> Hashable:
        return (
            frozen(self.brokers),
            frozen(self.channels),
            frozen(self.disks),
            self.sequence,
            tuple(self.unsettled),
            frozen(self.ended),
            self.changes,
            self.breaks,
            self.crashes,
        )
