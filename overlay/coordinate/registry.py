"""SPEC A4: what the coordinator knows: brokers, where they are, their subscribers, what results flow.

It follows what brokers report and nothing else: a plan is not a fact. A broker that does not report is given
nobody; after `GONE_S` it is gone, and whoever it had is nowhere until another broker reports it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from overlay.coordinate.loads import Assignment, Rate
from overlay.coordinate.placement import Candidate, Location

GONE_S = 30.0


class Subscriber(msgspec.Struct, frozen=True, array_like=True):
    """`movable`: it can be handed over to another broker."""

    movable: bool
    wanted: tuple[int, ...]  # back-end subscriptions, each once


class Reported(msgspec.Struct):
    """What a broker says to the coordinator: what has changed since the numbers that it was asked with."""

    id: int
    name: str
    incarnation: int
    addresses: tuple[str, ...]
    location: tuple[float, ...]
    serves: bool  # subscribers may be sent there
    clients: int
    since: tuple[int, int]
    through: tuple[int, int]
    more: bool
    subscribers: dict[str, Subscriber]
    gone: list[str]
    produced: dict[str, int]  # by back-end subscription: bytes of all results so far
    ended: list[str]
    stays: dict[str, str] = {}  # who was to go and has not, and why


class Known:
    """A broker."""

    __slots__ = (
        "name", "incarnation", "addresses", "location", "serves", "clients", "heard_at", "through",
        "subscribers", "produced",
    )  # fmt: skip

    def __init__(self, name: str, heard_at: float) -> None:
        self.name = name
        self.incarnation = 0
        self.addresses: tuple[str, ...] = ()
        self.location: tuple[float, ...] = ()
        self.serves = False
        self.clients = 0
        self.heard_at = heard_at  # or since when we wait for its first word
        self.through = (0, 0)
        self.subscribers: dict[str, Subscriber] = {}
        self.produced: dict[str, int] = {}

    @property
    def reported(self) -> bool:
        return self.incarnation != 0

    def candidate(self) -> Candidate:
        location: Location | None = None
        if len(self.location) == 2:
            location = (self.location[0], self.location[1])
        return Candidate(self.name, location)


class Registry:
    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.brokers: dict[str, Known] = {}
        self.homes: dict[str, str] = {}  # subscriber -> the broker that reported it last
        self.rates: dict[int, Rate] = {}
        self._totals: dict[int, int] = {}  # bytes so far, of all brokers that produce
        self._sampled_at: float | None = None

    def expect(self, name: str, now: float) -> None:
        """A broker that an earlier life of ours knew."""
        self.brokers.setdefault(name, Known(name, now))

    def knows(self) -> dict[str, tuple[int, int, int]]:
        """By broker: its incarnation, and up to which changes we have heard."""
        return {b.name: (b.incarnation, *b.through) for b in self.brokers.values() if b.reported}

    def take(self, report: Reported, now: float) -> None:
        known = self.brokers.setdefault(report.name, Known(report.name, now))
        known.incarnation = report.incarnation
        known.addresses, known.location = report.addresses, report.location
        known.serves, known.clients, known.heard_at = report.serves, report.clients, now
        if not report.since[0]:
            for name in list(known.subscribers):
                self._leaves(known, name)
        if not report.since[1]:
            known.produced = {}
        for name in report.gone:
            self._leaves(known, name)
        for name, subscriber in report.subscribers.items():
            known.subscribers[name] = subscriber
            self.homes[name] = known.name
        known.produced.update(report.produced)
        for be in report.ended:
            known.produced.pop(be, None)
        known.through = report.through

    def _leaves(self, known: Known, name: str) -> None:
        known.subscribers.pop(name, None)
        if self.homes.get(name) == known.name:
            del self.homes[name]

    def sample(self, now: float) -> None:
        """All reports of a round are in: what has been produced since the last one."""
        totals: dict[int, int] = {}
        for known in self.brokers.values():
            for text, so_far in known.produced.items():
                totals[int(text)] = totals.get(int(text), 0) + so_far
        first = self._sampled_at is None  # totals of before our time say nothing about a rate
        for be, total in totals.items():
            rate = self.rates.get(be)
            if rate is None:
                rate = self.rates[be] = Rate(self.window_s)
                rate.sample(0, now if self._sampled_at is None else self._sampled_at)
            before = self._totals.get(be, 0)
            # A total below the last one is that of a back end that started anew.
            rate.sample(0 if first else total - before if total >= before else total, now)
        for be in self.rates.keys() - totals.keys():
            del self.rates[be]
        self._totals, self._sampled_at = totals, now

    def forget_silent(self, now: float) -> list[str]:
        """Who is gone by now."""
        gone = [b for b in self.brokers.values() if b.heard_at < now - GONE_S]
        for known in gone:
            for name in list(known.subscribers):
                self._leaves(known, name)
            del self.brokers[known.name]
        return [known.name for known in gone]

    def serving(self) -> list[Known]:
        """In the order of their names, which is that of turns."""
        found = (b for b in self.brokers.values() if b.serves and b.reported)
        return sorted(found, key=lambda known: known.name)

    def silent(self, now: float, report_s: float) -> Iterator[str]:
        """Brokers whose report is overdue, or has not come yet."""
        for known in self.brokers.values():
            if not known.reported or known.heard_at < now - 2 * report_s:
                yield known.name

    def assignment(self) -> Loads:
        brokers = self.serving()
        numbers = {be: number for number, be in enumerate(sorted(self.rates))}
        subscribers: list[str] = []
        wanted: list[list[int]] = []
        home: list[int] = []
        fixed: set[int] = set()
        for broker, known in enumerate(brokers):
            for name, subscriber in sorted(known.subscribers.items()):
                if not subscriber.movable:
                    fixed.add(len(subscribers))
                subscribers.append(name)
                wanted.append([numbers.setdefault(be, len(numbers)) for be in subscriber.wanted])
                home.append(broker)
        rates = np.zeros(max(len(numbers), 1))
        for be, number in numbers.items():
            rates[number] = self.rates[be].value if be in self.rates else 0.0
        at = Assignment.of(max(len(brokers), 1), rates.tolist(), wanted, home)
        return Loads(at, [known.name for known in brokers], subscribers, fixed)


class Loads:
    """An assignment, and whom its numbers stand for. `fixed` cannot be moved."""

    __slots__ = ("at", "brokers", "subscribers", "fixed")

    def __init__(self, at: Assignment, brokers: list[str], subscribers: list[str], fixed: set[int]) -> None:
        self.at = at
        self.brokers = brokers
        self.subscribers = subscribers
        self.fixed = fixed
