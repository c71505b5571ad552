"""Boundaries move by what is published, until nobody has more than twice the mean or one value holds it."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grapevine.wire.onehop import Entry, PublicationSample, Span
from overlay.onehop.boundaries import GAIN, SHARE_MAX, Segment, covered, part_to_give, row_of, wanted_moves
from overlay.onehop.handover import Handover
from overlay.onehop.sampling import REPORTS, Reservoir, Sampling
from overlay.onehop.splitting import Weighted


def entry(owner: int, *spans: Span) -> Entry:
    return Entry(owner, 1, 1, (spans,), f"m{owner}", ())


def test_a_row_is_whole_or_left_alone() -> None:
    lower, upper = entry(1, Span(None, 5)), entry(2, Span(5, None))
    assert [segment.owner for segment in row_of([upper, lower], 0)] == [1, 2]
    assert row_of([lower], 0) == [] and row_of([], 0) == [], "a gap"
    assert row_of([lower, entry(2, Span(4, None))], 0) == [], "an overlap"


def test_what_a_segment_covers_is_counted_by_weight() -> None:
    row = [Segment(1, Span(None, 5)), Segment(2, Span(5, None))]
    assert covered(row, [(None, 1.0), (4, 2.0), (5, 4.0), ("x", 8.0)]) == [3.0, 12.0]


def test_a_full_one_between_full_ones_gives_where_room_is() -> None:
    """By its neighbours alone it would give nothing: they have as much."""
    (move,) = wanted_moves([1, 2, 3, 4, 5, 6], [30.0, 36.0, 28.0, 2.0, 2.0, 2.0], 2)
    assert move.upper and move.place == 1 and round(move.publications, 6) == round(66 - 2 * 100 / 6, 6)
    assert wanted_moves([1, 2, 3], [40.0, 33.0, 27.0], 1) == [], "less than twice the mean"


def test_what_gains_nothing_stays() -> None:
    atom: list[Weighted] = [(5, 10.0), (7, 1.0)]
    assert part_to_give(Span(), atom, 0.8, True, gain=0.5) == Span(7, None)
    assert part_to_give(Span(), atom, 6.0, True, gain=2.5) is None, "one value is not cut"
    assert part_to_give(Span(), atom, 6.0, False, gain=2.0) == Span(None, 7), "and is given whole"


def _spread(values: list[int], cuts: list[int]) -> list[float]:
    """Boundaries move until none does; returns what the segments cover then."""
    sample: list[Weighted] = [(value, 1.0) for value in values]
    ends: list[Any] = [None, *cuts, None]
    gain = GAIN * len(values) / (len(cuts) + 1)
    for _ in range(1000):
        row = [Segment(place, Span(ends[place], ends[place + 1])) for place in range(len(ends) - 1)]
        shares, moved = covered(row, sample), False
        for place in range(len(row)):
            for move in wanted_moves(range(len(row)), shares, place):
                part = part_to_give(row[place].span, sample, move.publications, move.upper, gain)
                if part is not None:
                    ends[place + move.upper] = part.low if move.upper else part.high
                    moved = True
                    break
            if moved:
                break
        if not moved:
            return shares
    raise AssertionError("boundaries move for ever")


@given(
    st.lists(st.integers(0, 60), min_size=40, max_size=200),
    st.lists(st.integers(0, 60), min_size=1, max_size=9, unique=True),
)
def test_moves_end_and_leave_nobody_full_where_ties_allow_it(values: list[int], cuts: list[int]) -> None:
    shares = _spread(values, sorted(cuts))
    mean = len(values) / len(shares)
    (_, commonest), *_ = Counter(values).most_common(1)
    # A cut is within half of a value's share of where it is wanted, on both sides; and must gain something.
    assert max(shares) <= max(SHARE_MAX, 1 + 2 * GAIN + commonest / mean) * mean + 1e-6


def test_even_values_are_spread_from_one_end_to_the_other() -> None:
    shares = _spread(list(range(1000)), [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert max(shares) <= 200


def test_a_reservoir_is_even_and_starts_anew() -> None:
    reservoir = Reservoir(500, Random(1))
    for value in range(10_000):
        reservoir.add((value,))
    seen, points = reservoir.take()
    assert seen == 10_000 and len(points) == 500 and reservoir.take() == (0, [])
    assert 0.4 < sum(point[0] < 5_000 for point in points) / 500 < 0.6  # type: ignore[operator]


def _sampling() -> tuple[Sampling, list[str]]:
    cluster = SimpleNamespace(table=SimpleNamespace(dimensions=("price", "volume")), roles=2)
    cluster.own = SimpleNamespace(segments=((Span(None, 10),), (Span(),)))
    sampling, refused = Sampling(cluster, SimpleNamespace(rounds=[])), []  # type: ignore[arg-type, var-annotated]
    sampling.core = SimpleNamespace(refuse=refused.append)  # type: ignore[assignment]
    return sampling, refused


def test_a_busy_dispatcher_weighs_more() -> None:
    sampling, refused = _sampling()
    quiet, busy = SimpleNamespace(id=1), SimpleNamespace(id=2)
    sampling.on_sample(quiet, PublicationSample(2, [(1, 5), (2, 5)]), 0.0)  # type: ignore[arg-type]
    sampling.on_sample(busy, PublicationSample(300, [(50, 5), (1, None), (60, 5)]), 0.0)  # type: ignore[arg-type]
    assert sorted(sampling.sample(0)) == [(1, 1.0), (1, 100.0), (2, 1.0), (50, 100.0), (60, 100.0)]
    assert sampling.covered(0) == 102 / 302 and sampling.covered(1) == 1.0
    sampling.link_lost(busy, 1.0)  # type: ignore[arg-type]
    assert sampling.covered(0) == 1.0 and not refused


def test_old_samples_go_and_strange_ones_are_refused() -> None:
    sampling, refused = _sampling()
    for n in range(REPORTS + 1):
        sampling.on_sample(SimpleNamespace(id=1), PublicationSample(1, [(n, n)]), 0.0)  # type: ignore[arg-type]
    assert len(sampling.sample(0)) == REPORTS and (0, 1.0) not in sampling.sample(0)
    for points in ([], [(1,)]):
        sampling.on_sample(SimpleNamespace(id=1), PublicationSample(1, points), 0.0)  # type: ignore[arg-type]
    assert refused == ["sample", "sample"]


def _handover(own: Entry, other: Entry) -> tuple[Handover, list[Span]]:
    given_up: list[Span] = []
    table = SimpleNamespace(dimensions=("price",), entries={one.owner: one for one in (own, other)})
    cluster = SimpleNamespace(table=table, own=own, get=lambda _: SimpleNamespace(reachable=True))
    matching = SimpleNamespace(shrink=lambda _, span, now: given_up.append(span))
    made = Handover(cluster, matching, None, None, "partition")  # type: ignore[arg-type]
    made.core = SimpleNamespace(id=own.owner)  # type: ignore[assignment]
    return made, given_up


def test_of_two_owners_the_higher_id_gives_up_what_both_have() -> None:
    """5 to 10 was taken and the word of it lost: neither segment lies in the other. Once seen is not enough:
    whoever has just taken a part hears a moment later that the giver has let go."""
    lower, higher = entry(1, Span(None, 10)), entry(2, Span(5, None))
    made, given_up = _handover(higher, lower)
    made._settle_overlaps(0.0)
    assert given_up == []
    made._settle_overlaps(0.5)
    assert given_up == [Span(5, 10)]
    made, given_up = _handover(lower, higher)
    made._settle_overlaps(0.0)
    made._settle_overlaps(0.5)
    assert given_up == []
