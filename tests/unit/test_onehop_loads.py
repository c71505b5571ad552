"""Load reports, cuts and the saturation detector."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.filters import Value
from grapevine.wire.onehop import DimensionLoad, LoadReport
from overlay.onehop.loads import Known, Measured, backlogs, dimension_load, has_moved
from overlay.onehop.saturation import saturated, trend
from overlay.onehop.splitting import givers_each, givers_one, split_point
from overlay.onehop.values import value_key
from tests.strategies import values

MEASURED = Measured(arrived=120, matched=100, busy_s=0.2, waiting_s=0.8, window_s=1.0, waiting=20, size=500)


@pytest.mark.parametrize(
    ("reading", "mu"), [("matching-time", 500.0), ("while-waiting", 125.0), ("of-window", 100.0)]
)
def test_the_three_readings_of_mu_differ(reading: str, mu: float) -> None:
    load = dimension_load(MEASURED, 0.001, reading)  # type: ignore[arg-type]
    assert load.mu == pytest.approx(mu) and load.cost_s == pytest.approx(0.002)
    idle = MEASURED._replace(matched=0, busy_s=0.0)
    assert dimension_load(idle, 0.001, reading).mu == pytest.approx(1000.0)  # type: ignore[arg-type]


def report(backlog_s: float = 1.0, waiting: int = 10) -> LoadReport:
    return LoadReport((DimensionLoad(waiting, 1.0, 2.0, 3, 0.5),), backlog_s, 0.5)


def test_a_report_moves_by_more_than_a_tenth() -> None:
    assert (
        has_moved(report(), None)
        and not has_moved(report(1.09), report())
        and has_moved(report(1.12), report())
    )
    assert not has_moved(report(waiting=11), report()) and has_moved(report(waiting=12), report())


def test_an_old_report_counts_as_the_usual_backlog() -> None:
    known = {1: Known(report(1.0), 9.0), 2: Known(report(3.0), 9.5), 3: Known(report(50.0), 2.0)}
    assert backlogs(known, 10.0) == {1: 1.0, 2: 3.0, 3: 2.0}
    assert backlogs({1: Known(report(4.0), 0.0)}, 10.0) == {1: 0.0}


@given(st.lists(values() | st.none(), max_size=40), st.floats(0.05, 0.95))
def test_no_other_cut_is_nearer_to_the_share(sample: list[Value | None], share: float) -> None:
    keys = [value_key(value) for value in sample]
    cut = split_point(sample, share)
    if len(set(keys)) < 2:
        assert cut is None, "an atom"
        return
    assert cut is not None

    def off(key: object) -> float:
        return abs(sum(k < key for k in keys) - share * len(keys))  # type: ignore[operator]

    least = min(off(key) for key in set(keys) if key != min(keys))
    assert off(value_key(cut)) == least and value_key(cut) > min(keys)


def test_half_of_the_publications_go_and_an_atom_stays_whole() -> None:
    assert split_point([1, 2, 3, 4]) == 3 and split_point([5] * 9 + [7]) == 7 and split_point([5] * 9) is None
    assert split_point([None] * 6 + ["x"]) == "x", "what lacks the attribute stays below"


def test_two_join_rules() -> None:
    """III-C: all from the heaviest matcher. IV-E: in each dimension from its heaviest."""
    work = [{1: 5.0, 2: 1.0, 3: 1.0}, {1: 1.0, 2: 6.0, 3: 1.5}]
    assert givers_each(work) == [[1, 2, 3], [2, 3, 1]]
    assert givers_one(work) == [[2, 1, 3], [2, 1, 3]]


def test_saturated_is_a_line_upwards_with_nobody_idle() -> None:
    rising = [(t, 0.1 * t) for t in range(10)]
    assert saturated(rising, [0.2, 0.3]) and not saturated(rising, [0.2, 0.0]) and not saturated(rising, [])
    assert not saturated([(t, 1.0) for t in range(10)], [1.0]), "high but level"
    assert not saturated([(t, [0.1, 5.0][t % 2]) for t in range(10)], [1.0]), "no line"
    assert trend([(0, 1), (1, 3), (2, 5)]) == (pytest.approx(2), pytest.approx(1))
