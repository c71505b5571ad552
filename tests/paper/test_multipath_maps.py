"""Overlay maps of the soft links' paper, section 3 and figures 3 and 4."""

from __future__ import annotations

from random import Random

import pytest

from overlay.softlinks.master import MasterOverlayMap
from overlay.softlinks.working import WorkingOverlayMap
from overlay.tree.anchors import onward
from tests.paper.multipath import Tree

# The text names of figure 3: links N1, N2 primary, N3, N4 not; N3 and N4 behind N1, N2 on the other side;
# N4 four hops from A and X5 behind it. The X brokers have no link.
FIGURE = Tree("A-N1 N1-X1 X1-X2 X2-N4 N4-X5 N1-X3 X3-N3 A-N2 N2-X4")
LINKS = "N1 N2 N3 N4"


def names(map: WorkingOverlayMap, bits: object) -> set[str]:
    return FIGURE.names(map.names(bits))  # type: ignore[arg-type]


def test_master_map_is_the_delta_neighbourhood() -> None:
    """Section 3: brokers and primary links within Delta hops, and no more."""
    master = FIGURE.master("A", 4)
    assert FIGURE.names(master.via) == {"N1", "N2", "N3", "N4", "X1", "X2", "X3", "X4"}
    assert FIGURE.names(FIGURE.master("A", 2).via) == {"N1", "N2", "X1", "X3", "X4"}
    assert [FIGURE.name[b] for b in master.path(FIGURE.id["N4"])] == ["N1", "X1", "X2", "N4"]
    master.validate()


def test_contraction_leaves_linked_brokers_only() -> None:
    """Step 1: each broker without a link is replaced by the one before it."""
    map = FIGURE.working("A", 4, LINKS)
    assert FIGURE.names(map.brokers) == {"N1", "N2", "N3", "N4"}
    substitutes = {FIGURE.name[b]: FIGURE.name[w] for b, w in map.substitute.items()}
    assert substitutes == {
        "N1": "N1", "N2": "N2", "N3": "N3", "N4": "N4", "X1": "N1", "X2": "N1", "X3": "N1", "X4": "N2",
    }  # fmt: skip


def test_broker_array_ascends_by_distance_in_the_working_map() -> None:
    """Step 2."""
    map = FIGURE.working("A", 4, LINKS)
    assert [FIGURE.name[b] for b in map.brokers] == ["N1", "N2", "N3", "N4"]


def test_auxiliary_sets() -> None:
    """Step 3: Between(A,N4)={N1,N4}, Beyond(A,N1)={N1,N3,N4}, Behind(A,N1)={N2}."""
    map = FIGURE.working("A", 4, LINKS)
    n1, n4 = map.place[FIGURE.id["N1"]], map.place[FIGURE.id["N4"]]
    assert names(map, map.between[n4]) == {"N1", "N4"}
    assert names(map, map.beyond[n1]) == {"N1", "N3", "N4"}
    assert names(map, map.behind[n1]) == {"N2"}


def test_anchor_example() -> None:
    """Section 4: a subscription issued at X5 has anchor N4 when N1 sends it to A (Delta 4). The text says the
    anchor moves closer to the subscriber; with its own example it moves one hop farther from it."""
    path: tuple[int, ...] = ()
    anchors = []
    for name in ("X5", "N4", "X2", "X1", "N1"):
        path = onward(path, FIGURE.id[name], 4)
        anchors.append(FIGURE.name[path[0]])
    assert anchors == ["X5", "X5", "X5", "X5", "N4"]


def test_a_working_anchor_is_the_farthest_linked_broker_on_the_path() -> None:
    """Section 4: the working table's anchor is what the master anchor was replaced with."""
    map = FIGURE.working("A", 4, LINKS)
    assert names(map, map.anchors(FIGURE.ids("X2 N3"))) == {"N1", "N3"}


def grow(random: Random, size: int) -> Tree:
    return Tree(" ".join(f"b{random.randrange(n):03}-b{n:03}" for n in range(1, size)))


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_what_paths_say(seed: int) -> None:
    """Figure 4's sets, against paths counted one by one on random trees."""
    random = Random(seed)
    tree = grow(random, 60)
    here = random.choice(list(tree.id))
    master = tree.master(here, 4)
    primary = [tree.id[n] for n in tree.beside[here]]
    links = {*primary, *random.sample(sorted(master.via), len(master) // 2)}
    map = WorkingOverlayMap(master, links)
    for number, broker in enumerate(map.brokers):
        path = master.path(broker)
        assert map.names(map.between[number]) == links & {*path}
        assert map.names(map.beyond[number]) == {b for b in links if broker in master.path(b)}
        assert map.names(map.behind[number]) == {b for b in links if master.path(b)[0] != path[0]}
    for broker in master.via:
        linked = [b for b in master.path(broker) if b in links]
        assert map.substitute[broker] == linked[-1]


@pytest.mark.parametrize("seed", range(10))
def test_branches_told_from_neighbour_to_neighbour_make_every_map(seed: int) -> None:
    """M1: told again until nothing changes, each map is the Delta-neighbourhood of the tree, also after a
    leaf has joined, a broker has left and a link is lost."""
    random = Random(seed)
    tree = grow(random, 30)
    maps = {name: MasterOverlayMap(tree.id[name], 4) for name in tree.beside}
    settle(tree, maps)
    assert_right(tree, maps)
    joined = Tree(" ".join(edges(tree) | {"b005-zz"}))
    maps["zz"] = MasterOverlayMap(0, 4)
    maps = {name: renamed(tree, joined, maps[name], joined.id[name]) for name in joined.beside}
    settle(joined, maps)
    assert_right(joined, maps)
    cut = max(edges(joined), key=lambda e: (len(joined.beside[e.split("-")[0]]), e))
    one, other = cut.split("-")
    joined.beside[one].remove(other)
    joined.beside[other].remove(one)
    maps[one].forget(joined.id[other])
    maps[other].forget(joined.id[one])
    settle(joined, maps)
    assert_right(joined, maps)


def edges(tree: Tree) -> set[str]:
    return {f"{min(a, b)}-{max(a, b)}" for a, others in tree.beside.items() for b in others}


def renamed(old: Tree, new: Tree, map: MasterOverlayMap, here: int) -> MasterOverlayMap:
    """The same knowledge under the new tree's ids."""
    fresh = MasterOverlayMap(here, map.delta)
    for neighbour, branch in map.branches.items():
        entries = tuple(new.nearby(e.name, old.name.get(e.via, "")) for e in branch)
        fresh.hear(new.id[old.name[neighbour]], entries)
    return fresh


def settle(tree: Tree, maps: dict[str, MasterOverlayMap]) -> None:
    changed = True
    while changed:
        changed = False
        for name, others in tree.beside.items():
            for other in others:
                branch = maps[name].branch_for([tree.id[other]], tree.nearby(name))
                changed |= maps[other].hear(tree.id[name], branch)


def assert_right(tree: Tree, maps: dict[str, MasterOverlayMap]) -> None:
    for name, map in maps.items():
        map.validate()
        right = tree.master(name, 4)
        assert map.via == right.via and map.distance == right.distance
