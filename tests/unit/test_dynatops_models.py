"""The models of the DYNATOPS reproduction: each system against what must hold of it."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np

from tools.reproduce.dynatops_checkins import Grid, Visit, lingering, visits
from tools.reproduce.dynatops_location import LEAVES, _up_and_down
from tools.reproduce.dynatops_overlays import Tapestry, hops, notified
from tools.reproduce.dynatops_poisson import Setting, run
from tools.reproduce.dynatops_tco import changed_links, connect, flooded, rerun
from tools.reproduce.dynatops_users import Brokers, Interests


def test_a_key_has_one_root_in_tapestry_and_ways_reach_their_end() -> None:
    chance = np.random.default_rng(1)
    for base in (4, 16):
        overlay = Tapestry(40, chance, base)
        for key in chance.integers(0, base, (20, overlay.digits)):
            assert 0 <= overlay.root(key) < 40
        for start in range(0, 40, 7):
            for end in range(40):
                way = overlay.way(start, end)
                assert (way[-1] if way else start) == end and len(set(way)) == len(way)


def test_ways_from_one_node_of_tapestry_form_a_tree() -> None:
    overlay = Tapestry(50, np.random.default_rng(2))
    parents: dict[int, int] = {}
    for end in range(50):
        way = [0, *overlay.way(0, end)]
        for parent, child in itertools.pairwise(way):
            assert parents.setdefault(child, parent) == parent


def test_messages_of_an_event_by_hand() -> None:
    overlay = Tapestry(6, np.random.default_rng(3))
    users = np.zeros((6, 1), int)
    users[[2, 5], 0] = 3, 1
    legs = hops(overlay)
    found = notified(overlay, np.array([2]), users, np.array([0, 1.0, 0, 0, 0, 0]), legs)
    down = len(overlay.way(2, 5))
    assert found.messages == legs[1, 2] + down and found.relays == down - 1
    assert found.delay == legs[1, 2] + down / 4


def test_every_topic_is_connected_and_a_rerun_keeps_that() -> None:
    chance = np.random.default_rng(4)
    wanted = chance.random((25, 40)) < 0.2
    links = connect(wanted, np.zeros((25, 25), bool), chance)
    changed = wanted.copy()
    changed[3] = chance.random(40) < 0.2
    again = rerun(changed, wanted, links, chance)
    more = connect(changed, links, chance)
    for matrix, wants in ((links, wanted), (again, changed), (more, changed)):
        publishers = chance.integers(0, 25, 40)
        found = flooded(wants.astype(int), matrix, publishers, chance)  # asserts that all are reached
        inside = wants[publishers, np.arange(40)]
        assert found.messages == (wants.sum(0) - inside)[wants.any(0)].sum() / 40
    assert changed_links(more, links) <= changed_links(again, links)


def test_brokers_change_with_their_first_and_last_user() -> None:
    brokers = Brokers(2, 5)
    brokers.change(1, (0, 1), 0)
    brokers.change(2, (1, 2), 0)
    assert brokers.taken_changes() == [(0, 0), (0, 1), (0, 2)]
    brokers.change(1, (1, 2), 0)
    assert brokers.taken_changes() == [(0, 0)] and not brokers.moves
    brokers.change(2, (1, 2), 1)
    assert brokers.taken_changes() == [(1, 1), (1, 2)] and brokers.moves == 1
    assert brokers.users().tolist() == [[0, 1, 1, 0, 0], [0, 1, 1, 0, 0]] and brokers.load == [2, 2]


def test_interests_follow_their_pattern() -> None:
    modal = Interests("M", 100, 5, Random(1))
    assert all(len({topic // 10 for topic in modal.whole(user)}) == 1 for user in range(50))
    zipf = Interests("Z", 100, 5, Random(1))
    drawn = [topic for user in range(400) for topic in zipf.whole(user)]
    assert drawn.count(0) > 2 * drawn.count(20) > 0 and max(drawn) < 100
    kept = modal.one_other(3, modal.whole(3))
    assert len(set(kept)) == 5


def test_a_short_run_says_what_the_paper_says_of_multimodal_interests() -> None:
    found = run(Setting(hours=3, users=20_000, tco_every_h=2, sampled_h=1))
    assert found["placed"]["changes"] < 0.2 * found["static"]["changes"]
    for other in ("Bayeux", "TCO", "CHash"):
        assert found["DYNATOPS"]["messages"] < found[other]["messages"]


def test_quadtree_and_visits() -> None:
    assert _up_and_down(0, 0) == [(0, 0, 0)]
    assert _up_and_down(0, 1) == [(0, 0, 0), (1, 0, 0), (0, 0, 1)]
    assert len(_up_and_down(0, LEAVES * LEAVES - 1)) == 11
    found = visits(None, 30, Grid(2), np.random.default_rng(1))
    assert found == sorted(found) and all(0 <= visit.cell < 300 for visit in found)
    stays = lingering([Visit(0, 1, 5), Visit(10, 1, 6), Visit(210, 1, 5)])
    assert stays.below_a_day == stays.above_a_week == 0.5 and stays.pairs == 2
