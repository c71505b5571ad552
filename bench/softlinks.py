"""What do soft links cost a broker? `uv run python -m bench.softlinks`

One broker of a tree of degree 3 with Delta 4: 45 brokers around it, 3 primary and 32 soft links, 6,500
subscriptions behind them. Measured: making the working map and the working table anew, and what the broker
does with a publication that matches 3, 10 or 24 anchors under each strategy, against S0 for the same
publication, from the batch that brings it to the queues that it is appended to. Three times:
  new     no route known, the first for its set of anchors and alone in its batch: attributes read, matched,
          links chosen, appended to their queues
  met     no route known, a set of anchors that was met before
  cached  the route is found by the attributes' bytes
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from statistics import median
from time import process_time
from typing import Any

import click

from grapevine.filters import Filter, Op, Predicate
from grapevine.wire import encode_attributes
from grapevine.wire.mesh import Nearby
from grapevine.wire.messages import Batch, Publication, Subscription
from matching.index import Index
from overlay.core import Core
from overlay.data.path import Publications
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Soft, Stage
from overlay.softlinks.strategies import choose_links_s1, choose_links_s2
from overlay.softlinks.working import WorkingOverlayMap
from overlay.tree.peer import Peer
from overlay.tree.subscriptions import Subscriptions

Row = dict[str, Any]
SUBSCRIPTIONS, SOFT_LINKS, DELTA = 6_500, 32, 4
ROUNDS, RUN = 15, 64  # publications that come together
KNOWN = {"new": ROUNDS, "met": ROUNDS, "cached": 10 * ROUNDS}  # a round of these takes 20 us
STRATEGIES: dict[str, tuple[bool, Any]] = {
    "S0": (False, None),
    "SD": (True, None),
    "S1": (True, choose_links_s1),
    "S2": (True, choose_links_s2),
}


class Place:
    """The broker and what is around it."""

    def __init__(self) -> None:
        settings = CoreSettings(overlay=OverlaySettings(delta=DELTA))
        self.core: Core = tree_broker("here", 1, settings, Random(1), matcher=Index)
        self.shortcuts = next(b for b in self.core.behaviours if isinstance(b, Shortcuts))
        self.subscriptions = next(b for b in self.core.behaviours if isinstance(b, Subscriptions))
        self.publications = next(b for b in self.core.behaviours if isinstance(b, Publications))
        self.table, self.master = self.shortcuts.table, self.shortcuts.neighbourhoods.master
        for number in (1, 2, 3):
            self.core.peers[number] = Peer(self.core, number, f"b{number}")
            self.master.hear(number, tuple(_branch(number)))
        random = Random(2)
        far = sorted(b for b, distance in self.master.distance.items() if distance > 1)
        for broker in random.sample(far, SOFT_LINKS):
            soft = self.shortcuts.softs.out[broker] = Soft(self.core, broker, f"b{broker}", True)
            soft.path, soft.stage = self.master.path(broker), Stage.ACTIVE
        self.source = Peer(self.core, 9, "b9")
        self.sequence = count(1)
        self._subscribe(random)
        self.table.rebuild()

    def _subscribe(self, random: Random) -> None:
        """Each home has a share of the subscriptions and one for each number of anchors below its own."""
        homes = sorted(self.master.via)
        for serial in range(SUBSCRIPTIONS):
            home = homes[serial % len(homes)]
            limit = homes.index(home) if serial < len(homes) else random.uniform(100, 1_000_000)
            path = tuple(reversed(self.master.path(home)))[-DELTA:]
            below = Filter(((Predicate("anchors", Op.RANGE, (limit, None, True, False)),),))
            item = Subscription(home, serial + 1, home, path, below)
            peer = self.core.peers[path[-1]]
            entry, _ = self.subscriptions.table.learn((home, serial + 1), item, peer)
            self.subscriptions._enter(entry, peer)

    def choose_by(self, strategy: str) -> None:
        soft, self.table.printed = STRATEGIES[strategy]
        for link in self.shortcuts.softs.out.values():
            link.stage = Stage.ACTIVE if soft else Stage.STANDBY
        self.table.rebuild()

    def publish(self, anchors: int, known: str) -> float:
        """Microseconds for each of a run that matches so many anchors."""
        values = [anchors - 0.5 + (0 if known == "cached" else 0.4 * n / RUN) for n in range(RUN)]
        assert all(len(self.subscriptions.remote.groups({"anchors": value})) == anchors for value in values)
        run = [self._publication(value) for value in values]
        parts = [[each] for each in run] if known == "new" else [run]
        batches = [Batch(0, 1, 0, 0, 0, part) for part in parts]
        forward = self.core.forward.call
        if known != "cached":
            self.subscriptions.generation += 1
        began = process_time()
        for batch in batches:
            if known == "new":
                self.table._chosen.clear()
                self.publications._fans.clear()
            forward(self.source, batch, 0, 0.0)
        spent = process_time() - began
        self._clear()
        return spent / RUN * 1e6

    def _publication(self, value: float) -> Publication:
        attributes = encode_attributes({"anchors": value})
        return Publication(attributes, b"", next(self.sequence), publisher=7, incarnation=1)

    def _clear(self) -> None:
        for session in (*self.core.peers.values(), *self.shortcuts.softs.out.values()):
            session.out.queue.clear()
            session.out.exclusions.clear()
            session.out.waits.clear()
            session.out.counted = 0
        self.source.incoming.records.clear()
        self.core.dirty.clear()


def _branch(root: int) -> Iterator[Nearby]:
    front = [(root, 0)]
    for _ in range(DELTA):
        yield from (Nearby(broker, f"b{broker}", (), via) for broker, via in front)
        front = [(10 * broker + child, broker) for broker, _ in front for child in (1, 2)]


def timed(call: Callable[[], object], times: int) -> float:
    """Microseconds of the processor for one call, the median of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        began = process_time()
        for _ in range(times):
            call()
        rounds.append((process_time() - began) / times * 1e6)
    return median(rounds)


def rebuilds(place: Place) -> list[Row]:
    links = [*place.core.peers, *place.shortcuts.softs.out]
    rows = [
        {
            "what": "working overlay map",
            "us": timed(lambda: WorkingOverlayMap(place.master, links), 50),
            "paper_us": 800,
        },
        {
            "what": "map and working subscription table",
            "us": timed(place.table.rebuild, 20),
            "paper_us": 17_000,
        },
    ]
    groups = len(place.subscriptions.groups)
    return [{**row, "links": len(links), "groups": groups, "subscriptions": SUBSCRIPTIONS} for row in rows]


def forwarding(place: Place) -> list[Row]:
    rows = []
    for known, rounds in KNOWN.items():
        for anchors in (3, 10, 24):
            taken: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
            for _ in range(rounds):  # in turns, so that whatever else the machine does falls on all alike
                for strategy in STRATEGIES:
                    place.choose_by(strategy)
                    place.publish(anchors, known)
                    taken[strategy].append(place.publish(anchors, known))
            us = {strategy: median(times) for strategy, times in taken.items()}
            ratios = {f"{strategy}_to_S0": us[strategy] / us["S0"] for strategy in us if strategy != "S0"}
            rows.append({"what": f"forwarding, {anchors} anchors, {known}", "S0_us": us["S0"], **ratios})
    return rows


@click.command(help=__doc__)
@click.option("-o", "--output", type=click.Choice(["json", "table"]), default="table", show_default=True)
def main(output: str) -> None:
    place = Place()
    rows = rebuilds(place) + forwarding(place)
    if output == "json":
        json.dump({"schema": "bench.softlinks/1", "rows": rows}, sys.stdout, indent=1)
        print()
        return
    for row in rows:
        values = (f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values())
        print("  ".join(f"{name}={value}" for name, value in zip(row, values)))


if __name__ == "__main__":
    main()
