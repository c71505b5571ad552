"""How a ring begins: who has not heard it is told again, and who dies before it has heard had no topics."""

from __future__ import annotations

from grapevine.wire.chord import RingNode
from overlay.chord.registry import founding_copies


def node(position: int) -> RingNode:
    return RingNode(position, position, 1, f"b{position}", (f"sim://b{position}",))


def test_a_founder_has_an_empty_copy_of_those_before_it() -> None:
    nodes = tuple(node(position) for position in (10, 20, 30, 40))
    copies = founding_copies(nodes, nodes[0], 2)
    assert [(copy.node.position, copy.begin) for copy in copies.values()] == [(40, 30), (30, 20)]
    assert all(copy.complete and not copy.topics for copy in copies.values())


def test_two_founders_have_each_other_s_and_one_has_none() -> None:
    nodes = (node(10), node(20))
    (copy,) = founding_copies(nodes, nodes[1], 2).values()
    assert (copy.node, copy.begin) == (nodes[0], 20)
    assert founding_copies(nodes[:1], nodes[0], 2) == {}
    assert founding_copies((), nodes[0], 2) == {}  # a plane that was prepared: its copies are sent
