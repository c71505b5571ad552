"""Link gains and rounds of the soft links' paper, section 6."""

from __future__ import annotations

import pytest

from overlay.softlinks.gains import link_gain, load_scaling_factor
from overlay.softlinks.rounds import decide_round, explore_from


def test_gain_is_publications_times_brokers_bypassed() -> None:
    """gain(N) = pubs x (dist - 1) x factor: a primary link bypasses nobody."""
    assert link_gain(100, 3, [0.5, 0.5], threshold=0.8) == 200
    assert link_gain(100, 1, [], threshold=0.8) == 0


def test_the_printed_factor_can_only_lower_and_the_meant_one_boosts() -> None:
    """1 + min(0, load - threshold) against 1 + max(0, load - threshold), over two bypassed brokers."""
    assert load_scaling_factor([1.0, 0.3], 0.8, "paper") == pytest.approx(0.5)
    assert load_scaling_factor([1.0, 0.3], 0.8, "boost") == pytest.approx(1.2)
    assert link_gain(10, 3, [1.0, 1.0], 0.8, "boost") == pytest.approx(10 * 2 * 1.2 * 1.2)


def test_the_best_candidate_is_promoted_and_the_worst_soft_link_discarded() -> None:
    """Section 6: low gains are discarded, high gains promoted."""
    decided = decide_round([1, 2], {3: 50.0, 4: 5.0}, {5: 80.0, 6: 1.0}, [], fanout=4, maxlinks=6)
    assert decided.promote == [5] and decided.discard == [4]


def test_fanout_counts_primary_links_and_maxlinks_the_candidates() -> None:
    """At most fanout primary and soft links, maxlinks - fanout candidates."""
    gains = {broker: float(broker) for broker in range(10, 30)}
    decided = decide_round([1, 2, 3], {}, gains, range(40, 60), fanout=5, maxlinks=9)
    assert decided.promote == [29, 28] and decided.explore == [40, 41, 42, 43]


def test_a_candidate_must_be_clearly_better_to_take_a_place() -> None:
    """Ours: two links of nearly the same gain do not swap every round."""
    assert decide_round([1], {3: 100.0}, {5: 105.0}, [], fanout=2, maxlinks=3).discard == []
    assert decide_round([1], {3: 100.0}, {5: 115.0}, [], fanout=2, maxlinks=3).promote == [5]


def test_a_link_without_gain_is_not_kept() -> None:
    assert decide_round([1], {3: 0.0}, {5: 0.0}, [], fanout=5, maxlinks=9).discard == [3]


def test_neighbours_of_high_gain_links_are_explored() -> None:
    """Section 6: if a link to X has a high gain, X's neighbours become candidates; slow and loaded ways
    first."""
    beside = {1: [11, 12], 2: [21, 22]}
    wanted = explore_from({1: 5.0, 2: 9.0, 3: 0.0}, lambda b: beside[b], {22}.__contains__, lambda b: b % 10)
    assert wanted == [21, 12, 11]
