"""`python -m tools.reproduce.bluedove_live_quotes [--data DIR]`: boundary moves of the broker's own code on quotes.

Ten matchers cut their segments while only the cheaper half of the symbols is quoted; then all of them are, and
boundaries must move. Printed for each dimension: the share of the publications that the fullest segment gets, right
after the change and at the end, and the share of the commonest value, below which no cut can go. Every publication is
followed to its subscribers by the simulator's oracle, which knows them by brute force. Real quotes with `--data` or
GRAPEVINE_DATA, else generated ones.
"""  # noqa: E501

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import msgspec

from grapevine.filters import parse
from grapevine.filters.normal import EVERYTHING, Filter, Value
from overlay.onehop.cluster import Cluster
from overlay.onehop.handover import Handover
from overlay.onehop.segments import owns
from overlay.settings import OneHopSettings
from tools.reproduce.quotes import DIFF, Quote, symbols
from tools.simulator.broker import BrokerHost
from tools.simulator.cluster import part
from tools.simulator.scenario import Brokers, Clients, Load, Scenario, Wires
from tools.simulator.simulation import Simulation

DIMENSIONS = ("close", "volume", DIFF)
SYMBOLS, MATCHERS, PUBLISHERS, RATE = 50, 10, 20, 60.0
CUT_S, MOVED_S, LOOKED_AT = 60.0, 240.0, 1_000
QUARTER = 0.25


class Quoted:
    """What is published and asked for: any of `quotes`, which changes while it runs."""

    def __init__(self, quotes: list[Quote]) -> None:
        self.quotes = quotes
        self.published: list[Quote] = []

    def advertisement(self, random: Random) -> Filter:
        return EVERYTHING

    def publication(self, random: Random, advertisement: Filter) -> Mapping[str, Value]:
        self.published.append(random.choice(self.quotes))
        return self.published[-1]

    def subscription(self, random: Random) -> Filter:
        name = random.choice(DIMENSIONS)
        low, high = sorted(float(random.choice(self.quotes)[name]) for _ in range(2))
        return parse(f"class = 'STOCK' and {name} >= {low!r} and {name} < {high!r}")


class OnQuotes(Simulation):
    def __init__(self, quotes: list[Quote]) -> None:
        scenario = Scenario(
            name="onehop-quotes",
            validate_every=0,
            brokers=Brokers("onehop", MATCHERS + 2, matcher="index", dispatchers=2),
            clients=Clients(PUBLISHERS, 10, 4, mixed=0.0, window=512),
            load=Load(every_s=PUBLISHERS / RATE, burst=1, churn_s=10.0),
            network=Wires(scale_s=0.002, jitter_s=0.0005),
            onehop=OneHopSettings(dimensions=DIMENSIONS),
        )
        super().__init__(scenario, seed=1)
        self.work = Quoted(quotes)
        for app in self.apps:
            app.work = self.work
        self.matchers: list[BrokerHost] = self.brokers[:MATCHERS]

    def shares(self) -> dict[str, float]:
        """Of the last publications, what the fullest segment of each dimension gets."""
        recent = self.work.published[-LOOKED_AT:]
        return {
            name: max(self._owned(matcher, dimension, recent) for matcher in self.matchers) / len(recent)
            for dimension, name in enumerate(DIMENSIONS)
        }

    def _owned(self, matcher: BrokerHost, dimension: int, quotes: list[Quote]) -> int:
        assert matcher.core is not None
        cluster = part(matcher.core, Cluster)
        assert isinstance(cluster, Cluster)
        spans = cluster.own.segments[dimension]
        return sum(owns(spans, quote[DIMENSIONS[dimension]]) for quote in quotes)

    def ties(self) -> dict[str, float]:
        recent = self.work.published[-LOOKED_AT:]
        return {name: max(Counter(q[name] for q in recent).values()) / len(recent) for name in DIMENSIONS}

    def moves(self) -> int:
        found = [part(matcher.core, Handover) for matcher in self.matchers if matcher.core is not None]
        return sum(one.moves for one in found if isinstance(one, Handover))


def play(data: Path | None) -> dict[str, Any]:
    known = sorted(
        symbols(data, Random(1), SYMBOLS), key=lambda s: median(float(q["close"]) for q in s.quotes)
    )
    simulation = OnQuotes([quote for symbol in known[: SYMBOLS // 2] for quote in symbol.quotes])
    simulation.start()
    simulation.world.run(CUT_S)
    simulation.work.quotes = [quote for symbol in known for quote in symbol.quotes]
    simulation.world.run(CUT_S + LOOKED_AT / RATE)
    before = simulation.shares()
    simulation.world.run(CUT_S + MOVED_S)
    after, ties = simulation.shares(), simulation.ties()
    simulation.settle()
    simulation.oracle.judge()
    return {
        "dimensions": [
            {
                "name": name,
                "before": before[name],
                "after": after[name],
                "tie": ties[name],
                "ok": after[name] <= max(QUARTER, ties[name]),
            }
            for name in DIMENSIONS
        ],
        "moves": simulation.moves(),
        "publications": len(simulation.work.published),
        "owed": simulation.oracle.owed_checked,
        "violations": simulation.oracle.violation_count,
        "cut": simulation.oracle.cut_count,
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("GRAPEVINE_DATA"))
    given = parser.parse_args(words)
    print(msgspec.json.encode(play(None if given.data is None else Path(given.data))).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
