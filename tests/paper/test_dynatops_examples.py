"""DYNATOPS: its worked examples and formulas, by section."""

from __future__ import annotations

import math

import numpy as np
import pytest

from overlay.chord.placement import Candidate, similarity, utility
from overlay.chord.ring import Node, ideal, next_hop_to_key
from overlay.chord.trees import relays, tree, way
from overlay.coordinate.cost import Cost, Geometry
from overlay.coordinate.greedy import (
    dynatops_greedy,
    estimated_rate,
    is_worth_computing,
    reconfiguration_cost,
    ssbr_greedy,
)

EIGHTH = 1 << 61
RING = [Node(place * EIGHTH, place, 1) for place in range(8)]
KNOWN = {node: ideal(RING, node.broker, 4) for node in RING}
ROOT = RING[1]  # topic t1 is hashed to id 1


def fingers_of(node: Node) -> tuple[Node, ...]:
    return KNOWN[node].fingers


def measures(places: tuple[int, ...]) -> tuple[int, int]:
    """Unrelated relays and the longest way, with t1's members at these nodes."""
    members = [RING[place] for place in places]
    found = tree(ROOT, members, fingers_of)
    return len(relays(ROOT, members, found)), max(len(way(ROOT, one, fingers_of)) for one in members)


def test_fingers_of_eight_uniform_nodes() -> None:
    """Figure 2: the neighbours of a node are one, two and four places on."""
    assert [node.broker for node in fingers_of(ROOT)] == [2, 3, 5]
    assert next_hop_to_key(0, RING[7].position, RING[1], fingers_of(RING[0]), 4 * EIGHTH) == RING[4]


def test_three_relays_and_three_hops_become_none_and_one() -> None:
    """3.1, figure 2: before, t1 takes 3 unrelated relays and 3 hops; after, no relay and 1 hop. Which broker
    sits where is drawn, not written; these places have the values of the text."""
    assert measures((0, 4, 6)) == (3, 3)
    assert measures((2, 3, 5)) == (0, 1)


def test_the_greedy_search_finds_figure_2b() -> None:
    """5.1.1 on figure 2's example: swaps of the costliest broker end where nothing is relayed for t1."""
    geometry = Geometry(np.array([node.position for node in RING], dtype=np.uint64))
    wanted = np.zeros((8, 2), bool)
    wanted[[0, 4, 6], 0] = True
    wanted[[1, 2, 3, 5, 7], 1] = True
    cost = Cost(geometry, np.array([1, 4]), np.array([10.0, 1.0]), wanted, np.arange(8), 1.0)
    path = ssbr_greedy(cost, patience=8)
    t1 = tuple(int(node) for node in np.flatnonzero(cost.member[0]))
    assert path[-1].cost < path[0].cost and measures(t1) == (0, 1)


def test_similarity_and_utility() -> None:
    """4: Sim = |S_b & s_u| / |s_u|, Util = Sim - w_l L_b."""
    assert similarity({1, 2, 3, 4}, frozenset({1, 2, 9})) == 0.5
    assert utility({1, 2, 3, 4}, Candidate(1, frozenset({1, 2, 9}), 25), 100, 1.0) == 0.25


def test_filter_of_publication_rates() -> None:
    """(8) with alpha = 0.3."""
    assert estimated_rate(100.0, 0.0) == pytest.approx(70.0)
    assert estimated_rate(0.0, 100.0) == pytest.approx(30.0)


def test_reconfiguration_cost() -> None:
    """(7): none for the same mapping; |V| once by 5.1.2's text, Gamma times as printed."""
    log = math.log2(100)
    assert reconfiguration_cost(100, 1000, 0) == 0
    assert reconfiguration_cost(100, 1000, 5) == pytest.approx(100 + (log**2 + 1000 * log) * 5)
    assert reconfiguration_cost(100, 1000, 5, "printed") == pytest.approx(500 + (log**2 + 1000 * log) * 5)


def test_reconfigurability_test() -> None:
    """Algorithm 2, step 2: the threshold is beta times the largest possible cost, beta = 0.1."""
    most = reconfiguration_cost(100, 1000, 100)
    assert is_worth_computing(0.11 * most, 100, 1000) and not is_worth_computing(0.09 * most, 100, 1000)


def test_broker_costs_add_up() -> None:
    """(12)."""
    chance = np.random.default_rng(1)
    geometry = Geometry(chance.integers(0, 1 << 64, 50, dtype=np.uint64))
    wanted = chance.random((50, 30)) < 0.2
    cost = Cost(geometry, chance.integers(0, 50, 30), np.full(30, 7.0), wanted, np.arange(50), 2.0)
    assert cost.broker_costs().sum() == pytest.approx(cost.total())


def test_saving_against_consistent_hashing_is_positive() -> None:
    """6.3.3, figure 10: under both patterns; 'larger for multimodal' is judged by the reproduction."""
    for seed in range(3):
        chance = np.random.default_rng(seed)
        geometry = Geometry(chance.integers(0, 1 << 64, 60, dtype=np.uint64))
        wanted = chance.random((60, 50)) < 0.1
        roots = geometry.owner(chance.integers(0, 1 << 64, 50, dtype=np.uint64))
        cost = Cost(geometry, roots, np.full(50, 5000.0), wanted, chance.permutation(60), 1.0)
        plan = dynatops_greedy(cost)
        assert plan.pays and plan.changed > 0
