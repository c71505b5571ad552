"""Variants of the soft links' model: each changes what it says and nothing else."""

from __future__ import annotations

import pytest

from tools.reproduce.multipath_datasets import TABLE_2
from tools.reproduce.multipath_mesh import Mesh, Node
from tools.reproduce.multipath_variants import (
    NAME,
    STRATEGIES,
    VARIANTS,
    AllLinks,
    AtLeaves,
    ByGain,
    FewPublish,
    MostlyAtLeaves,
    RandomTree,
    Together,
    Yields,
)
from tools.reproduce.multipath_workload import Tree, Workload, calibrate, s0_figures


def test_what_s1_gains_of_s2_in_the_paper() -> None:
    paper = Yields("paper", {strategy: TABLE_2[NAME][strategy][0] for strategy in STRATEGIES})
    assert paper.s1_of_s2 == pytest.approx(0.498, abs=0.001)
    assert VARIANTS["as measured"].node is Node and VARIANTS["as measured"].family is Workload


def test_a_random_tree_is_a_tree_of_its_degree() -> None:
    tree = RandomTree(60)
    assert max(map(len, tree.beside)) == 3 and sum(map(len, tree.beside)) == 2 * 59
    assert all(tree.distance[1][broker] for broker in tree.brokers[1:])
    assert tree.beside != Tree(60).beside


def test_subscribers_sit_at_the_leaves() -> None:
    tree = Tree(60)
    leaves = {broker for broker in tree.brokers if len(tree.beside[broker]) == 1}

    def share(family: type[Workload]) -> float:
        wanted = [broker for p in family(tree, 0.5, 0.2, 1).draw(300) for broker in p.wanted]
        return sum(broker in leaves for broker in wanted) / len(wanted)

    assert share(AtLeaves) == 1.0
    assert share(Workload) < share(MostlyAtLeaves) < 0.95


def test_those_together_are_nearer_to_each_other() -> None:
    tree = Tree(60)

    def mean_distance(workload: Workload) -> float:
        wanted = [sorted(p.wanted) for p in workload.draw(300)]
        pairs = [tree.distance[a][b] for homes in wanted for a in homes for b in homes if a < b]
        return sum(pairs) / len(pairs)

    assert mean_distance(Together(tree, 1.0, 0.6, 1)) < mean_distance(Workload(tree, 2.0, 0.9, 1)) - 1
    found = calibrate(tree, 5.0, 45.0, 1, 400, Together)
    assert isinstance(found, Together)
    assert s0_figures(tree, found.draw(2000)) == (pytest.approx(5.0, rel=0.1), pytest.approx(45, abs=2))


def test_few_publish() -> None:
    sources = {p.source for p in FewPublish(Tree(60), 2.0, 0.9, 1).draw(300)}
    assert sources == {1, 11, 21, 31, 41, 51}


def test_links_by_gain_and_all_links() -> None:
    tree = Tree(60)
    node = Mesh(tree, "S2", node=ByGain).nodes[1]
    near, far = tree.beside[1][0], next(b for b, distance in node.master.distance.items() if distance == 4)
    node.sent = {near: 50, far: 1}
    assert node.promise(far) > node.promise(near) > 0
    plain = Mesh(tree, "S2").nodes[1]
    plain.sent = node.sent
    assert plain.promise(near) > plain.promise(far)
    every = Mesh(tree, "S2", node=AllLinks).nodes[1]
    assert {*every.map.brokers} == {*every.master.via}
    assert not Mesh(tree, "S0", node=AllLinks).nodes[1].soft
