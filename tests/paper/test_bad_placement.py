"""BAD's initial placement (5.1)."""

from __future__ import annotations

from random import Random

import pytest

from overlay.coordinate.placement import Candidate, Placement

TURKU, HELSINKI, TAMPERE = (60.45, 22.27), (60.17, 24.94), (61.5, 23.76)
BROKERS = [Candidate("t", TURKU), Candidate("h", HELSINKI), Candidate("u")]


def test_nearest_by_location() -> None:
    """5.1: "to allow BCS return the nearest broker to the subscriber"."""
    place = Placement("nearest", Random(1))
    assert place.choose(BROKERS, (60.2, 24.6)) == ["h", "t", "u"]
    assert place.choose(BROKERS, TAMPERE) == ["t", "h", "u"]


def test_nearest_by_round_trips_without_a_location() -> None:
    """5.1: "geographic distance or the network latency"."""
    place = Placement("nearest", Random(1))
    assert place.choose(BROKERS, None, {"u": 0.01, "t": 0.02}) == ["u", "t", "h"]


def test_nearest_takes_turns_when_nothing_is_known() -> None:
    place = Placement("nearest", Random(1))
    assert [place.choose(BROKERS)[0] for _ in range(4)] == ["t", "h", "u", "t"]


def test_round_robin_gives_each_as_many() -> None:
    """5.1: "ideally each broker serves an equal number of subscribers"."""
    place = Placement("round_robin", Random(1))
    first = [place.choose(BROKERS, HELSINKI)[0] for _ in range(30)]
    assert {name: first.count(name) for name in "thu"} == {"t": 10, "h": 10, "u": 10}


def test_random_is_the_brokers_own_chance() -> None:
    one, same = (Placement("random", Random(7)) for _ in range(2))
    drawn = [one.choose(BROKERS) for _ in range(300)]
    assert drawn == [same.choose(BROKERS) for _ in range(300)]
    for name in "thu":
        assert sum(order[0] == name for order in drawn) == pytest.approx(100, abs=30)


@pytest.mark.parametrize("assign", ["nearest", "round_robin", "random"])
def test_nobody_there(assign: str) -> None:
    assert Placement(assign, Random(1)).choose([], HELSINKI) == []  # type: ignore[arg-type]
