"""The ring's decisions: arcs, next hops, lists; ways from one node form a tree that splitting finds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.chord.ring import (
    SIZE,
    Node,
    adopted,
    between,
    distance,
    finger_starts,
    ideal,
    may_join,
    merge,
    nearer,
    next_hop,
    next_hop_to_key,
    owner,
    rectified,
    without,
)
from overlay.chord.trees import split, tree, way

POSITIONS = st.integers(0, SIZE - 1)


def nodes_at(*positions: int) -> list[Node]:
    return [Node(position, position % 1000, 1) for position in sorted(positions)]


def random_ring(seed: int, size: int) -> list[Node]:
    chance = Random(seed)
    return sorted(Node(chance.getrandbits(64), broker, 1) for broker in range(size))


@given(POSITIONS, POSITIONS, POSITIONS)
def test_an_arc_and_the_rest_of_the_ring(start: int, x: int, end: int) -> None:
    if x in (start, end):
        assert not between(start, x, end)
    elif start != end:
        assert between(start, x, end) != between(end, x, start)
    else:
        assert between(start, x, end)


def test_the_hop_to_a_known_target_is_one() -> None:
    """D-1: the arc includes the target."""
    here, near, far = nodes_at(10, 20, 30)
    assert next_hop(here.position, [near, far], 30) == far
    assert next_hop(here.position, [near, far], 29) == near
    assert next_hop(here.position, [far], 20) is None
    assert next_hop(here.position, [near], here.position) is None


def test_a_key_belongs_to_the_first_node_at_or_after_it() -> None:
    ring = nodes_at(10, 20, 30)
    for key, position in ((10, 10), (11, 20), (20, 20), (31, 10), (5, 10)):
        assert owner(ring, key).position == position
    assert next_hop_to_key(20, 10, ring[2], ring, 15) is None
    assert next_hop_to_key(20, 10, ring[2], ring, 25) == ring[2]
    assert next_hop_to_key(20, 10, ring[2], ring, 5) == ring[2]
    assert next_hop_to_key(20, None, ring[2], ring, 15) is not None  # not known to be ours
    assert next_hop_to_key(20, None, None, [], 15) is None  # alone


@pytest.mark.parametrize("base", [2, 4, 16])
@pytest.mark.parametrize("size", [2, 3, 9, 40])
def test_every_way_ends_and_ways_from_one_root_form_a_tree(size: int, base: int) -> None:
    ring = random_ring(size, size)
    known = {node: ideal(ring, rank, 4, base) for rank, node in enumerate(ring)}

    def pointers_of(node: Node) -> list[Node]:
        return [*known[node].successors, *known[node].fingers]

    for root in ring:
        children = tree(root, ring, pointers_of)
        parents = {child: parent for parent, several in children.items() for child in several}
        assert len(parents) == size - 1 == sum(map(len, children.values()))
        for target in ring:
            passed = way(root, target, pointers_of)
            assert [parents[node] for node in passed] == [root, *passed[:-1]][: len(passed)]


def mean_hops(ring: list[Node], base: int) -> float:
    known = {node: ideal(ring, rank, 4, base) for rank, node in enumerate(ring)}
    ways = [way(ring[0], node, lambda one: (*known[one].successors, *known[one].fingers)) for node in ring]
    return sum(map(len, ways)) / len(ways)


def test_wider_fingers_shorten_the_ways() -> None:
    ring = random_ring(1, 200)
    assert mean_hops(ring, 16) < 0.7 * mean_hops(ring, 2)


def test_what_lies_behind_a_node_is_an_arc_that_begins_there() -> None:
    """The cost model stands on this."""
    ring = random_ring(7, 60)
    known = {node: ideal(ring, rank, 4) for rank, node in enumerate(ring)}
    for here in ring[::7]:
        parts, astray = split(here, ring, [*known[here].successors, *known[here].fingers])
        assert not astray
        for child, members in parts.items():
            steps = sorted((ring.index(member) - ring.index(child)) % len(ring) for member in members)
            assert steps == list(range(len(members)))


def test_members_to_whom_no_pointer_leads_are_named() -> None:
    here, near, far = nodes_at(10, 20, 30)
    assert split(here, [near, far, here], [far]) == ({far: [far]}, [near])


def test_lists_are_taken_from_the_successor_and_end_before_ourselves() -> None:
    a, b, c, d = nodes_at(10, 20, 30, 40)
    assert merge(b, (c, d, a), 4, a.position) == (b, c, d)
    assert merge(b, (c, d, a), 2, a.position) == (b, c)
    assert merge(b, (d, c), 4, a.position) == (b, d)  # disordered: the rest is not believed
    assert without((b, c, d), lambda node: node == c) == (b, d)


def test_join_adopts_the_predecessors_list_if_it_still_holds() -> None:
    a, b, c, d = nodes_at(10, 20, 30, 40)
    assert may_join(b.position, a, (c, d))
    assert not may_join(b.position, c, (d, a))
    assert adopted(b, a, (c, d), 4) == (c, d)
    assert adopted(b, a, (), 4) == (a,)
    assert may_join(b.position, a, ())
    old = b._replace(incarnation=0)
    assert adopted(b, a, (old, c), 4) == (c,)  # its own former node is no successor


def test_stabilise_and_rectify() -> None:
    a, b, c, d = nodes_at(10, 20, 30, 40)
    assert nearer(a.position, c, b) == b
    assert nearer(a.position, b, d) is None
    assert nearer(a.position, b, None) is None

    def alive(node: Node) -> bool:
        return False

    assert rectified(c, None, a, alive) == a
    assert rectified(c, a, b, alive) == b
    assert rectified(c, b, a, alive) == b
    assert rectified(c, b, a, lambda node: node == b) == a
    assert rectified(c, b, c, alive) == b
    again = b._replace(incarnation=2)
    assert rectified(c, b, again, alive) == again


def test_fingers() -> None:
    assert finger_starts(0)[:3] == [1, 2, 4] and len(finger_starts(0)) == 64
    assert finger_starts(0, 4)[:4] == [1, 2, 3, 4] and len(finger_starts(5, 16)) == 16 * 15
    assert finger_starts(SIZE - 1)[0] == 0
    assert distance(SIZE - 1, 1) == 2
