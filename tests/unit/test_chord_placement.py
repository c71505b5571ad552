"""Placement: similarity, load, ties, margin; what brokers of a cluster know of each other."""

from __future__ import annotations

from grapevine.wire.chord import RingNode
from grapevine.wire.placement import ClusterTopics
from overlay.chord.clusters import Colleague, group_of
from overlay.chord.placement import ENOUGH, Candidate, Tally, choose, costs_more, similarity, utility

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


def test_a_difference_follows_on_what_is_known_or_all_is_asked_for() -> None:
    known = Colleague(RingNode(5, 5, 1 << 16, "b5", ("tcp://b5:1",)))
    assert not known.take(ClusterTopics(3, 4, (1,), (), 1, Tally()))  # nothing is known yet
    assert known.take(ClusterTopics(0, 4, (1, 2), (), 2, Tally()))
    assert known.take(ClusterTopics(4, 4, (3,), (), 3, Tally()))  # the second message of that version
    assert known.take(ClusterTopics(4, 5, (9,), (1,), 4, Tally(1, 2, 3, 4)))
    assert not known.take(ClusterTopics(6, 7, (10,), (), 5, Tally()))  # the sixth was lost
    assert (known.topics, known.load, known.version) == ({2, 3, 9}, 4, 5)
    assert known.take(ClusterTopics(0, 7, (10,), (), 5, Tally()))
    assert known.topics == {10}


def test_groups_by_the_order_of_ids_are_about_equal() -> None:
    brokers = [7 * number % 23 + 1 for number in range(22)]
    groups = {frozenset((one, *group_of(one, brokers, 10))) for one in brokers}
    assert sorted(map(len, groups)) == [7, 7, 8]
    assert sorted(one for group in groups for one in group) == sorted(brokers)
    assert [max(group) for group in sorted(groups, key=min)] == sorted(max(group) for group in groups)
    assert group_of(3, [], 10) == []


def test_a_pinned_tenth_shows_what_placing_costs() -> None:
    tally = Tally()
    for _ in range(ENOUGH):
        tally = tally.counted(True, True, 1)
        assert not costs_more(tally)
        tally = tally.counted(False, True, 1)
    assert not costs_more(tally) and tally.placed_rate() == tally.pinned_rate() == 1.0
    tally = tally.counted(False, False, 3)  # a move: no change of the user's, three of brokers
    assert costs_more(tally) and tally == Tally(ENOUGH, ENOUGH + 3, ENOUGH, ENOUGH)
