"""The model of loss, restart and relocation: a fixed tree, links that break, sides that are given up.

Everything said on a link follows from what is known: what should be told is computed and the difference is
sent (telling.py), so no message is forgotten by a rule; what is owed to a neighbour is computed again after
every event. Channels are FIFO for control and publications.

Properties: P1 what is settled and not cut was delivered to every subscription confirmed before acceptance
whose home did not crash; P2 once and in order; P3 when faults stop everything settles and the tables are
what brute force says (properties.py); P5 nothing is cut if no side and no subscriber's home was ever lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tests.model.explorer import Event, frozen
from tests.model.ownership import events, properties
from tests.model.ownership.state import Broker, Link, Publisher, Subscriber


@dataclass(frozen=True)
class Limits:
    faults: int = 3
    relocations: int = 0
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
        self.edges = [(parent, child) for child, parent in enumerate(parents) if parent is not None]
        self.neighbours = {
            one: {a + b - one for a, b in self.edges if one in (a, b)} for one in range(len(parents))
        }
        self.connected = dict.fromkeys(self.edges, False)
        self.brokers = [self.fresh_broker(one) for one in range(len(parents))]
        self.channels: dict[tuple[int, int], list[Event]] = {}
        for one, other in self.edges:
            self.channels[one, other], self.channels[other, one] = [], []
        self.sessions = 0
        self.publisher = Publisher(publisher)
        self.subscribers = {one: Subscriber() for one in subscribers}
        self.owed: dict[int, set[int]] = {}
        self.faults = self.relocations = self.losses = 0

    def fresh_broker(self, one: int) -> Broker:
        neighbours = self.neighbours[one]
        return Broker(set(neighbours), {other: Link() for other in sorted(neighbours)}, ready=not neighbours)

    def on(self, rule: str) -> bool:
        return rule not in self.without

    def edge(self, one: int, other: int) -> tuple[int, int]:
        return (one, other) if (one, other) in self.connected else (other, one)

    def path(self, one: int, other: int) -> list[int]:
        came = {one: one}
        queue = deque([one])
        while other not in came:
            here = queue.popleft()
            for neighbour in self.neighbours[here]:
                if neighbour not in came:
                    came[neighbour] = here
                    queue.append(neighbour)
        path = [other]
        while path[-1] != one:
            path.append(came[path[-1]])
        return path[::-1]

    def send(self, one: int, other: int, *message: object) -> None:
        if self.connected[self.edge(one, other)]:
            self.channels[one, other].append(message)

    # --- what the explorer asks -----------------------------------------------------------------------

    def events(self, free: bool = False) -> list[Event]:
        return events.possible(self, self.limits)

    def do(self, event: Event) -> None:
        events.do(self, event)

    def calm(self, random: Random | None, done: list[Event]) -> None:
        properties.check_at_rest(self, random, done)

    def key(self) -> Hashable:
        return (
            frozen(self.brokers),
            frozen(self.channels),
            tuple(self.connected.values()),
            frozen(self.publisher),
            frozen(self.subscribers),
            frozen(self.owed),
            self.faults,
            self.relocations,
        )
