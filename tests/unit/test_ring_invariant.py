"""What is looked at after every step of a ring (tools/simulator/ring_invariant.py): each rule has a ring that
breaks it."""

from __future__ import annotations

import pytest

from grapevine.wire.chord import RingNode
from tools.simulator.ring import longest_run
from tools.simulator.ring_invariant import broken, principals, two_roots

A, B, C, D, E = (RingNode(10 * n, n, 1, name, ()) for n, name in enumerate("ABCDE", 1))
GOOD = {A: (B, C, D), B: (C, D, E), C: (D, E, A), D: (E, A, B), E: (A, B, C)}


def test_an_ideal_ring_keeps_all_of_it() -> None:
    assert list(broken(GOOD, set(GOOD))) == []
    assert principals(GOOD) == set(GOOD)


def test_who_has_joined_and_is_not_known_yet_is_an_appendage() -> None:
    lists = {A: (C, D), B: (C, D), C: (D, A), D: (A, C)}
    assert list(broken(lists, set(lists))) == []
    assert principals(lists) == {A, C, D}


@pytest.mark.parametrize(
    ("lists", "live", "text"),
    [
        (GOOD, {A, E}, "A has no live successor: B, C, D"),
        ({A: (C, B), B: (C,), C: (A,)}, {A, B, C}, "A's list is out of order: C, B"),
        ({A: (B, B), B: (A,)}, {A, B}, "A's list is out of order: B, B"),
        ({A: (C,), C: (A,), B: (D,), D: (B,)}, {A, B, C, D}, "2 rings"),
        (
            {A: (C,), C: (E,), E: (B,), B: (D,), D: (A,)},
            {A, B, C, D, E},
            "the ring goes round 2 times: A, C, E, B, D",
        ),
    ],
)
def test_what_is_broken(lists: dict[RingNode, tuple[RingNode, ...]], live: set[RingNode], text: str) -> None:
    assert text in list(broken(lists, live))


def test_a_topic_has_one_root() -> None:
    assert list(two_roots([("A", 50, 10), ("B", 10, 20), ("E", 30, 50)])) == []
    assert list(two_roots([("A", 10, 10)])) == []
    assert list(two_roots([("A", 50, 10), ("C", 5, 30)])) == ["C is the root of what A is the root of"]
    assert list(two_roots([("B", 20, 20), ("C", 20, 30)])) == ["B is the root of what C is the root of"]


def test_how_many_next_to_each_other_fail() -> None:
    assert longest_run([False, False]) == 0
    assert longest_run([True, False, True, True]) == 3
    assert longest_run([True, True]) == 2
