"""A tree of real daemons under churn, and an oracle that decides what each client must have had.

A publication that its publisher knows to be settled is owed, exactly once and in its publisher's order, to
every matching subscription that was confirmed before it was published and stayed until it was settled. A
client whose broker was killed has a gap from the kill to the moment all its subscriptions are confirmed
again, a publisher whose broker was killed one until the broker is back: another broker that took it in
meanwhile was cut off from part of the tree. A link that broke by itself (a busy machine is enough) is a gap
for everybody, read off the brokers' logs. What was under way in a gap, or was not settled, may come once or
not at all. Nothing may come twice, out of order, or to a subscription that does not match.

`python -m tests.system.exactness SEED...` plays the scene for each seed and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import grapevine
from grapevine.client.session import State
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter, Value
from tests.system.overlay import Overlay, eventually
from tools.simulator.random_filters import random_attributes, random_filter

CLASSES = ("STOCK", "BOND", "FUND")
PATIENCE_S = 40.0  # for what is settled and has not come: longer than links.lost_after_s
LOOK_S = 0.5


@dataclass
class Published:
    attributes: dict[str, Value]
    at: float
    settled_at: float = inf


@dataclass(eq=False)
class Reader:
    """A subscription, and what has come for it."""

    owner: Subscriber
    filter: Filter
    handle: grapevine.Subscription
    confirmed_at: float
    ended_at: float = inf
    got: list[tuple[str, int]] = field(default_factory=list)
    misnamed: list[tuple[str, int, str, int]] = field(default_factory=list)

    def take(self) -> None:
        try:
            while batch := self.handle.next_batch(10_000, timeout=0):
                for message in batch:
                    assert self.handle.number in message.subscriptions
                    name, _, sequence = message.payload.decode().partition(" ")
                    self.got.append((name, int(sequence)))
                    if (message.publisher, message.sequence) != self.got[-1]:
                        self.misnamed.append((name, int(sequence), message.publisher, message.sequence))
        except grapevine.Closed:
            pass


@dataclass(eq=False)
class Subscriber:
    name: str
    broker: str
    client: grapevine.Client
    readers: list[Reader] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)

    def whole(self) -> bool:
        """Attached, with every subscription confirmed."""
        states = [reader.handle._state for reader in self.readers]
        return self.client._session.state == State.ATTACHED and all(state.confirmed for state in states)


@dataclass(eq=False)
class Publisher:
    name: str
    broker: str
    client: grapevine.Client
    word: str  # the class that it has advertised; "" for any
    gaps: list[tuple[float, float]] = field(default_factory=list)
    sent: dict[int, Published] = field(default_factory=dict)


Sent = dict[tuple[str, int], tuple[Publisher, Published]]


class Scene:
    def __init__(
        self,
        directory: Path,
        seed: int,
        brokers: int,
        publishers: int,
        subscribers: int,
        ping_s: float = 2.0,  # short ones break links by themselves on a busy machine
    ) -> None:
        self.random = Random(seed)
        self.ping_s = ping_s
        self.killed: list[str] = []
        self.began = 0.0
        delta = self.random.choice((1, 2, 4))
        self.overlay = Overlay(directory, overlay={"delta": delta}, links={"ping_s": ping_s})
        self.parents: dict[str, str] = {}
        for number in range(brokers):
            parent = f"b{self.random.randrange(number)}" if number else ""
            self.parents[f"b{number}"] = parent
            self.overlay.add(f"b{number}", parent)
        self.subscribers: list[Subscriber] = []
        self.gone: list[Subscriber] = []
        self.publishers: list[Publisher] = []
        self._wanted = (publishers, subscribers)
        self._names = 0

    def __enter__(self) -> Scene:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        for daemon in self.overlay.daemons.values():
            daemon.start()
        for daemon in self.overlay.daemons.values():
            daemon.ready(60)
        self.began = time.time()
        publishers, subscribers = self._wanted
        for _ in range(subscribers):
            self.join()
        for number in range(publishers):
            self._add_publisher(number)

    def __exit__(self, *error: object) -> None:
        self._each([lambda c=c: c.client.close(0) for c in (*self.publishers, *self.subscribers)])  # type: ignore[misc]
        self.overlay.__exit__()

    # --- who is there ------------------------------------------------------------------------------

    def _connect(self, name: str, broker: str) -> grapevine.Client:
        near = [other for other, parent in self.parents.items() if parent == broker]
        near += [self.parents[broker]] if self.parents[broker] else []
        addresses = [self.overlay[name].address for name in (broker, *near)]
        return grapevine.connect(addresses, name, keys=self.overlay[broker].keys, timeout=30)

    def join(self) -> None:
        self._names += 1
        broker = self.random.choice(list(self.parents))
        subscriber = Subscriber(name := f"s{self._names}", broker, self._connect(name, broker))
        self.subscribers.append(subscriber)
        self.subscribe(subscriber, self.random.randint(3, 12))

    def _add_publisher(self, number: int) -> None:
        broker = self.random.choice(list(self.parents))
        publisher = Publisher(name := f"p{number}", broker, self._connect(name, broker), "")
        if number % 2:
            publisher.word = self.random.choice(CLASSES)
            publisher.client.advertise(f"class = '{publisher.word}'")
        self.publishers.append(publisher)

    def leave(self, subscriber: Subscriber) -> None:
        self.subscribers.remove(subscriber)
        self.gone.append(subscriber)
        now = time.time()
        for reader in subscriber.readers:
            reader.ended_at = min(reader.ended_at, now)
            reader.take()
        subscriber.client.close()

    def subscribe(self, subscriber: Subscriber, count: int) -> None:
        for _ in range(count):
            wanted = random_filter(self.random)
            handle = subscriber.client.subscribe(wanted, timeout=60)
            subscriber.readers.append(Reader(subscriber, wanted, handle, time.time()))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        live = [reader for reader in subscriber.readers if reader.ended_at == inf]
        if live:
            reader = self.random.choice(live)
            reader.ended_at = time.time()
            reader.take()
            reader.handle.unsubscribe(timeout=60)
            subscriber.readers.remove(reader)
            subscriber.readers.insert(0, reader)

    def change(self, steps: int) -> None:
        """Subscriptions come and go, now and then a client does."""
        for _ in range(steps):
            draw = self.random.random()
            subscriber = self.random.choice(self.subscribers)
            if draw < 0.08:
                self.leave(subscriber)
                self.join()
            elif draw < 0.55:
                self.subscribe(subscriber, 1)
            else:
                self.unsubscribe(subscriber)

    # --- publications ------------------------------------------------------------------------------

    def publish(self, each: int, seed: int) -> None:
        """Every publisher publishes and waits until its publications are settled."""
        self._each([lambda p=p: self._publish(p, each, seed) for p in self.publishers])  # type: ignore[misc]

    def _publish(self, publisher: Publisher, count: int, seed: int) -> None:
        random = Random(f"{seed} {publisher.name}")
        mine = []
        for _ in range(count):
            attributes = random_attributes(random)
            if publisher.word:
                attributes["class"] = publisher.word
            at = time.time()
            number = len(publisher.sent) + 1
            sequence = publisher.client.publish(attributes, f"{publisher.name} {number}".encode())
            assert sequence == number
            publisher.sent[sequence] = Published(attributes, at)
            mine.append(sequence)
        lost: set[int] = set()
        try:
            publisher.client.flush(timeout=60)
        except grapevine.Undelivered as error:
            lost = {n for first, last in error.ranges for n in range(first, last + 1)}
        now = time.time()
        for sequence in mine:
            if sequence not in lost:
                publisher.sent[sequence].settled_at = now

    def _each(self, calls: list[Callable[[], Any]]) -> None:
        """All at once; the first error is raised."""
        errors: list[BaseException] = []

        def run(call: Callable[[], Any]) -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def at_once(self, *calls: Callable[[], Any]) -> None:
        self._each(list(calls))

    # --- a crash -----------------------------------------------------------------------------------

    def kill_and_restart(self, after_s: float, down_s: float, victim: str = "") -> None:
        """A broker (one with neighbours on both sides) is killed in the middle of it all, and comes back."""
        time.sleep(after_s)
        inner = [name for name, parent in self.parents.items() if parent and name in self.parents.values()]
        victim = victim or self.random.choice(inner or ["b0"])
        self.killed.append(f"neighbour {victim} ")
        began = time.time()
        self.overlay[victim].kill()
        time.sleep(down_s)
        moved = [p for p in self.publishers if victim in (p.broker, p.client.broker)]
        self.overlay[victim].start().ready(60)
        for subscriber in self.subscribers:
            if subscriber.broker == victim or subscriber.client.broker == victim or not subscriber.whole():
                eventually(subscriber.whole, 60)
                subscriber.gaps.append((began, time.time()))
        for publisher in moved:
            publisher.client.flush(timeout=60)
            publisher.gaps.append((began, time.time()))

    # --- the oracle --------------------------------------------------------------------------------

    def disturbances(self) -> list[tuple[float, float]]:
        """When links broke that nobody had broken on purpose, with the silence before and the sync after."""
        found = []
        for daemon in self.overlay.daemons.values():
            for line in daemon.log_file.read_text().splitlines():
                if (
                    "neighbour" in line
                    and "is disconnected" in line
                    and not any(k in line for k in self.killed)
                ):
                    at = datetime.fromisoformat(line[:23]).timestamp()
                    if at > self.began:  # before, brokers were still looking for their parents
                        found.append((at - 3 * self.ping_s - 1, at + 5))
        return found

    def judge(self) -> Verdict:
        return judged(self.disturbances(), self.publishers, [*self.subscribers, *self.gone])


def judged(
    disturbances: list[tuple[float, float]], publishers: list[Publisher], subscribers: list[Subscriber]
) -> Verdict:
    """A client that was silent for `stall_s` holds nobody up (DECISIONS 2): what is settled then waits at its
    broker and comes when the client is heard of again, at the latest when its session would be given up."""
    sent: Sent = {(p.name, s): (p, one) for p in publishers for s, one in p.sent.items()}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        verdict = Verdict(disturbances)
        for subscriber in subscribers:
            for reader in subscriber.readers:
                reader.take()
                verdict.hear(reader, sent)
        if not verdict.missing or time.monotonic() > deadline:
            return verdict
        time.sleep(LOOK_S)


@dataclass
class Verdict:
    disturbances: list[tuple[float, float]]
    owed: int = 0
    missing: int = 0  # of these
    came: int = 0
    excused: int = 0
    wrong: list[str] = field(default_factory=list)

    def hear(self, reader: Reader, sent: Sent) -> None:
        who = f"{reader.owner.name}/{reader.handle.number}"
        self.came += len(reader.got)
        had = set(reader.got)
        self.wrong += [f"{who}: {n} {s} came as {name!r} {number}" for n, s, name, number in reader.misnamed]
        if len(had) != len(reader.got):
            self.wrong.append(f"{who} had something twice")
        last: dict[str, int] = {}
        for name, sequence in reader.got:
            if last.get(name, 0) >= sequence:
                self.wrong.append(f"{who} had {name} {sequence} after {last[name]}")
            last[name] = sequence
        for key, (publisher, publication) in sent.items():
            if not matches(reader.filter, publication.attributes):
                if key in had:
                    self.wrong.append(f"{who} had {key}, which does not match")
            elif self._is_owed(reader, publisher, publication):
                self.owed += 1
                if key not in had:
                    self.missing += 1
                    self.wrong.append(f"{who} at {reader.owner.broker} never had {key}")
            else:
                self.excused += key not in had

    def _is_owed(self, reader: Reader, publisher: Publisher, publication: Published) -> bool:
        if not reader.confirmed_at < publication.at <= publication.settled_at < reader.ended_at:
            return False
        gaps = reader.owner.gaps + publisher.gaps + self.disturbances
        return not any(publication.at <= end and publication.settled_at >= begin for begin, end in gaps)


def play(directory: Path, seed: int, kill: bool = True) -> Verdict:
    """Fifteen daemons, twenty clients: quiet, churn, churn while publishing, a crash, and quiet again."""
    with Scene(directory, seed, brokers=15, publishers=6, subscribers=14) as scene:
        scene.publish(60, seed)
        scene.change(60)
        scene.publish(60, seed + 1)
        scene.at_once(lambda: scene.publish(100, seed + 2), lambda: scene.change(60))
        if kill:
            scene.at_once(lambda: scene.publish(300, seed + 3), lambda: scene.kill_and_restart(0.1, 0.5))
        scene.change(30)
        scene.publish(60, seed + 4)
        return scene.judge()


if __name__ == "__main__":
    total = Verdict([])
    for seed in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as place:
            verdict = play(Path(place), seed)
        total.owed += verdict.owed
        total.came += verdict.came
        total.wrong += [f"seed {seed}: {text}" for text in verdict.wrong]
        print(f"seed {seed}: {verdict.owed} owed, {len(verdict.wrong)} wrong", file=sys.stderr)
    print(json.dumps({"owed": total.owed, "came": total.came, "wrong": total.wrong[:20]}))
    sys.exit(1 if total.wrong else 0)
