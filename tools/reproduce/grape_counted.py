"""The POP and GRAPE experiment without sending its publications: an X in seconds instead of minutes.

Publishers do not influence each other: brokers are busy for a hundredth of their time, and each symbol has
subscribers of its own. So every publisher is followed by itself, publication by publication, for the whole
run. Who wants a quote is the filters' word and the way to them in a tree is known; what is traced, noted and
chosen is the brokers' own functions' (SessionTrace, Evaluation, relocation_target; TagWindow,
PublisherProfileTable, closest_neighbour). Messages are counted; answers come after the round trips that they
need. `grape_experiment` sends everything; the rows `agreement` and a test hold the two together.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Protocol

from grapevine.filters.evaluate import matches
from grapevine.wire.relocation import SessionId
from overlay.relocate.profile import PublisherProfileTable, TagWindow, closest_neighbour
from overlay.relocate.selection import Evaluation, nodes_of, relocation_target
from overlay.relocate.traces import SessionTrace
from overlay.settings import RelocationSettings
from tools.reproduce.grape_experiment import MATCHING_S, SETTLED_S, Outcome
from tools.reproduce.grape_placing import Placing, Setting, latency, placings, randomness
from tools.reproduce.grape_spread import Cost, Spread, Tree
from tools.reproduce.quotes import Symbol

REPORT = {"matching_delay_s": MATCHING_S, "queue_delay_s": MATCHING_S / 2}
OF_A_MOVE = 6  # Relocate, Paused, Migrate, Relocated and twice RelocateEnd
OF_A_HOP = 2  # MigrationUpdate and MigrationComplete
SESSION = SessionId(0, 0, 0)

Wanted = tuple[str, ...]  # the ratings whose subscribers want a quote


class Algorithm(Protocol):
    def publication(self, wanted: Wanted, now: float) -> None:
        """The publisher's broker takes one."""

    def moved(self, path: list[int], now: float) -> None:
        """The publisher is at the end of this path from now on."""


class Followed:
    """One publisher from its first publication to its last."""

    def __init__(self, setting: Setting, tree: Tree, symbol: Symbol, placing: Placing) -> None:
        self.setting = setting
        self.tree = tree
        self.placing = placing
        self.wanted = wanted_by(symbol, setting.workload)
        self.host = placing.first_host + len(placing.subscribers)
        self.place = placing.publisher
        self.random = Random(f"tags {symbol.name} {setting.seed}")
        self.since = -SETTLED_S  # when it came there
        self.measuring = False
        self.moves = self.control = self.control_measured = 0
        self.published: Counter[tuple[int, Wanted]] = Counter()  # how often from where
        self.measured: Counter[tuple[int, Wanted]] = Counter()
        self.cost = cache(self._cost)
        self.spread = cache(self._spread)
        self._going: tuple[float, list[int]] | None = None  # from when on, along which path

    def run(self, begin: float) -> None:
        setting, wanted = self.setting, self.wanted
        algorithm = self._algorithm(begin)
        for index in range(round(setting.seconds * setting.rate)):
            now, number = begin + index / setting.rate, setting.first + index
            self.measuring = number >= 0
            if self._going is not None and now >= self._going[0]:
                self._arrive(algorithm)
            want = wanted[number % len(wanted)]
            self.published[self.place, want] += 1
            if self.measuring:
                self.measured[self.place, want] += 1
            if algorithm is not None:
                algorithm.publication(want, now)

    def _algorithm(self, now: float) -> Algorithm | None:
        settings = self.setting.relocation
        if settings is None:
            return None
        return Sessions(self, settings) if settings.algorithm == "grape" else Traces(self, settings, now)

    def say(self, messages: int) -> None:
        self.control += messages
        self.control_measured += messages * self.measuring

    def go(self, path: list[int], decided_at: float, settings: RelocationSettings) -> None:
        """It attaches to the target; what it publishes from then on is held back and leaves there."""
        rested_s = decided_at - self.since
        if self._going is None and len(path) > 1 and rested_s >= 60.0 / settings.moves_per_minute:
            here_s, there_s = (self.tree.one_way_s(self.host, broker - 1) for broker in (path[0], path[-1]))
            self._going = (decided_at + here_s + 2 * there_s, path)

    def _arrive(self, algorithm: Algorithm | None) -> None:
        assert self._going is not None and algorithm is not None
        (self.since, path), self._going = self._going, None
        self.say(OF_A_MOVE + OF_A_HOP * (len(path) - 1))
        self.place = path[-1]
        self.moves += 1
        algorithm.moved(path, self.since)

    def _spread(self, place: int, wanted: Wanted) -> Spread:
        homes = Counter(broker for rating, broker in self.placing.subscribers if rating in wanted)
        return Spread(self.tree, place, homes)

    def _cost(self, place: int, wanted: Wanted) -> Cost:
        hosts = enumerate(self.placing.subscribers, self.placing.first_host)
        clients = [(broker, host) for host, (rating, broker) in hosts if rating in wanted]
        return Cost(self.tree, self.spread(place, wanted), clients, self.host)


@cache
def wanted_by(symbol: Symbol, workload: str) -> list[Wanted]:
    """Of each quote in turn."""
    ratings = ("low", "high") if workload == "clustered" else ("low", "medium", "high")
    filters = {rating: symbol.subscription(rating) for rating in ratings}
    return [tuple(r for r in ratings if matches(filters[r], quote)) for quote in symbol.quotes]


class Sessions:
    """GRAPE at the publisher's broker."""

    def __init__(self, followed: Followed, settings: RelocationSettings) -> None:
        self.followed = followed
        self.settings = settings
        self.session: list[Wanted] = []
        self.began_at = self.answered_at = 0.0

    def moved(self, path: list[int], now: float) -> None:
        self.session = []

    def publication(self, wanted: Wanted, now: float) -> None:
        if len(self.session) >= self.settings.threshold:
            if now < self.answered_at or now - self.began_at < self.settings.window_s:
                return
            self.session = []
        if not self.session:
            self.began_at = now
        self.session.append(wanted)
        if len(self.session) == self.settings.threshold:
            self._judge(now)

    def _judge(self, now: float) -> None:
        followed, settings, here = self.followed, self.settings, self.followed.place
        traces, farthest_s = self._noted(here)
        followed.say(2 * (len(traces) - 1))
        # The last one settles, all are asked: each takes a round trip to the farthest broker.
        self.answered_at, round_trips = now + 4 * farthest_s, {}
        if settings.priority == "delay" or settings.weight < 100:
            round_trips = {b: 2 * followed.tree.one_way_s(followed.host, b - 1) for b in traces}
            self.answered_at += max(round_trips.values()) + round_trips[here]
            followed.say(2)
        neighbours = followed.tree.neighbours
        answers = [trace.answer(b, "", (), neighbours(b), REPORT) for b, trace in traces.items()]
        candidates = Evaluation(nodes_of(answers, settings.delay_model), here, round_trips).run()
        target = relocation_target(candidates, here, settings.priority, settings.weight, settings.gain)
        followed.go(followed.tree.path(here, target), self.answered_at, settings)

    def _noted(self, here: int) -> tuple[dict[int, SessionTrace], float]:
        """What each broker reached has noted, and how far the farthest is."""
        traces: dict[int, SessionTrace] = {}
        spreads = {wanted: self.followed.spread(here, wanted) for wanted in set(self.session)}
        for wanted in sorted(spreads):
            for broker in spreads[wanted].order:
                traces.setdefault(broker, SessionTrace(SESSION))
        for index, wanted in enumerate(self.session):
            for broker, subscribers in spreads[wanted].local.items():
                traces[broker].delivered(index, subscribers)
        return traces, max(self.followed.cost(here, wanted).farthest_s for wanted in spreads)


class Traces:
    """POP: the publisher's broker, and the profiles at all the others."""

    def __init__(self, followed: Followed, settings: RelocationSettings, now: float) -> None:
        self.followed = followed
        self.settings = settings
        self.tables: dict[int, PublisherProfileTable] = {}
        self._begin(now)

    def _begin(self, now: float) -> None:
        self.window = TagWindow(now)
        self.traces = 0
        self.outstanding: list[float] = []  # when their answers come

    def moved(self, path: list[int], now: float) -> None:
        for broker in path:
            self.tables.pop(broker, None)
        self._begin(now)

    def publication(self, wanted: Wanted, now: float) -> None:
        settings, followed = self.settings, self.followed
        self._answered(now)
        if self.traces + len(self.outstanding) >= settings.threshold:
            return  # a decision comes first
        if self.window.tag(settings.traces_max, settings.window_s, now, followed.random):
            spread = followed.spread(followed.place, wanted)
            for broker in spread.order:
                onward = {other: float(spread.behind[other]) for other in spread.onward[broker]}
                self.tables.setdefault(broker, PublisherProfileTable()).record(spread.local[broker], onward)
            followed.say(spread.links)
            self.outstanding.append(now + 2 * followed.cost(followed.place, wanted).farthest_s)

    def _answered(self, now: float) -> None:
        before = len(self.outstanding)
        last = max(self.outstanding, default=now)
        self.outstanding = [at for at in self.outstanding if at > now]
        self.traces += before - len(self.outstanding)
        if before and not self.outstanding and self.traces >= self.settings.threshold:
            self.traces = 0
            self._decide(last)

    def _decide(self, now: float) -> None:
        followed, path, others = self.followed, [self.followed.place], 0.0
        while (table := self.tables.get(path[-1])) is not None:
            came = path[-2] if len(path) > 1 else None
            behind = {broker: count for broker, count in table.downstream.items() if broker != came}
            margin = self.settings.gain if came is None else 0.0
            closer, others = closest_neighbour(behind, table.local, others, margin)
            if closer is None or closer in path:
                break
            path.append(closer)
        followed.say(2 * (len(path) - 1))
        followed.go(path, now + 2 * followed.tree.path_s(path), self.settings)


def counted(setting: Setting, symbols: list[Symbol], data: Path | None) -> Outcome:
    tree, random = Tree(setting.brokers, latency(setting, data)), randomness(setting)
    followed = [Followed(setting, tree, s, p) for s, p in zip(symbols, placings(setting, random))]
    for one in followed:
        one.run(random.uniform(0, 1 / setting.rate))
    measured = [(one.cost(*key), count) for one in followed for key, count in one.measured.items()]
    whole = [(one.cost(*key), count) for one in followed for key, count in one.published.items()]
    taken = sum(count * (cost.links + 1) for cost, count in measured)
    carried = sum(count * (cost.links + 1 + cost.deliveries) for cost, count in whole)
    deliveries = max(sum(count * cost.deliveries for cost, count in measured), 1)
    control, per_broker = sum(one.control for one in followed), setting.measured_s * setting.brokers
    return Outcome(
        message_rate=(taken + sum(one.control_measured for one in followed)) / per_broker,
        input_utilisation=taken * MATCHING_S / per_broker,
        delay_ms=1000 * sum(count * cost.delay_s for cost, count in measured) / deliveries,
        hops=sum(count * cost.hops for cost, count in measured) / deliveries,
        overhead=control / max(carried, 1),
        control_rate=control / setting.seconds,
        moves=sum(one.moves for one in followed),
        memory=0.0,
        pauses=[],
        selections=[],
    )
