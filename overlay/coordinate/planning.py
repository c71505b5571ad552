"""The search for better positions, in slices: no broker stands still for it (DYNATOPS 5.1).

Topics that nobody publishes and those that nobody wants cost nothing and are left out. A slice is one
improvement of the path; the ways and the tables before it are slices too.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from grapevine.wire.chord import RingNode
from overlay.coordinate.cost import Cost, Geometry
from overlay.coordinate.greedy import (
    Plan,
    Step,
    best_of,
    improvements,
    is_worth_computing,
    reconfiguration_cost,
)
from overlay.coordinate.interests import Survey
from overlay.settings import ReconfigurationSettings


class Proposal(NamedTuple):
    nodes: tuple[RingNode, ...]  # as they are, in the order of positions
    at: tuple[int, ...]  # which of them is to be at each position
    topics: int
    now: float  # C(X) of the present mapping
    then: float  # and of the proposed one
    plan: Plan
    worth: bool  # the reconfigurability test

    @property
    def moves(self) -> list[tuple[RingNode, RingNode]]:
        """Who goes, and whose place it takes."""
        pairs = zip((self.nodes[rank] for rank in self.at), self.nodes, strict=True)
        return [(goes, place) for goes, place in pairs if goes != place]

    def target(self) -> tuple[RingNode, ...]:
        """The same brokers on the next plane, in the order of positions."""
        return tuple(
            RingNode(place.position, goes.broker, goes.incarnation, goes.name, goes.addresses)
            for goes, place in ((self.nodes[rank], self.nodes[at]) for at, rank in enumerate(self.at))
        )


def search(survey: Survey, settings: ReconfigurationSettings, base: int) -> Generator[None, None, Proposal]:
    nodes = survey.nodes()
    expected = survey.expected()
    wanted_by = {topic for said in survey.answers.values() for topic in said.topics}
    topics = sorted(topic for topic, events in expected.items() if events and topic in wanted_by)
    columns = {topic: column for column, topic in enumerate(topics)}
    wanted = np.zeros((len(nodes), len(topics)), bool)
    for row, node in enumerate(nodes):
        for topic in survey.answers[node.broker].topics:
            if topic in columns:
                wanted[row, columns[topic]] = True
    yield
    geometry = Geometry(np.array([node.position for node in nodes], np.uint64), base)
    yield
    keys = np.array(topics, np.uint64)
    events = np.array([expected[topic] for topic in topics])
    at = np.arange(len(nodes))
    if not topics:
        nothing = Plan(at, 0.0, 0.0, 0, 0)
        return Proposal(tuple(nodes), tuple(map(int, at)), 0, 0.0, 0.0, nothing, False)
    cost = Cost(geometry, geometry.owner(keys), events, wanted, at, settings.delay_weight)
    before = cost.total()
    worth = is_worth_computing(before, len(nodes), len(topics), settings.beta, settings.cost)
    path: list[Step] = []
    yield
    for step in improvements(cost, settings.patience):
        path.append(step)
        yield
    plan = best_of(path, len(topics), settings.cost)
    if not plan.pays:
        plan = _cheapest(path, len(topics), settings.cost)
    mapping = tuple(int(rank) for rank in plan.at)
    return Proposal(tuple(nodes), mapping, len(topics), before, before - plan.benefit, plan, worth)


def _cheapest(path: list[Step], topics: int, form: str) -> Plan:
    """Where the search ended, although going there costs more than it saves: for an operator to see."""
    first, last = path[0], path[-1]
    changed = int((first.at != last.at).sum())
    price = reconfiguration_cost(len(first.at), topics, changed, form)
    return Plan(last.at, first.cost - last.cost, price, changed, len(path) - 1)
