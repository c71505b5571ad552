"""POP's decisions on the paper's own example (section 3)."""

from __future__ import annotations

from random import Random

import pytest

from overlay.relocate.profile import PublisherProfileTable, TagWindow, closest_neighbour, trace_probability

# Figure 1, as far as sections 3.1 to 3.3 tell it: neighbours' subscribers after one trace, and own ones.
B1 = {"B2": 6, "B4": 3, "B5": 15}
B1_OWN = 1
B5 = {"B6": 15}
B6 = {"B7": 7, "B8": 6}
B6_OWN = 2
NUMBER = {name: number for number, name in enumerate(("B1", "B2", "B4", "B5", "B6", "B7", "B8"), 1)}


def table(rows: dict[str, int], own: int) -> PublisherProfileTable:
    profile = PublisherProfileTable()
    profile.record(own, {NUMBER[name]: float(count) for name, count in rows.items()})
    return profile


def test_the_request_goes_b1_b5_b6_and_carries_ten() -> None:
    """3.2: 15 > 6 + 3 + 1, so B5 is closer than B1 and the request to it carries 10."""
    at_b1 = table(B1, B1_OWN)
    neighbour, carried = closest_neighbour(at_b1.downstream, at_b1.local)
    assert (neighbour, carried) == (NUMBER["B5"], 10)
    at_b5 = table(B5, 0)
    neighbour, carried = closest_neighbour(at_b5.downstream, at_b5.local, upstream=carried)
    assert (neighbour, carried) == (NUMBER["B6"], 10)  # 3.2's "15 on the link to B5" is 10 by 3.3
    at_b6 = table(B6, B6_OWN)
    neighbour, _ = closest_neighbour(at_b6.downstream, at_b6.local, upstream=carried)
    assert neighbour is None


@pytest.mark.parametrize(
    ("downstream", "local", "upstream", "closest"),
    [
        ({2: 3.0, 3: 9.0}, 1.0, 2.0, 3),  # a neighbour downstream
        ({2: 3.0, 3: 4.0}, 1.0, 2.0, None),  # this broker, though one neighbour has most
        ({2: 5.0, 3: 5.0}, 0.0, 0.0, None),  # half is no majority
        ({}, 4.0, 3.0, None),  # a leaf
    ],
)
def test_outcomes_of_selection(
    downstream: dict[int, float], local: float, upstream: float, closest: int | None
) -> None:
    """Figure 2: the next broker, this one, or the source itself."""
    assert closest_neighbour(downstream, local, upstream)[0] == closest


def test_a_margin_keeps_a_publisher_that_is_almost_as_well_off() -> None:
    assert closest_neighbour({2: 11.0}, 10.0)[0] == 2
    assert closest_neighbour({2: 11.0}, 10.0, margin=0.2)[0] is None


def test_running_average() -> None:
    """3.1: a quarter for the newest value, three quarters for the average so far."""
    profile = PublisherProfileTable()
    profile.record(4, {7: 8.0})
    assert (profile.local, profile.downstream[7]) == (4.0, 8.0)
    profile.record(0, {7: 0.0})
    assert (profile.local, profile.downstream[7]) == (3.0, 6.0)
    profile.record(0, {9: 4.0})
    assert profile.downstream == {7: 4.5, 9: 1.0}


def test_tagging_is_bounded_per_window() -> None:
    """3.1: P = 1 - T/N; the first is always traced, never more than N, and a new window starts anew."""
    assert [trace_probability(tagged, 50) for tagged in (0, 25, 50)] == [1.0, 0.5, 0.0]
    random = Random(7)
    window = TagWindow(0.0)
    assert window.tag(50, 60.0, 0.0, random)
    tagged = 1 + sum(window.tag(50, 60.0, 1.0, random) for _ in range(100_000))
    assert tagged == 50
    assert window.tag(50, 60.0, 60.0, random)


def test_later_ones_of_a_window_are_tagged_less_often() -> None:
    random = Random(1)
    window = TagWindow(0.0)
    tags = [window.tag(50, 60.0, 0.0, random) for _ in range(400)]
    assert sum(tags[:50]) > 3 * sum(tags[100:150]) > 0
