"""Figures 5 and 6 of the soft links' paper line by line with plain sets, beside the product's bit vectors."""

from __future__ import annotations

from random import Random

import pytest

from overlay.softlinks.master import MasterOverlayMap
from overlay.softlinks.strategies import choose_links_s1, choose_links_s2
from overlay.softlinks.working import WorkingOverlayMap
from tests.paper.multipath import Tree


class Auxiliary:
    """Section 3: the sets as they are defined, from primary paths."""

    def __init__(self, master: MasterOverlayMap, brokers: list[int]) -> None:
        path = {n: master.path(n) for n in brokers}
        self.between = {n: {m for m in brokers if m in path[n]} for n in brokers}
        self.beyond = {n: {m for m in brokers if n in path[m]} for n in brokers}
        self.behind = {n: {m for m in brokers if path[m][0] != path[n][0]} for n in brokers}


def printed_s1(order: list[int], aux: Auxiliary, matching: list[int]) -> set[int]:
    anchors, intersection, forward = set(matching), set[int](), set[int]()
    for n in matching:  # lines 4 to 8
        if not intersection & aux.between[n]:
            intersection |= aux.between[n]
        else:
            intersection &= aux.between[n] | aux.behind[n]
    j = len(order)  # line 9
    while j > 0 and anchors:
        n = order[j - 1]
        if anchors & aux.beyond[n] and n in intersection:
            forward.add(n)
            anchors -= aux.beyond[n]
        j -= 1
    return forward


def printed_s2(order: list[int], aux: Auxiliary, matching: list[int]) -> set[int]:
    anchors, forward, j = set(matching), set[int](), 1
    while j <= len(order) and anchors:
        n = order[j - 1]
        if n in anchors:
            forward.add(n)
            anchors -= aux.beyond[n]
        j += 1
    return forward


@pytest.mark.parametrize("seed", range(60))
def test_as_printed(seed: int) -> None:
    """On random trees of degree 3, with random links, whatever order line 4 takes the anchors in."""
    random = Random(seed)
    degree: dict[int, int] = {0: 0}
    edges = []
    for number in range(1, 60):
        other = random.choice([n for n, count in degree.items() if count < 3])
        degree[other] += 1
        degree[number] = 1
        edges.append(f"b{other:02}-b{number:02}")
    tree = Tree(" ".join(edges))
    here = random.choice(list(tree.id))
    master = tree.master(here, 4)
    far = [broker for broker, distance in master.distance.items() if distance > 1]
    primary = [tree.id[name] for name in tree.beside[here]]
    map = WorkingOverlayMap(master, {*primary, *random.sample(sorted(far), len(far) // 2)})
    aux = Auxiliary(master, map.brokers)
    for _ in range(20):
        anchors = map.anchors(random.sample(sorted(master.via), random.randint(1, min(8, len(master)))))
        matching = [map.brokers[place] for place in anchors.search(1)]
        random.shuffle(matching)
        for printed, ours in ((printed_s1, choose_links_s1), (printed_s2, choose_links_s2)):
            assert printed(map.brokers, aux, matching) == {map.brokers[p] for p in ours(map, anchors)}
