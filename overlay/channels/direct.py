"""Channels that are only a filter over one fed dataset: run here when rows come, without a driver.

Each parameter set is a content filter in an index; a row that comes is matched once for all of them.
Everything else is as with a driver: a plan on disk, results committed by one rename, brokers that pull;
so the positions and the promise are the same. Rows that came in one burst are one execution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from grapevine.filters.folding import canonical, fold
from grapevine.filters.normal import NOTHING, Filter, Op, Predicate
from grapevine.wire import decode_attributes
from grapevine.wire.catalog import Channel, Comparison, Dataset, Direct, Term
from grapevine.wire.columns import column_value
from grapevine.wire.driving import FedRow, Plan, run_of
from grapevine.wire.parameters import read_canonical
from matching.interface import Matcher
from overlay.behaviour import Quiet, Status
from overlay.channels.backend import BackEnd
from overlay.channels.executions import store_name
from overlay.channels.feeds import Feeds
from overlay.channels.results import ResultsError, Runs
from overlay.core import Core

READ_BYTES = 4 << 20
ATTEMPT = 0
RETRY_S = 1.0


class Sets:
    """The parameter sets of one generation as an index."""

    def __init__(self, version: int, generation: int, index: Matcher, bes: list[int]) -> None:
        self.version = version
        self.generation = generation
        self.index = index
        self.bes = bes


class DirectChannels(Quiet):
    name = "direct channels"

    def __init__(self, backend: BackEnd, feeds: Feeds, matcher: Callable[[], Matcher]) -> None:
        self.backend = backend
        self.store = backend.store
        self.matcher = matcher
        self.executions = 0
        self._sets: dict[str, Sets] = {}
        self._due: set[str] = set()
        feeds.arrived = self.arrived

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        """What was planned, or had come, when an earlier life ended."""
        for channel in self.store.catalog.channels.values():
            self._soon(channel, now)

    def arrived(self, dataset: str, now: float) -> None:
        for channel in self.store.catalog.channels.values():
            if dataset in channel.new:
                self._soon(channel, now)

    def _soon(self, channel: Channel, at: float) -> None:
        """After this burst: what else comes in it is in the same execution."""
        if channel.direct is not None and channel.name not in self._due:
            self._due.add(channel.name)
            self.core.timers.at(at, lambda now: self._run(channel.name, now))

    def _run(self, name: str, now: float) -> None:
        self._due.discard(name)
        channel = self.store.catalog.channels.get(name)
        if channel is None or channel.direct is None:
            return
        plan = self.store.executions.plan(channel, now)
        if plan is None:
            return
        try:
            runs = self._evaluate(channel, channel.direct, plan)
            self.store.results.put(store_name(name, plan.version), plan.execution, ATTEMPT, 0, runs)
            done = self.store.executions.commit(plan, ATTEMPT, 1, 0.0, now)
        except ResultsError as error:
            self.core.note(now, f"channel {name}: {error}")
            done = False
        if not done:
            self._soon(channel, now + RETRY_S)
            return
        self.executions += 1
        self.backend.executed(plan, now)
        self._soon(channel, now)  # a plan of before may have left rows; without any nothing runs

    def _evaluate(self, channel: Channel, direct: Direct, plan: Plan) -> Runs:
        # Of its one dataset; a word of the query may be the name of another one.
        name, after, up_to = next(cut for cut in plan.cuts if cut[0] == channel.new[0])
        dataset = self.store.catalog.datasets[name]
        sets = self._sets_of(channel, direct, plan)
        found: dict[int, list[bytes]] = {}
        while after < up_to and (rows := self.store.log.read(name, after, up_to, READ_BYTES)):
            for read in rows:
                values = typed(dataset, read.row)
                matched = sets.index.match(values)
                if matched:
                    row = {column.alias: values.get(column.name) for column in direct.columns}
                    packed = msgspec.msgpack.encode((plan.at, row))
                    for number in matched:
                        found.setdefault(sets.bes[number], []).append(packed)
            after = rows[-1].position
        return [run_of(be, rows) for be, rows in sorted(found.items())]

    def _sets_of(self, channel: Channel, direct: Direct, plan: Plan) -> Sets:
        known = self._sets.get(channel.name)
        if known is not None and (known.version, known.generation) == (plan.version, plan.generation):
            return known
        index = self.matcher()
        bes: list[int] = []
        for known_be in self.store.interest.of(channel.name, plan.version, plan.generation):
            values = read_canonical(channel.parameters, known_be.kept.form)
            given = {p.name: value for p, value in zip(channel.parameters, values)}
            index.add(len(bes), filter_of(direct, given), 0)
            bes.append(known_be.be)
        made = self._sets[channel.name] = Sets(plan.version, plan.generation, index, bes)
        return made

    def status(self) -> Status:
        return {"executions": self.executions}


def typed(dataset: Dataset, row: FedRow) -> dict[str, Any]:
    """The columns that are not null."""
    attributes = decode_attributes(row.attributes)
    found = {name: column_value(attributes.get(name), kind) for name, kind in dataset.columns}
    return {name: value for name, value in found.items() if value is not None}


def filter_of(direct: Direct, given: dict[str, Any]) -> Filter:
    """For one parameter set."""

    def value_of(term: Term) -> Any:
        value: Any = given[term.parameter] if term.parameter else term.value
        return canonical(value)

    predicates = [_predicate(each, value_of(each.term)) for each in direct.comparisons]
    for circle in direct.circles:
        centre = tuple(float(value_of(each)) for each in (circle.north, circle.east, circle.km))
        if not (abs(centre[0]) <= 90 and abs(centre[1]) <= 180 and centre[2] >= 0):
            return NOTHING  # near a place that is none
        predicates.append(Predicate(circle.latitude, Op.IN_CIRCLE, (circle.longitude, *centre)))
    folded = fold(predicates)
    return NOTHING if folded is None else Filter((folded,))


def _predicate(each: Comparison, value: Any) -> Predicate:
    if each.operator in ("=", "<>"):
        return Predicate(each.column, Op.EQ if each.operator == "=" else Op.NE, value)
    if each.operator in ("<", "<="):
        return Predicate(each.column, Op.RANGE, (None, value, False, each.operator == "<"))
    return Predicate(each.column, Op.RANGE, (value, None, each.operator == ">", False))
