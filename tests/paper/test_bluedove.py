"""What the paper of BlueDove says, one claim each."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters import parse
from grapevine.wire.onehop import DimensionLoad, Entry, Span
from overlay.onehop.policies import FLOOR_S, MatcherLoad, pick_matcher, queue_at
from overlay.onehop.segments import Candidate, SegmentTable, spare_places

A, B, C, D, E, F = range(1, 7)


def table_of(cuts: dict[str, tuple[list[float], list[int]]]) -> SegmentTable:
    table = SegmentTable(tuple(cuts))
    spans: dict[int, list[tuple[Span, ...]]] = {}
    for boundaries, owners in cuts.values():
        ends = [None, *boundaries, None]
        for place, owner in enumerate(owners):
            spans.setdefault(owner, []).append((Span(ends[place], ends[place + 1]),))
    for owner, segments in spans.items():
        table.merge(Entry(owner, 1, 1, tuple(segments), f"m{owner}", ()))
    return table


def test_figure_2_a_subscription_goes_to_four_matchers_in_three_dimensions() -> None:
    """III-A, Fig. 2: latitude [70, 74) is F's, longitude C's, and speed [0, 25) overlaps two segments, A's
    and B's. (The figure prints longitudes in descending order; here they ascend.)"""
    table = table_of(
        {
            "longitude": ([-120, -60, 0, 60, 120], [A, C, B, D, E, F]),
            "latitude": ([-60, -30, 0, 30, 60], [A, B, C, D, E, F]),
            "speed": ([20, 40, 60, 80, 100], [A, B, C, D, E, F]),
        }
    )
    form = parse(
        "longitude >= -74 and longitude < -70 and latitude >= 70 and latitude < 74"
        " and speed >= 0 and speed < 25"
    )
    assert table.owners_of(form) == [{C}, {F}, {A, B}]


def test_every_message_has_k_candidates_and_the_match_is_at_each() -> None:
    """III-A 1)."""
    table = table_of({"x": ([10, 20], [A, B, C]), "y": ([10, 20], [B, C, A])})
    form = parse("x >= 5 and x < 15 and y >= 12 and y < 30")
    owners = table.owners_of(form)
    found = table.candidates((12, 25))
    assert found == [(B, 0), (A, 1)]
    assert all(candidate.matcher in owners[candidate.dimension] for candidate in found)


def load(
    *sizes: int, waiting: int = 0, arrivals: float = 0.0, mu: float = 1.0, at: float = 0.0
) -> MatcherLoad:
    return MatcherLoad([DimensionLoad(waiting, arrivals, mu, size, 1 / mu) for size in sizes], at)


def test_figure_3_the_least_subscriptions_win() -> None:
    """III-B 1), Fig. 3: the message falls into X4, D's with 4, and Y1, A's with 13: D is asked."""
    loads = {A: load(6, 13), D: load(4, 4)}
    assert pick_matcher("amount", [Candidate(D, 0), Candidate(A, 1)], loads, 0.0, Random(1)) == (D, 0)


def test_queue_lengths_are_extrapolated() -> None:
    """III-B 2): q_t = q_t' + (lambda - mu)(t - t'), the time is (q_t + 1) / mu; a queue is not below 0."""
    assert queue_at(DimensionLoad(10, 120.0, 100.0, 0, 0.01), at=5.0, now=6.5) == pytest.approx(40)
    assert queue_at(DimensionLoad(10, 50.0, 100.0, 0, 0.01), at=5.0, now=6.5) == 0


def test_figure_4_extrapolation_turns_to_b_before_the_next_update() -> None:
    """III-B 2), Fig. 4: A is faster at first, but its queue grows; by the report alone it stays chosen."""
    loads = {
        A: load(1, waiting=10, arrivals=300.0, mu=100.0),
        B: load(1, waiting=40, arrivals=50.0, mu=100.0),
    }
    both = [Candidate(A, 0), Candidate(B, 0)]
    assert pick_matcher("adaptive", both, loads, 0.0, Random(1)).matcher == A
    assert pick_matcher("adaptive", both, loads, 0.9, Random(1)).matcher == B
    assert pick_matcher("response", both, loads, 0.9, Random(1)).matcher == A


def test_random_takes_each_candidate() -> None:
    """IV-D: the baseline of Fig. 7."""
    chance, both = Random(1), [Candidate(A, 0), Candidate(B, 1)]
    drawn = [pick_matcher("random", both, {}, 0.0, chance) for _ in range(1000)]
    assert 400 < drawn.count(both[0]) < 600


def test_equal_candidates_are_drawn() -> None:
    """Ours: dispatchers that know the same must not all choose the same."""
    chance, both = Random(1), [Candidate(A, 0), Candidate(B, 0)]
    loads = {A: load(5), B: load(5)}
    assert {pick_matcher("adaptive", both, loads, 0.0, chance) for _ in range(50)} == set(both)


def test_price_weighs_the_wait_with_what_it_costs() -> None:
    """Ours: seconds that wait x seconds it takes; where nobody waits only the cost counts."""
    cheap, dear = DimensionLoad(0, 0.0, 1000.0, 1, 0.001), DimensionLoad(0, 0.0, 100.0, 1, 0.01)
    both = [Candidate(A, 0), Candidate(B, 0)]

    def chosen(of_a: MatcherLoad, now: float) -> int:
        return pick_matcher("price", both, {A: of_a, B: MatcherLoad([dear], 0.0)}, now, Random(1)).matcher

    waits = MatcherLoad([cheap], 0.0, 10 * FLOOR_S)
    assert chosen(MatcherLoad([cheap], 0.0), 0.0) == A and chosen(waits, 0.0) == B
    assert chosen(waits, 5 * FLOOR_S) == A, "it has worked off half of it"
    assert chosen(MatcherLoad([cheap], 0.0).after_sending(10 * FLOOR_S, 100.0), 100.0) == B


def test_all_copies_on_one_matcher_are_replicated_on_its_neighbours() -> None:
    """III-A: on the clockwise neighbour of another dimension each, k - 1 more."""
    table = table_of({"x": ([10, 20], [A, B, C]), "y": ([10, 20], [A, C, B]), "z": ([10, 20], [A, B, C])})
    owners = table.owners_of(parse("x = 1 and y = 2 and z = 3"))
    assert owners == [{A}, {A}, {A}]
    assert spare_places(owners, table.covers) == [(C, 1), (B, 2)]


def test_one_in_eight_thousand_has_all_copies_on_one_matcher() -> None:
    """III-A: 1 / N^(k-1), k = 4 and N = 20, for points that are uniform in every dimension."""
    chance, draws = Random(1), 400_000
    same = sum(len({chance.randrange(20) for _ in range(4)}) == 1 for _ in range(draws))
    assert same / draws == pytest.approx(1 / 8000, rel=0.5)
