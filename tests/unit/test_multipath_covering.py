"""Figure 12's covering sets: the paper's example, the product's own relation, and counting of predicates."""

from __future__ import annotations

import numpy
import pytest

from grapevine.filters import parse
from matching.relations import covers
from tools.reproduce.multipath_covering import (
    ATTRIBUTES,
    MATCHING,
    Covered,
    Subscriptions,
    calibrate_width,
    covering_rows,
    covering_sets,
    measure,
)

CHAIN = (numpy.array([1, 2, 2]), numpy.array([0, 0, 1]))  # s1 covers s2 and s3, s2 covers s3


def test_the_papers_example() -> None:
    """One link: {s1}. s1 behind one link, s2 and s3 behind another: {s1} and {s2}."""
    assert covering_sets(numpy.array([7, 7, 7]), *CHAIN).tolist() == [True, False, False]
    assert covering_sets(numpy.array([7, 8, 8]), *CHAIN).tolist() == [True, True, False]
    assert covering_sets(numpy.array([7, 8, 9]), *CHAIN).all()


def test_pairs_are_those_of_the_product() -> None:
    subscriptions = Subscriptions(120, 0.3, 5, 10)
    filters = [parse(_text(subscriptions, number)) for number in range(120)]
    expected = {(b, a) for a in range(120) for b in range(120) if a != b and covers(filters[a], filters[b])}
    assert set(zip(*(side.tolist() for side in subscriptions.coverings()))) == expected
    assert len(expected) > 100


def _text(subscriptions: Subscriptions, number: int) -> str:
    low, high = subscriptions.low[number], subscriptions.high[number]
    asked = [a for a in range(ATTRIBUTES) if subscriptions.asked[number][a]]
    return " and ".join(f"a{a} >= {low[a]:.17f} and a{a} <= {high[a]:.17f}" for a in asked)


def test_of_two_equal_ones_the_first_stays() -> None:
    subscriptions = Subscriptions(2, 0.3, 5, 10)
    subscriptions.low[1], subscriptions.high[1] = subscriptions.low[0], subscriptions.high[0]
    covered, covering = subscriptions.coverings()
    assert (covered.tolist(), covering.tolist()) == ([1], [0])


def test_predicates_are_evaluated_until_one_fails() -> None:
    subscriptions = Subscriptions(300, 0.4, 3, 10)
    point = numpy.array([0.3, 0.6, 0.5, 0.4])
    matched, evaluated = subscriptions.match(point)
    for number in range(300):
        count, ok = 0, True
        for a in range(ATTRIBUTES):
            if subscriptions.asked[number][a] and ok:
                count += 1
                ok = bool(subscriptions.low[number][a] <= point[a] <= subscriptions.high[number][a])
        assert (matched[number], evaluated[number]) == (ok, count)
    assert 0 < matched.sum() < 300


def test_four_per_cent_match() -> None:
    width = calibrate_width(1000, 1)
    points = numpy.random.default_rng(9).random((300, ATTRIBUTES))
    subscriptions = Subscriptions(1000, width, 1, 1)
    share = numpy.mean([subscriptions.match(point)[0].mean() for point in points])
    assert share == pytest.approx(MATCHING, rel=0.1)


def test_more_links_leave_less_covered() -> None:
    width = calibrate_width(800, 1)
    few, many = (measure(fanout, 60, 800, width, 8, 40, 1) for fanout in (3, 20))
    assert few.links < many.links and few.groups < many.groups
    assert few.size < many.size and few.evaluations < many.evaluations


def test_rows_are_relative_to_the_first_fanout() -> None:
    rows = list(covering_rows([Covered(5, 200.0, 300.0, 1.0, 4.0), Covered(10, 220.0, 390.0, 2.0, 5.0)]))
    values = {(row.setting, row.metric): (row.paper, row.ours) for row in rows}
    size, evaluations = (
        "covering set size, per cent of fanout 5",
        "predicate evaluations, per cent of fanout 5",
    )
    assert values["C3/DT-C fanout=10", size] == (112.0, pytest.approx(110.0))
    assert values["C3/DT-C fanout=10", evaluations] == (134.0, pytest.approx(130.0))
