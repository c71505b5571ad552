"""A one-hop cluster of real daemons under load, and something that happens to it meanwhile.

Publishers count; every subscriber knows by brute force what it must have got. `python -m tests.system.onehop
SCENE` plays one and prints what was lost, doubled or late as a line of JSON.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import grapevine
from tests.system.overlay import Daemon, Overlay, eventually

DIMENSIONS = ["price", "volume"]
RATE_S = 300.0
BEFORE_S, AFTER_S = 3.0, 5.0
FILTERS = [(low, low + 40) for low in range(0, 100, 10)]  # of price


class Cluster(Overlay):
    def __init__(self, directory: Path, lost_after_s: float = 20.0, **onehop: Any) -> None:
        super().__init__(
            directory,
            overlay={"kind": "onehop"},
            onehop={"dimensions": DIMENSIONS, **onehop},
            links={"ping_s": 0.5, "redial_s": 0.1, "greet_s": 1.0, "lost_after_s": lost_after_s},
        )

    def member(self, name: str, *roles: str) -> Daemon:
        seeds = [daemon.address for daemon in list(self.daemons.values())[:2]]
        return self.add(
            name, broker={"roles": list(roles)}, onehop={**self.defaults["onehop"], "seeds": seeds}
        )

    def up(self, matchers: int, dispatchers: int) -> None:
        """The first matcher alone, then all the others at once."""
        self.member("m1", "matcher").start().ready()
        rest = [self.member(f"m{n}", "matcher") for n in range(2, matchers + 1)]
        rest += [self.member(f"d{n}", "dispatcher") for n in range(1, dispatchers + 1)]
        for daemon in rest:
            daemon.start()
        for daemon in rest:
            daemon.ready()

    def segments(self, name: str) -> dict[str, list[Any]]:
        """What a member says it owns."""
        from tools.pubctl.channel import Channel

        with Channel(f"ipc://{self[name].control}", 5.0) as channel:
            row = channel.ask("broker.info", broker=name).body["brokers"][0]
        return dict(row["segments"])

    def owners(self) -> list[str]:
        """Matchers that have a segment of every dimension."""
        names = [name for name, d in self.daemons.items() if name.startswith("m") and d.process is not None]
        return [name for name in names if all(self.segments(name).values())]


class Load:
    """One publisher at d1 and subscribers at both dispatchers."""

    def __init__(self, cluster: Cluster) -> None:
        self.homes = [cluster["d1"].address, cluster["d2"].address]
        keys = cluster.directory / "keys"
        self.publisher = grapevine.connect(self.homes[0], name="publisher", keys=keys)
        both = [self.homes, self.homes[::-1]]  # where a client goes if its dispatcher is gone
        self.clients = [grapevine.connect(both[n % 2], name=f"s{n}", keys=keys) for n in range(len(FILTERS))]
        self.gaps: list[list[float]] = [[] for _ in FILTERS]  # when each was told of one
        self.subscriptions = [
            client.subscribe(
                f"price >= {low} and price < {high} and volume < 50",
                on_gap=lambda gap, mine=mine: mine.append(time.monotonic()),  # type: ignore[misc]
            )
            for client, (low, high), mine in zip(self.clients, FILTERS, self.gaps)
        ]
        self.published: list[tuple[int, int, float]] = []  # price, volume, when
        self.cut: set[int] = set()  # what the publisher was told not to be delivered everywhere
        self.got: list[list[tuple[int, float]]] = [[] for _ in FILTERS]  # number, when
        self._publishing = self._reading = True
        self._chance = Random(1)
        self._threads = [threading.Thread(target=self._publish, daemon=True)]
        self._threads += [
            threading.Thread(target=self._read, args=(n,), daemon=True) for n in range(len(FILTERS))
        ]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        began = time.monotonic()
        while self._publishing:
            price, volume = self._chance.randrange(140), self._chance.randrange(100)
            number = len(self.published)
            self.published.append((price, volume, time.monotonic()))
            self.publisher.publish({"price": price, "volume": volume, "n": number})
            pause_s = began + len(self.published) / RATE_S - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)

    def _read(self, place: int) -> None:
        subscription, got = self.subscriptions[place], self.got[place]
        while self._reading:
            for message in subscription.next_batch(1000, timeout=0.1):
                got.append((int(message.attributes["n"]), time.monotonic()))

    def _untold(self, place: int, wanted: list[int]) -> int:
        """What this subscriber misses although neither it nor the publisher was told: it was published before
        a gap that it was told of, or while it was not subscribed again yet."""
        got, times = dict(self.got[place]), [at for _, at in self.got[place]]
        missing = [n for n in wanted if n not in got and n not in self.cut]
        again = [next((at for at in times if at >= gap), gap) for gap in self.gaps[place]]
        return sum(not any(self.published[n][2] <= at for at in again) for n in missing)

    def finish(self, event_at: float) -> dict[str, Any]:
        """Stop publishing, wait for all of it, and judge."""
        self._publishing = False
        self._threads[0].join(5)
        try:
            self.publisher.flush(timeout=60)
        except grapevine.Undelivered as told:
            for first, last in told.ranges:
                self.cut.update(range(first - 1, last))  # its numbers begin with 1, ours with 0
        wanted = [
            [n for n, (price, volume, _) in enumerate(self.published) if low <= price < high and volume < 50]
            for low, high in FILTERS
        ]
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(len(g) < len(w) for g, w in zip(self.got, wanted)):
            time.sleep(0.1)
        self._reading = False
        for thread in self._threads:
            thread.join(5)
        numbers = [[number for number, _ in got] for got in self.got]
        taken = [(self.published[number][2], at) for got in self.got for number, at in got]
        delays = sorted(at - sent for sent, at in taken)
        # What was published just before the event may be with the member that it happens to.
        before = [at - sent for sent, at in taken if event_at - BEFORE_S <= sent < event_at - 0.5]
        after = [at - sent for sent, at in taken if sent >= event_at - 0.5]
        for client in (self.publisher, *self.clients):
            client.close()

        lost = [n for g, w in zip(map(set, numbers), wanted) for n in w if n not in g]

        def late(number: int) -> bool:
            """Long enough after the event that whoever had to has attached elsewhere."""
            return self.published[number][2] > event_at + AFTER_S - 2.0

        return {
            "published": len(self.published),
            "delivered": sum(map(len, numbers)),
            "lost": len(lost),
            "lost_at_s": [round(self.published[n][2] - event_at, 1) for n in sorted(lost)[:9]],  # after it
            "cut": len(self.cut),
            "gaps": sum(map(len, self.gaps)),
            "untold": sum(self._untold(place, w) for place, w in enumerate(wanted)),
            "lost_later": sum(n not in g for g, w in zip(map(set, numbers), wanted) for n in w if late(n)),
            "wrong": sum(len(set(g) - set(w)) for g, w in zip(numbers, wanted)),
            "doubled": sum(len(g) - len(set(g)) for g in numbers),
            "out_of_order": sum(a > b for g in numbers for a, b in itertools.pairwise(g)),
            "slowest_before_s": round(max(before, default=0.0), 3),
            "slowest_after_s": round(max(after, default=0.0), 3),
            "median_ms": round(1000 * delays[len(delays) // 2], 1),
        }


def play(directory: Path, meanwhile: Callable[[Cluster], None], matchers: int = 4) -> dict[str, Any]:
    with Cluster(directory) as cluster:
        cluster.up(matchers, 2)
        load = Load(cluster)
        eventually(lambda: len(cluster.owners()) == matchers, 90.0, 0.5)
        time.sleep(BEFORE_S)
        event_at = time.monotonic()
        meanwhile(cluster)
        time.sleep(AFTER_S)
        return load.finish(event_at)


def kill(cluster: Cluster) -> None:
    cluster["m2"].kill()


def kill_dispatcher(cluster: Cluster) -> None:
    cluster["d2"].kill()


def freeze(cluster: Cluster) -> None:
    cluster["m2"].signal(signal.SIGSTOP)


def join(cluster: Cluster) -> None:
    cluster.member("m9", "matcher").start().ready()
    eventually(lambda: "m9" in cluster.owners(), 30.0, 0.2)


def leave(cluster: Cluster) -> None:
    from tools.pubctl.channel import Channel

    name = cluster.owners()[-1]
    with Channel(f"ipc://{cluster[name].control}", 5.0) as channel:
        channel.ask("broker.drain", broker=name)
    cluster[name].wait(30)


SCENES = {
    "kill": kill,
    "dispatcher": kill_dispatcher,
    "stop": freeze,
    "join": join,
    "leave": leave,
    "nothing": lambda cluster: None,
}


def main(names: list[str]) -> dict[str, Any]:
    """Several scenes one after the other: counts are added, the slowest stays."""
    total: dict[str, Any] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as where:
            for word, value in play(Path(where), SCENES[name]).items():
                worst = word.startswith(("slowest", "median"))
                before = total.get(word, type(value)())
                total[word] = max(before, value) if worst else before + value
    return total


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
