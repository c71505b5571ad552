"""Placement: similarity, load, ties, margin."""

from __future__ import annotations

from overlay.chord.placement import Candidate, choose, similarity, utility

SPORT, NEWS = Candidate(1, frozenset({1, 2, 3}), 30), Candidate(2, frozenset({7, 8, 9}), 10)


def test_the_broker_with_most_of_the_users_topics_wins() -> None:
    assert choose({7, 8}, [SPORT, NEWS], home=1) == 2
    assert choose({1, 8}, [SPORT, NEWS], home=1) == 1  # a tie: home
    assert choose({1, 8}, [SPORT, NEWS], home=None) == 2  # a tie: less load
    assert choose({1, 8}, [SPORT, NEWS._replace(load=30)], home=None) == 1  # then the lower id
    assert choose({1}, [], home=5) == 5


def test_load_and_margin() -> None:
    assert choose({1, 2, 8}, [SPORT, NEWS], home=1, load_weight=1.0) == 2
    assert choose({1, 2, 8}, [SPORT, NEWS], home=1, load_weight=1.0, margin=0.5) == 1
    assert choose({1, 2, 8}, [SPORT, NEWS], home=1, load_weight=1.0, everywhere=4000) == 1
    assert utility({1, 8}, SPORT, 40, 2.0) == 0.5 - 2.0 * 0.75
    assert similarity(set(), frozenset()) == 1.0
