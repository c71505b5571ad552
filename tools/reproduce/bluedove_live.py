"""`python -m tools.reproduce.bluedove_live [order] [join] [leave]`: the broker's own code at its limit.

The brokers are those of the daemon, in the simulator; a matcher's host is busy for as long as the core
reckons that its questions cost (`Capacity.effort`), by the paper's linear scan. 400 subscriptions stand for
40,000: each costs a hundred times as much. What is printed:

* order: the mean response (from acceptance until it may be sent on) at 80 % load with 1,000 publishers, each
  publisher's order kept, over the same without, after the same rates: segments are cut by what was published.
  Load is the matchers' mean: dispatchers spread the work, and the cluster is at its limit when all are busy.
  Means of three seeds: two runs have not quite the same cuts, so at one rate not the same load.
* join: five matchers get for ten seconds a tenth more than they could bear by what they were busy at 80 %
  load, then a sixth starts. After how many seconds the mean response of a second, and that of all that are
  answered from then on, is below the mean of the ten seconds. One second may be lucky, so that alone is not
  enough; beside it the same without the sixth, which shows what was gained from the sixth second on.
* leave: at 60 % load one of six leaves.

In all of them one publication of five is followed to all its subscribers by the simulator's oracle; order and
duplicates are looked at in all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import fmean
from typing import Any

import msgspec

from overlay.core import Core
from overlay.data.path import Publications
from overlay.links.lane import Lane
from overlay.links.settling import Settling
from overlay.onehop.cluster import Cluster
from overlay.onehop.publications import OneHopPublications
from overlay.settings import ClientSettings, LinkSettings, OneHopSettings
from tools.simulator.broker import BrokerHost
from tools.simulator.capacity import Capacity, Reckoned
from tools.simulator.cluster import part
from tools.simulator.scenario import Brokers, Clients, Load, Scenario, Wires
from tools.simulator.simulation import Simulation

STANDS_FOR = 100  # subscriptions of the paper's
SUBSCRIBERS, EACH = 40, 10
PUBLISHERS = 1_000
SEEDS = (1, 2, 3)
DISPATCHERS = 2
GENTLE = 200.0  # publications a second, while segments are cut
WARM_S, LEAST_S, MEASURED_S = 4.0, 5.0, 10.0
HIGH, LEAVING_AT, TOO_MUCH = 0.8, 0.6, 1.1
OVERLOADED_S, WATCHED_S, SOON_S = 10, 15, 5
TUNINGS, NEAR = 10, 0.03  # steps towards a load, and when it is met


def scenario(matchers: int, ordered: bool) -> Scenario:
    return Scenario(
        name="onehop-live",
        validate_every=0,
        judge_every=5,
        brokers=Brokers(
            "onehop", matchers + DISPATCHERS, ordered=ordered, matcher="index", dispatchers=DISPATCHERS
        ),
        clients=Clients(PUBLISHERS, SUBSCRIBERS, EACH, mixed=0.0, window=4096),
        load=Load("ranges", every_s=PUBLISHERS / GENTLE, burst=1, churn_s=0.0),
        network=Wires(scale_s=0.0005, jitter_s=0.0001, skew_s=0.0),
        capacity=Capacity(effort=1.0),
        effort=Reckoned(20e-6, 0.295e-6 * STANDS_FOR, 0.0, 13e-6 * STANDS_FOR),
        links=LinkSettings(),
        attachments=ClientSettings(),
        onehop=OneHopSettings(dimensions=("d0", "d1", "d2", "d3")),
    )


class Live(Simulation):
    """A cluster whose load is set from outside; `spare` matchers wait to be started."""

    def __init__(self, matchers: int, ordered: bool = True, spare: int = 0, seed: int = 1) -> None:
        super().__init__(scenario(matchers + spare, ordered), seed)
        # No client is slow or lost here: what would excuse a loss is not looked for at each burst.
        self.watcher._look_at_clients = lambda *_: None  # type: ignore[method-assign]
        self.matchers = self.brokers[: matchers + spare]
        self.waiting = set(self.matchers[matchers:])
        self.responses: list[tuple[float, float]] = []  # when it may be sent on, after how long

    def _start_broker(self, broker: BrokerHost) -> None:
        if broker not in self.waiting:
            super()._start_broker(broker)

    def _build(self, broker: BrokerHost, incarnation: int, kept: Any) -> Core:
        core = super()._build(broker, incarnation, kept)
        publications = part(core, Publications)
        assert isinstance(publications, OneHopPublications)
        release = publications.release

        def watched(side: Lane, run: list[Any], record: Settling, now: float) -> None:
            self.responses += [(self.world.now, now - publication.accepted_at) for publication, _ in run]
            release(side, run, record, now)

        publications.release = watched  # type: ignore[method-assign]
        return core

    def set_rate(self, rate: float) -> None:
        for app in self.apps:
            app.every_s = PUBLISHERS / rate

    def run_for(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def warm_up(self) -> None:
        """Until every matcher has its segments."""
        self.start()
        self.run_for(WARM_S)
        while not all(self.serves(matcher) for matcher in self.matchers if matcher not in self.waiting):
            self.run_for(1.0)

    def serves(self, matcher: BrokerHost) -> bool:
        cluster = part(matcher.core, Cluster) if matcher.core is not None else None
        return isinstance(cluster, Cluster) and all(cluster.own.segments)

    def measure(self, seconds: float) -> tuple[float, list[float]]:
        """The mean response, and how busy each matcher was."""
        cores = [matcher.core for matcher in self.matchers if matcher.core is not None]
        before, since = [core.effort_s for core in cores], self.world.now
        self.run_for(seconds)
        took = [response for at, response in self.responses if at > since]
        return fmean(took or [0.0]), [(c.effort_s - b) / seconds for c, b in zip(cores, before)]

    def approach(self, share: float) -> list[float]:
        """The rates on the way to that at which matchers are busy for this share of the time."""
        rates = [GENTLE]
        for _ in range(TUNINGS):
            load = fmean(self._busy_at(rates[-1]))
            if abs(load - share) < NEAR:
                break
            # Under more load policies choose costlier sets: the last steps are small ones.
            rates.append(rates[-1] * share / load)
        return rates

    def _busy_at(self, rate: float) -> list[float]:
        self.set_rate(rate)
        self.run_for(1.0)
        return self.measure(LEAST_S)[1]

    def follow(self, rates: list[float]) -> None:
        for rate in rates:
            self._busy_at(rate)

    def verdict(self) -> dict[str, Any]:
        """Everything comes to rest, and the oracle has judged it."""
        self.settle()
        self.oracle.judge()
        return {"violations": self.oracle.violation_count, "cut": self.oracle.cut_count}


def order() -> dict[str, Any]:
    seeds = [_order(seed) for seed in SEEDS]
    found: dict[str, Any] = {}
    for word in ("ordered", "unordered"):
        runs = [one[word] for one in seeds]
        found[word] = {what: round(fmean(run[what] for run in runs), 3) for what in ("response_ms", "load")}
        found[word] |= {what: sum(run[what] for run in runs) for what in ("violations", "cut")}
    ratio = found["ordered"]["response_ms"] / found["unordered"]["response_ms"]
    return {"ratio": round(ratio, 3), **found, "seeds": seeds}


def _order(seed: int) -> dict[str, Any]:
    means: dict[bool, float] = {}
    rates: list[float] = []
    found: dict[str, Any] = {}
    for ordered in (True, False):
        live = Live(5, ordered, seed=seed)
        live.warm_up()
        if rates:
            live.follow(rates)
        else:
            rates = live.approach(HIGH)
        means[ordered], busy = live.measure(MEASURED_S)
        found["ordered" if ordered else "unordered"] = {
            "response_ms": round(1000 * means[ordered], 2),
            "load": round(fmean(busy), 3),
            "busiest": round(max(busy), 3),
            **live.verdict(),
        }
    return {"rate": round(rates[-1]), "ratio": round(means[True] / means[False], 3), **found}


def join() -> dict[str, Any]:
    joined, alone = _overloaded(joins=True), _overloaded(joins=False)
    before, after = fmean(joined["before_ms"]), joined["after_ms"]
    falls = (n for n in range(1, WATCHED_S + 1) if max(after[n - 1], fmean(after[n - 1 :])) < before)
    gained = fmean(alone["after_ms"][SOON_S:]) / fmean(after[SOON_S:])
    without = {"without_ms": alone["after_ms"], "without_over_with": round(gained, 2)}
    return {**joined, **without, "falls_after_s": next(falls, None)}


def _overloaded(joins: bool) -> dict[str, Any]:
    live = Live(5, spare=1)
    live.warm_up()
    rate = live.approach(HIGH)[-1] / HIGH * TOO_MUCH
    live.set_rate(rate)
    before = [live.measure(1.0)[0] for _ in range(OVERLOADED_S)]
    if joins:
        live.waiting.pop().start()
    after = [live.measure(1.0)[0] for _ in range(WATCHED_S)]
    return {
        "rate": round(rate),
        "before_ms": [round(1000 * mean) for mean in before],
        "after_ms": [round(1000 * mean) for mean in after],
        **live.verdict(),
    }


def leave() -> dict[str, Any]:
    live = Live(6)
    live.warm_up()
    rate = live.approach(LEAVING_AT)[-1]
    before, _ = live.measure(LEAST_S)
    live.matchers[-1].leave()
    after = [live.measure(1.0)[0] for _ in range(WATCHED_S)]
    return {
        "rate": round(rate),
        "before_ms": round(1000 * before, 2),
        "after_ms": [round(1000 * mean) for mean in after],
        "left": live.matchers[-1].left,
        **live.verdict(),
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"order": order, "join": join, "leave": leave}


def main(words: list[str]) -> int:
    print(msgspec.json.encode({word: PARTS[word]() for word in words or PARTS}).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
