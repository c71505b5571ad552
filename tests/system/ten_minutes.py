"""Minutes of kill -9, SIGSTOP and frozen connections over seven daemons, with four publishers that fail over.

*Judged* by this one process, which knows what was settled, told and delivered, all by one clock: whatever a
publisher knows to be settled reached every subscriber that was confirmed when it was published, once and in
its publisher's order; or the publisher was told (Undelivered names it), or the subscriber was (its session
ended, and it was settled since, or published before the subscriber was confirmed again). `client.partial`
excuses only what was accepted while it named a broker on the way from the publisher's to the subscriber's.
When the faults are over, everything is settled and everybody hears everybody within `REST_S`: nobody is
stuck.

`python -m tests.system.ten_minutes [MINUTES [SEED [LOGS]]]` prints one line of JSON, and `0 wrong` if so; the
daemons' logs are kept if there is anything wrong and somewhere to keep them.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path
from random import Random

import grapevine
from grapevine.client.session import State
from tests.system.freezer import Freezer
from tests.system.overlay import Daemon, Overlay, eventually

PARENTS = {"b1": "", "b2": "b1", "b3": "b1", "b4": "b2", "b5": "b2", "b6": "b3", "b7": "b3"}
PUBLISHERS = {"p1": ("b4", "b2"), "p2": ("b5", "b7"), "p3": ("b6", "b1"), "p4": ("b3", "b5")}
SUBSCRIBERS = {"s1": ("b1", "b6"), "s2": ("b4", "b3"), "s3": ("b7", "b2"), "s4": ("b5", "b4")}
LOST_AFTER_S = 5.0
EVERY_S, BATCH = 0.02, 25
FAULT_EVERY_S, FAULT_S = (1.0, 5.0), (0.3, 9.0)
REST_S = 120.0
STALL_S = (
    1.5  # a client that its broker does not hear for so long holds nobody up, and is told when it matters
)
SHOWN = 8


def way(one: str, other: str) -> set[str]:
    """The brokers from one to the other, both included."""
    up, down = _to_root(one), _to_root(other)
    meet = next(broker for broker in up if broker in down)
    return {*up[: up.index(meet) + 1], *down[: down.index(meet)]}


def _to_root(broker: str) -> list[str]:
    return [broker, *_to_root(PARENTS[broker])] if PARENTS[broker] else [broker]


@dataclass
class Sent:
    at: float
    accepted_at: float = inf
    settled_at: float = inf
    broker: str = ""
    partial: frozenset[str] = frozenset()


@dataclass(eq=False)
class Publisher:
    """Asks after each few whether they are settled; `cut` are those that it was told of."""

    name: str
    client: grapevine.Client
    sent: dict[int, Sent] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    stuck: list[str] = field(default_factory=list)

    def run(self, over: threading.Event) -> None:
        while not over.is_set():
            for _ in range(BATCH):
                self.publish()
                time.sleep(EVERY_S)
            self.settle()

    def publish(self) -> int:
        at, partial = time.monotonic(), set(self.client.partial)
        number = self.client.publish({"n": len(self.sent)}, self.name.encode())
        sent = self.sent[number] = Sent(at)
        self._flush("accepted")
        sent.accepted_at, sent.broker = time.monotonic(), self.client._session.broker_name
        sent.partial = frozenset(partial | set(self.client.partial))
        self._note()
        return number

    def settle(self) -> None:
        self._flush("settled")
        self._note()

    def _flush(self, until: grapevine.client.options.Until) -> None:
        try:
            self.client.flush(timeout=REST_S, until=until)
        except grapevine.Undelivered as error:
            for first, last in error.ranges:
                self.cut |= set(range(first, last + 1))
        except grapevine.Timeout:
            self.stuck.append(f"{self.name}: #{len(self.sent)} not {until} in {REST_S} s")

    def _note(self) -> None:
        now, settled = time.monotonic(), self.client._session.outgoing.settled_up_to
        for number in range(settled, 0, -1):
            if number not in self.sent or self.sent[number].settled_at < inf:
                break
            self.sent[number].settled_at = now


@dataclass
class Life:
    """Of a subscriber: confirmed at a broker from then to then."""

    broker: str
    since: float
    until: float = inf


@dataclass(eq=False)
class Subscriber:
    name: str
    client: grapevine.Client
    handle: grapevine.Subscription
    lives: list[Life]
    got: dict[str, list[int]] = field(default_factory=dict)

    def run(self, over: threading.Event) -> None:
        session, epoch = self.client._session, self.client._session._epoch
        while not over.is_set():
            self.take(0.005)
            now, whole = time.monotonic(), session.state == State.ATTACHED and self.handle._state.confirmed
            if session._epoch != epoch and self.lives[-1].until == inf:
                self.lives[-1].until = self._last_whole
            if whole and session._epoch != epoch:
                epoch = session._epoch
                self.lives.append(Life(session.broker_name, now))
            if whole:
                self._last_whole = now

    _last_whole = 0.0

    def take(self, wait_s: float) -> None:
        for message in self.handle.next_batch(10_000, timeout=wait_s) or ():
            self.got.setdefault(message.payload.decode(), []).append(message.sequence)


class Scene:
    def __init__(self, directory: Path, random: Random) -> None:
        self.random = random
        self.overlay = Overlay(directory, links={"lost_after_s": LOST_AFTER_S})
        self.freezers: dict[str, Freezer] = {}  # by the child whose link it is
        for name, parent in PARENTS.items():
            daemon = self.overlay.add(name)
            if parent:
                freezer = self.freezers[name] = self._freezer(self.overlay[parent])
                daemon.configure({**daemon.sections, "tree": {"neighbours": [freezer.address]}})
            daemon.start().ready()
            assert not parent or f"neighbour {parent} is connected" in daemon.log(), daemon.log()
        self.publishers = [self._publisher(name, *brokers) for name, brokers in PUBLISHERS.items()]
        self.subscribers = [self._subscriber(name, *brokers) for name, brokers in SUBSCRIBERS.items()]
        self.faults: list[tuple[float, str]] = []
        self.over = threading.Event()
        self._busy: set[str] = set()
        self.began = time.monotonic()

    def _freezer(self, parent: Daemon) -> Freezer:
        """Brokers find a key by the address that they dial."""
        freezer = Freezer(parent.address)
        key = (parent.keys / f"{parent.name}.broker.toml").read_text()
        told = parent.keys / f"{parent.name}.{freezer.address.rpartition(':')[2]}.broker.toml"
        told.write_text(key.replace(parent.address, freezer.address))
        return freezer

    def _connect(self, name: str, *brokers: str) -> grapevine.Client:
        addresses = [self.overlay[broker].address for broker in brokers]
        return grapevine.connect(addresses, name, keys=self.overlay["b1"].keys, timeout=60)

    def _publisher(self, name: str, *brokers: str) -> Publisher:
        client = self._connect(name, *brokers)
        client.advertise("exists n", timeout=60)
        return Publisher(name, client)

    def _subscriber(self, name: str, *brokers: str) -> Subscriber:
        client = self._connect(name, *brokers)
        handle = client.subscribe("n >= 0", timeout=60)
        return Subscriber(name, client, handle, [Life(brokers[0], time.monotonic())])

    def play(self, seconds: float) -> None:
        quiet = threading.Event()
        readers = [threading.Thread(target=one.run, args=(quiet,)) for one in self.subscribers]
        writers = [threading.Thread(target=one.run, args=(self.over,)) for one in self.publishers]
        for thread in (*readers, *writers):
            thread.start()
        self._fail_for(seconds)
        self.over.set()
        for thread in writers:
            thread.join()
        self.stuck = self._unheard()
        quiet.set()
        for thread in readers:
            thread.join()

    # --- faults -----------------------------------------------------------------------------------------

    def _fail_for(self, seconds: float) -> None:
        end, running = time.monotonic() + seconds, []
        while time.monotonic() < end:
            time.sleep(self.random.uniform(*FAULT_EVERY_S))
            kind = self.random.choice((self._kill, self._stop, self._freeze))
            name, lasts_s = self.random.choice(list(PARENTS)), self.random.uniform(*FAULT_S)
            if name in self._busy or len(self._busy) > 1 or (kind == self._freeze and not PARENTS[name]):
                continue
            self._busy.add(name)
            self.faults.append((time.monotonic(), f"{kind.__name__[1:]} {name} {lasts_s:.1f} s"))
            running.append(threading.Thread(target=self._fail, args=(kind, name, lasts_s)))
            running[-1].start()
        for thread in running:
            thread.join()

    def _fail(self, kind: object, name: str, lasts_s: float) -> None:
        assert callable(kind)
        kind(name, lasts_s)
        self._busy.discard(name)

    def _kill(self, name: str, lasts_s: float) -> None:
        self.overlay[name].kill()
        time.sleep(lasts_s)
        self.overlay[name].start()

    def _stop(self, name: str, lasts_s: float) -> None:
        self.overlay[name].signal(signal.SIGSTOP)
        time.sleep(lasts_s)
        self.overlay[name].signal(signal.SIGCONT)

    def _freeze(self, name: str, lasts_s: float) -> None:
        with self.freezers[name].frozen():
            time.sleep(lasts_s)

    # --- afterwards -------------------------------------------------------------------------------------

    def _unheard(self) -> list[str]:
        """Who does not hear from whom, although nothing has failed for so long."""
        try:
            eventually(self._all_heard, REST_S, 0.5)
        except AssertionError:
            return [f"{s.name} does not hear {p.name}" for s, p in self._silent]
        return []

    def _all_heard(self) -> bool:
        last = {publisher: publisher.publish() for publisher in self.publishers}
        for publisher in self.publishers:
            publisher.settle()
        time.sleep(0.5)
        pairs = [(s, p) for s in self.subscribers for p in self.publishers]
        self._silent = [(s, p) for s, p in pairs if last[p] not in s.got.get(p.name, ())]
        return not self._silent

    def close(self) -> None:
        for each in (*self.publishers, *self.subscribers):
            each.client.close(0)
        for freezer in self.freezers.values():
            freezer.close()
        self.overlay.__exit__()


# --- the verdict ------------------------------------------------------------------------------------------


def owed(subscriber: Subscriber, sent: Sent) -> Life | None:
    """The life in which it was confirmed before this was published."""
    place = bisect_right([life.since for life in subscriber.lives], sent.at) - 1
    return subscriber.lives[place] if place >= 0 and sent.at < subscriber.lives[place].until else None


def reason(subscriber: Subscriber, publisher: Publisher, number: int) -> str:
    """Why nobody is to blame that this is missing; "": somebody is."""
    sent = publisher.sent[number]
    life = owed(subscriber, sent)
    if life is None or sent.settled_at > life.until - STALL_S:
        return "gap"
    if number in publisher.cut:
        return "cut"
    return "parted" if sent.partial & way(sent.broker, life.broker) else ""


def verdict(scene: Scene) -> dict[str, object]:
    told: Counter[str] = Counter()
    lost, disorder, pairs, wolf = [], [], 0, 0
    for publisher in scene.publishers:
        settled = [number for number, sent in publisher.sent.items() if sent.settled_at < inf]
        missed: set[int] = set()
        for subscriber in scene.subscribers:
            got = subscriber.got.get(publisher.name, [])
            have = set(got)
            pairs += len(settled)
            if got != sorted(have):
                wrong = [(a, b) for a, b in pairwise(got) if a >= b]
                disorder.append(f"{publisher.name} at {subscriber.name}: {wrong[:SHOWN]}")
            for number in settled:
                if number not in have:
                    missed.add(number)
                    told[why := reason(subscriber, publisher, number)] += 1
                    if not why:
                        lost.append(_case(scene, publisher, subscriber, number))
        wolf += len(publisher.cut - missed)
    named = sum(len(publisher.cut) for publisher in scene.publishers)
    stuck = [*scene.stuck, *(text for publisher in scene.publishers for text in publisher.stuck)]
    return {
        "faults": len(scene.faults),
        "published": sum(len(publisher.sent) for publisher in scene.publishers),
        "pairs": pairs,
        "missing": {why or "lost": count for why, count in sorted(told.items())},
        "crying wolf": f"{wolf} of {named}",
        "lost": lost[:SHOWN],
        "twice or out of order": disorder,
        "stuck": stuck,
        "wrong": len(lost) + len(disorder) + len(stuck),
    }


def _case(scene: Scene, publisher: Publisher, subscriber: Subscriber, number: int) -> str:
    sent, began = publisher.sent[number], scene.began
    times = [f"{at - began:.2f}" for at in (sent.at, sent.accepted_at, sent.settled_at)]
    lives = [f"{life.broker} {life.since - began:.2f}..{life.until - began:.2f}" for life in subscriber.lives]
    near = [f"{at - began:.2f} {text}" for at, text in scene.faults if abs(at - sent.at) < 4 * LOST_AFTER_S]
    where = f"at {sent.broker}, partial {sorted(sent.partial)}"
    return f"{publisher.name} #{number} {where}, {times}, never at {subscriber.name} {lives}; {near}"


def main(words: list[str]) -> int:
    minutes, seed = float(words[0]) if words else 10.0, words[1] if len(words) > 1 else str(time.time_ns())
    with tempfile.TemporaryDirectory() as directory:
        scene = Scene(Path(directory), Random(seed))
        try:
            scene.play(60 * minutes)
        finally:
            scene.close()
        found = verdict(scene)
        if found["wrong"] and len(words) > 2:
            shutil.copytree(directory, words[2], ignore=shutil.ignore_patterns("state", "keys"))
    print(json.dumps({"minutes": minutes, "seed": seed, **found}), flush=True)
    print(f"{found['wrong']} wrong")
    return bool(found["wrong"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
