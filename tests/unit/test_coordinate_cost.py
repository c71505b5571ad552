"""The cost of a mapping and all changes by swaps, against counting every tree afresh node by node."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.chord.ring import Node, ideal
from overlay.chord.trees import tree, way
from overlay.coordinate.cost import Cost, Geometry, Matrix
from overlay.coordinate.greedy import best_of, dynatops_greedy, reconfiguration_cost, ssbr_greedy


def instance(seed: int, brokers: int, topics: int, share: float = 0.2, base: int = 2) -> Cost:
    chance = np.random.default_rng(seed)
    geometry = Geometry(chance.integers(0, 1 << 64, brokers, dtype=np.uint64), base)
    roots = geometry.owner(chance.integers(0, 1 << 64, topics, dtype=np.uint64))
    wanted = chance.random((brokers, topics)) < share
    events = chance.integers(1, 9, topics).astype(float)
    return Cost(geometry, roots, events, wanted, chance.permutation(brokers), 0.7)


def counted(cost: Cost, at: Matrix, wanted: Matrix) -> float:
    """C(X) by the trees of overlay.chord, one topic after the other."""
    nodes = [Node(int(position), rank, 1) for rank, position in enumerate(cost.geometry.positions)]
    known = {node: ideal(nodes, node.broker, 4) for node in nodes}

    def pointers_of(node: Node) -> tuple[Node, ...]:
        # A successor list is wider than fingers alone; the model has first successor and fingers.
        return (*known[node].successors[:1], *known[node].fingers)

    total = 0.0
    for topic, root in enumerate(cost.roots):
        members = [node for node in nodes if wanted[at[node.broker], topic]]
        children = tree(nodes[root], members, pointers_of)
        inside = {child for several in children.values() for child in several}
        relays = len(inside - set(members))
        delay = sum(len(way(nodes[root], member, pointers_of)) for member in members)
        total += cost.events[topic] * (relays + cost.delay_weight * delay)
    return total


def wanted_of(cost: Cost) -> Matrix:
    found = np.empty((cost.size, len(cost.events)), bool)
    found[cost.at] = cost.member.T
    return found


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 18), st.integers(1, 14), st.sampled_from((0.1, 0.4, 0.9)))
def test_changes_equal_counting_afresh(seed: int, brokers: int, topics: int, share: float) -> None:
    cost = instance(seed, brokers, topics, share)
    wanted = wanted_of(cost)
    chance = np.random.default_rng(seed)
    for _ in range(3):
        before = cost.total()
        assert before == pytest.approx(counted(cost, cost.at, wanted))
        assert cost.broker_costs().sum() == pytest.approx(before)  # (12)
        node = int(chance.integers(brokers))
        changes = cost.swaps(node)
        for other in range(brokers):
            at = cost.at.copy()
            at[[node, other]] = at[[other, node]]
            assert changes[other] == pytest.approx(counted(cost, at, wanted) - before), (node, other)
        cost.swap(node, int(chance.integers(brokers)))


def test_a_long_path_of_swaps_stays_exact() -> None:
    cost = instance(3, 40, 60)
    wanted = wanted_of(cost)
    path = ssbr_greedy(cost, patience=5)
    assert len(path) > 5
    assert all(later.cost < earlier.cost for earlier, later in pairwise(path))
    assert path[-1].cost == pytest.approx(counted(cost, cost.at, wanted))
    fresh = Cost(cost.geometry, cost.roots, cost.events, wanted, cost.at, cost.delay_weight)
    for name in ("below", "miss", "ones", "missing", "alone", "members", "relay"):
        a, b = getattr(cost, name), getattr(fresh, name)
        assert np.array_equal(a[:, : cost.size], b[:, : cost.size]), name


def test_the_geometry_knows_the_rings_own_ways() -> None:
    for base in (2, 4, 16):
        geometry = instance(5, 30, 5, base=base).geometry
        nodes = [Node(int(position), rank, 1) for rank, position in enumerate(geometry.positions)]
        known = {node: ideal(nodes, node.broker, 1, base) for node in nodes}
        for start in nodes[::5]:
            for end in nodes:
                passed = way(start, end, lambda node: (*known[node].successors, *known[node].fingers))  # noqa: B023
                found = geometry.ways(start.broker)[end.broker]
                assert [node.broker for node in passed] == [int(x) for x in found if x < geometry.size]


def test_of_the_path_the_mapping_that_pays_most_is_taken() -> None:
    cost = instance(9, 30, 40)
    cost.events *= 100
    cost = Cost(cost.geometry, cost.roots, cost.events, wanted_of(cost), cost.at, 1.0)
    path = ssbr_greedy(cost)
    plan = best_of(path, 40)
    worth = [
        path[0].cost - step.cost - reconfiguration_cost(30, 40, int((step.at != path[0].at).sum()))
        for step in path
    ]
    assert plan.benefit - plan.cost == pytest.approx(max(worth)) and plan.pays
    assert plan.changed == (plan.at != path[0].at).sum() > 0
    dear = best_of([path[0]._replace(cost=1.0), path[1]._replace(cost=0.9)], 40)
    assert not dear.pays and dear.changed == 0


def test_nobody_moves_where_nothing_is_published() -> None:
    cost = instance(9, 20, 10)
    still = Cost(cost.geometry, cost.roots, np.zeros(10), wanted_of(cost), cost.at, 1.0)
    plan = dynatops_greedy(still)
    assert plan.swaps == plan.changed == 0
