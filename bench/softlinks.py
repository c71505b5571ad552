"""What do soft links cost a broker? `uv run python -m bench.softlinks`

One broker of a tree of degree 3 with Delta 4: 45 brokers around it, 3 primary and 32 soft links, 6,500
subscriptions behind them. Measured: making the working map and the working table anew, and finding the route
of a publication that matches 3, 10 or 24 anchors under each strategy, against S0 for the same publication.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from random import Random
from statistics import median
from time import process_time
from typing import Any

import click

from grapevine.filters import Filter, Op, Predicate
from grapevine.wire import encode_attributes
from grapevine.wire.mesh import Nearby
from grapevine.wire.messages import Subscription
from matching.index import Index
from overlay.core import Core
from overlay.links.session import Peer
from overlay.links.soft import Soft, Stage
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.strategies import choose_links_s1, choose_links_s2
from overlay.softlinks.working import WorkingOverlayMap
from overlay.tree.subscriptions import Subscriptions

Row = dict[str, Any]
SUBSCRIPTIONS, SOFT_LINKS, DELTA = 6_500, 32, 4
ROUNDS = 7


class Place:
    """The broker and what is around it."""

    def __init__(self) -> None:
        settings = CoreSettings(overlay=OverlaySettings(delta=DELTA))
        self.core: Core = tree_broker("here", 1, settings, Random(1), matcher=Index)
        self.shortcuts = next(b for b in self.core.behaviours if isinstance(b, Shortcuts))
        self.subscriptions = next(b for b in self.core.behaviours if isinstance(b, Subscriptions))
        self.publications = self.shortcuts.publications
        self.table, self.master = self.shortcuts.table, self.shortcuts.neighbourhoods.master
        for number in (1, 2, 3):
            self.core.peers[number] = Peer(self.core, number, f"b{number}")
            self.master.hear(number, tuple(_branch(number)))
        random = Random(2)
        far = sorted(b for b, distance in self.master.distance.items() if distance > 1)
        for broker in random.sample(far, SOFT_LINKS):
            soft = self.core.soft_out[broker] = Soft(self.core, broker, f"b{broker}", True)
            soft.path, soft.stage = self.master.path(broker), Stage.ACTIVE
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

    def route(self, anchors: int) -> Callable[[], object]:
        """Finds the route of a publication that matches so many anchors."""
        attributes = encode_attributes({"anchors": anchors - 0.5})
        content = {"anchors": anchors - 0.5}
        assert len(self.subscriptions.remote.groups(content)) == anchors
        return lambda: self.publications.find_route(None, attributes)


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
    links = [*place.core.peers, *place.core.soft_out]
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
    strategies: dict[str, tuple[bool, Any]] = {
        "S0": (False, None),
        "SD": (True, None),
        "S1": (True, choose_links_s1),
        "S2": (True, choose_links_s2),
    }
    for anchors in (3, 10, 24):
        find = place.route(anchors)
        cost = dict.fromkeys(strategies, 0.0)
        for name, (soft, printed) in strategies.items():
            for link in place.core.soft_out.values():
                link.stage = Stage.ACTIVE if soft else Stage.PARKED
            place.table.printed = printed
            place.table.rebuild()
            cost[name] = timed(find, 200)
        rows += [
            {"what": f"route, {anchors} anchors", "strategy": name, "us": us, "to_S0": us / cost["S0"]}
            for name, us in cost.items()
        ]
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
