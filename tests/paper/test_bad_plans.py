"""BAD's loads, migration and shuffle (BAD 4, 5), its slips, and both against recomputation from definitions.

The paper has no worked example with numbers; small ones are worked out here by hand from its equations.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.coordinate.loads import NOWHERE, Assignment, Rate, variation
from overlay.coordinate.plan import (
    BALANCED,
    LIMITED,
    NO_VALID,
    Scheme,
    Thresholds,
    migrate,
    most_similar,
    shuffle,
    stage,
)


def defined_loads(at: Assignment) -> list[float]:
    """Equations 1 to 5 with the paper's own sums and products."""
    subscribers, results = range(len(at.home)), range(len(at.rates))
    y = [[int(k in at.of_subscriber(i)) for k in results] for i in subscribers]
    x = [[int(at.home[i] == j) for j in range(at.brokers)] for i in subscribers]
    loads = []
    for j in range(at.brokers):
        load = 0.0
        for k in results:
            z = 1 - prod(1 - x[i][j] * y[i][k] for i in subscribers)
            n = sum(x[i][j] * y[i][k] for i in subscribers)
            load += z * (1 + n) * float(at.rates[k])
        loads.append(load)
    return loads


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    brokers = draw(st.integers(1, 5))
    results = draw(st.integers(1, 6))
    rates = draw(st.lists(st.integers(0, 50).map(float), min_size=results, max_size=results))
    wanted = draw(st.lists(st.lists(st.integers(0, results - 1), unique=True), min_size=1, max_size=12))
    home = [draw(st.integers(NOWHERE, brokers - 1)) for _ in wanted]
    return Assignment.of(brokers, rates, wanted, home)


# --- section 4 -------------------------------------------------------------------------------------------


def test_a_broker_pulls_once_and_pushes_to_each() -> None:
    """Section 4, equation 5: two subscribers of one result at one broker cost 1 + 2 times its rate, apart
    they cost 2 + 2."""
    together = Assignment.of(2, [10.0], [[0], [0]], [0, 0])
    apart = Assignment.of(2, [10.0], [[0], [0]], [0, 1])
    assert together.loads.tolist() == [30.0, 0.0]
    assert apart.loads.tolist() == [20.0, 20.0]


def test_cov_is_the_populations() -> None:
    """Equations 6 to 8: sigma divides by m."""
    assert variation(np.array([1.0, 3.0])) == pytest.approx(0.5)
    assert variation(np.array([0.0, 0.0])) == 0.0


@given(assignments())
def test_loads_are_as_defined(at: Assignment) -> None:
    assert at.loads == pytest.approx(defined_loads(at))


@given(assignments(), st.data())
def test_gain_and_relief_are_what_a_move_does(at: Assignment, data: st.DataObject) -> None:
    """Section 4: the outgoing load grows alike everywhere, the incoming one by what is not held yet."""
    subscriber = data.draw(st.integers(0, len(at.home) - 1))
    target = data.draw(st.integers(0, at.brokers - 1))
    source = int(at.home[subscriber])
    if source == target:
        return
    before = defined_loads(at)
    gain = at.gain(subscriber, target)
    relief = at.relief(subscriber) if source != NOWHERE else 0.0
    at.move(subscriber, target)
    after = defined_loads(at)
    assert at.loads == pytest.approx(after)
    assert after[target] - before[target] == pytest.approx(gain)
    if source != NOWHERE:
        assert before[source] - after[source] == pytest.approx(relief)


def test_moving_average() -> None:
    """6.1.2: rates are moving averages, to avoid instant peaks."""
    rate = Rate(60.0)
    assert rate.sample(1e9, 0.0) == 0.0
    assert rate.sample(600.0, 60.0) == pytest.approx(10 * (1 - np.exp(-1)))
    steps = Rate(60.0)
    steps.sample(0, 0.0)
    for at in range(10, 70, 10):
        steps.sample(100.0, float(at))
    assert steps.value == pytest.approx(rate.value), "the same flow in other pieces"


# --- section 5.2 -----------------------------------------------------------------------------------------


def test_ldm_moves_the_heaviest_to_the_least_loaded() -> None:
    """5.2: subscribers of the heaviest broker by falling load, to the currently least loaded broker."""
    rates = [1.0, 2.0, 3.0, 1.0]
    at = Assignment.of(3, rates, [[0], [1], [2], [3]], [0, 0, 0, 1])
    plan = migrate(at, 0.1, 0.0, most=1)
    assert plan.moves == {2: (0, 2)}
    assert plan.ended == LIMITED


def test_a_valid_migration_is_judged_after_it() -> None:
    """5.2: "if after migration, the load of the destination broker does not exceed the original load of the
    source broker"; line 17 asks before. The heaviest would overload the target, the second does not."""
    at = Assignment.of(2, [9.0, 2.0, 4.0], [[0], [1], [2]], [0, 0, 1])
    assert at.loads.tolist() == [22.0, 8.0]
    assert migrate(at, 0.1, 0.0, most=1).moves == {1: (0, 1)}


def test_line_17_as_printed_does_not_end() -> None:
    """Algorithm 1, line 17 and slip 2: one subscriber at two brokers goes to and fro; ours ends."""
    printed = migrate(Assignment.of(2, [1.0], [[0]], [0]), 0.1, 0.0, most=1000, printed=True)
    assert (printed.steps, printed.ended) == (1000, LIMITED)
    ours = migrate(Assignment.of(2, [1.0], [[0]], [0]), 0.1, 0.0, most=1000)
    assert (ours.steps, ours.ended) == (0, NO_VALID)


def test_sdm_goes_where_most_is_shared() -> None:
    """5.2: the largest similarity among brokers below the mean; ties to the least load, then the number."""
    rates = [5.0, 1.0, 2.0]
    wanted = [[0, 1], [0], [1], [2], [0, 1, 2], [0, 1, 2]]
    at = Assignment.of(4, rates, wanted, [0, 1, 2, 3, 0, 0])
    below = np.flatnonzero(at.loads < at.loads.mean())
    assert below.tolist() == [1, 2, 3]
    assert most_similar(at, 0, below) == 1
    assert most_similar(at, 3, np.array([1, 2])) == 2, "nothing shared with either: the least load"
    assert migrate(at.copy(), 0.1, 0.0, "SDM", most=1).moves == {4: (0, 1)}
    assert migrate(at.copy(), 0.1, 0.0, "LDM", most=1).moves == {4: (0, 2)}


SCHEMES = st.sampled_from(("LDM", "SDM"))


@given(assignments(), SCHEMES, st.sampled_from((0.0, 0.05, 0.15, 0.5)))
def test_migration_ends_and_keeps_its_word(at: Assignment, scheme: Scheme, alpha: float) -> None:
    """5.2: the sorted loads fall at every step, until cov <= alpha or no migration is valid."""
    before = at.copy()
    plan = migrate(at, alpha, 0.0, scheme)
    assert at.loads == pytest.approx(defined_loads(at))
    assert (at.home == [plan.moves.get(i, (0, int(b)))[1] for i, b in enumerate(before.home)]).all()
    assert all(before.home[i] == source != target for i, (source, target) in plan.moves.items())
    if plan.ended == BALANCED:
        assert at.cov() <= alpha + 1e-9
    else:
        assert plan.ended == NO_VALID
        source, least = int(at.loads.argmax()), int(at.loads.argmin())
        for subscriber in np.flatnonzero(at.home == source).tolist():
            if at.weights[subscriber] > 0:
                target = least
                if scheme == "SDM":
                    target = most_similar(at, subscriber, np.flatnonzero(at.loads < at.loads.mean()))
                assert at.loads[target] + at.gain(subscriber, target) >= at.loads[source] - 1e-9


@given(assignments(), SCHEMES)
def test_sorted_loads_fall_at_every_step(at: Assignment, scheme: Scheme) -> None:
    seen = [sorted(at.loads.tolist(), reverse=True)]
    while migrate(at, 0.0, 0.0, scheme, most=1).steps:
        seen.append(sorted(np.round(at.loads, 6).tolist(), reverse=True))
    assert all(after < before for before, after in pairwise(seen))


@given(assignments(), SCHEMES, st.data())
def test_who_is_to_stay_stays(at: Assignment, scheme: Scheme, data: st.DataObject) -> None:
    staying = data.draw(st.sets(st.integers(0, len(at.home) - 1)))
    assert staying.isdisjoint(migrate(at, 0.0, 0.0, scheme, staying=staying).moves)


def test_a_subscriber_that_moves_twice_is_told_once() -> None:
    """Slip 5: the printed plan is a list by sources."""
    rng = np.random.default_rng(3)
    wanted = [rng.choice(40, rng.integers(1, 8), replace=False).tolist() for _ in range(60)]
    at = Assignment.of(4, rng.integers(1, 90, 40).tolist(), wanted, [0] * 60)
    plan = migrate(at, 0.001, 0.0)
    assert plan.steps >= len(plan.moves) > 0


# --- section 5.3 and Algorithm 1, lines 2 to 6 ------------------------------------------------------------


def test_gsh_places_the_heaviest_first_at_the_least_loaded() -> None:
    """5.3, by hand: 8, 7, 6, 5, 4 alone each, two brokers: 8 | 7, then 6 to the second, 5 to the first, 4 to
    the first or second by load; loads are twice the sums."""
    at = Assignment.of(2, [8.0, 7.0, 6.0, 5.0, 4.0], [[0], [1], [2], [3], [4]], [0] * 5)
    shuffle(at)
    assert at.home.tolist() == [0, 1, 1, 0, 0]
    assert at.loads.tolist() == [34.0, 26.0]


@given(assignments(), st.sampled_from((None, 0.0, 0.02, 0.5)), st.booleans())
def test_gsh_against_a_plain_one(at: Assignment, keep: float | None, printed: bool) -> None:
    before = at.copy()
    shuffle(at, keep, printed)
    assert at.loads == pytest.approx(defined_loads(at))
    assert ((at.home == NOWHERE) == (before.home == NOWHERE)).all()
    if keep is None:
        assert at.home.tolist() == plain_gsh(before, printed)


def plain_gsh(at: Assignment, printed: bool) -> list[int]:
    online = [i for i in range(len(at.home)) if at.home[i] != NOWHERE]
    at.empty()
    for i in sorted(online, key=lambda i: (-at.weights[i], i)):
        loads = [round(load, 6) for load in defined_loads(at)]
        ranked = range(at.brokers)
        if at.weights[i] > 0 or printed:
            target = min(ranked, key=lambda j: (loads[j], j))
        else:
            target = min(ranked, key=lambda j: ((at.home == j).sum(), j))
        at.move(i, target)
    return [int(j) for j in at.home]


def test_subscribers_without_load_are_spread() -> None:
    """Slip 8: as printed all of them go to one broker, which is overloaded as soon as they subscribe."""
    wanted: list[list[int]] = [[0], [1], [2]] + [[] for _ in range(30)]
    printed = Assignment.of(3, [3.0, 2.0, 1.0], wanted, [0] * 33)
    shuffle(printed, printed=True)
    assert printed.subscribers.tolist() == [1, 1, 31]
    ours = Assignment.of(3, [3.0, 2.0, 1.0], wanted, [0] * 33)
    shuffle(ours)
    assert ours.subscribers.tolist() == [11, 11, 11]


def test_keep_moves_fewer() -> None:
    """Ours: GSH as printed moves (1 - 1/m) of all, `keep` a fraction of it, and balances as well."""
    rng = np.random.default_rng(1)
    wanted = [rng.choice(100, 12, replace=False).tolist() for _ in range(1000)]
    home = rng.choice(5, 1000, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    printed = Assignment.of(5, rng.normal(20e3, 5e3, 100).tolist(), wanted, home.tolist())
    kept = printed.copy()
    assert 700 < len(shuffle(printed).moves) < 900
    assert len(shuffle(kept, keep=0.0).moves) < 400
    assert printed.cov() < 0.01 and kept.cov() < 0.01


def test_a_round_is_one_or_the_other() -> None:
    """Algorithm 1, lines 2 to 6: after SHUFFLE the loop runs on with the old cov; here a round is one."""
    by = Thresholds(alpha=0.15, beta=10, gamma=0.5, theta=10)
    assert stage(np.array([90.0, 10.0]), by) == "shuffle"
    assert stage(np.array([60.0, 40.0]), by) == "migrate"
    assert stage(np.array([52.0, 48.0]), by) == "none"
    assert stage(np.array([9.0, 1.0]), by) == "none", "too little flows to move anybody"
