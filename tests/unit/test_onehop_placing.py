"""The order of values, ranges, segments: whatever matches a filter is with one of its owners, everywhere."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.filters import Filter, Value, parse
from grapevine.filters.evaluate import matches
from grapevine.wire.onehop import DEAD, Entry, Span
from overlay.onehop.segments import (
    Cover,
    SegmentTable,
    interval,
    joined,
    owns,
    spare_places,
    touches,
    without,
)
from overlay.onehop.values import (
    BOTTOM,
    EVERYTHING,
    TOP,
    after,
    before,
    holds,
    is_broad,
    ranges_of,
    value_key,
    values_of,
)
from tests.strategies import attributes_for, checked_filters, filters, values

DIMENSIONS = ("a", "b", "lat", "lon")


def entry(owner: int, *segments: tuple[Span, ...], version: int = 1, **changes: object) -> Entry:
    made = Entry(owner, 1, version, segments, f"m{owner}", ())
    return Entry(**{name: changes.get(name, getattr(made, name)) for name in made.__struct_fields__})  # type: ignore[arg-type]


def boundaries() -> st.SearchStrategy[list[Value]]:
    """Distinct values in order; at most seven."""
    distinct = st.lists(values(), max_size=7, unique_by=value_key)
    return distinct.map(lambda found: sorted(found, key=value_key))


@st.composite
def tables(draw: st.DrawFn) -> SegmentTable:
    """Every dimension covered, its segments dealt to up to five matchers, some dealt twice."""
    table = SegmentTable(DIMENSIONS)
    owned: dict[int, list[list[Span]]] = {owner: [[] for _ in DIMENSIONS] for owner in range(1, 6)}
    for dimension in range(len(DIMENSIONS)):
        ends = [None, *draw(boundaries()), None]
        for low, high in itertools.pairwise(ends):
            for owner in draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)):
                owned[owner][dimension].append(Span(low, high))
    for owner, of_dimensions in owned.items():
        table.merge(entry(owner, *(tuple(spans) for spans in of_dimensions)))
    return table


def test_absent_is_the_least_value_and_types_keep_apart() -> None:
    order = [None, False, True, float("-inf"), -1, 0, 0.5, 1, 2**53, 2**53 + 1, "", "1", "a", "b"]
    assert sorted(order, key=value_key) == order
    assert value_key(1) == value_key(1.0) and value_key(True) != value_key(1)
    assert BOTTOM == before(None) < after(None) < before(False) and before("\U0010ffff") < TOP


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 5", ((before(5), after(5)),)),
        ("a > 5 and a <= 9", ((after(5), after(9)),)),
        ("a < 5", ((before(float("-inf")), before(5)),)),
        ("a in (1, 3)", ((before(1), after(1)), (before(3), after(3)))),
        ("a prefix 'ab'", ((before("ab"), before("ac")),)),
        ("not exists a", ((BOTTOM, after(None)),)),
        ("exists a", ((after(None), TOP),)),
        ("b = 1", EVERYTHING),
        ("a = true", ((before(True), after(True)),)),
        ("a > 5 and a < 3", ()),
    ],
)
def test_range_of_a_conjunction(text: str, expected: object) -> None:
    assert ranges_of(parse(text), "a") == expected


@pytest.mark.parametrize(
    ("text", "broad"), [("b = 1", True), ("exists a", True), ("a >= 3", False), ("a = 1 or b = 1", True)]
)
def test_broad_is_without_a_bound(text: str, broad: bool) -> None:
    assert is_broad(ranges_of(parse(text), "a")) is broad


def test_a_circle_has_its_box() -> None:
    form = parse("within(lat, lon, circle(40, 179.9, 111.3))")
    assert len(ranges_of(form, "lon")) == 2, "it crosses the antimeridian"
    assert all(39 > low[1] > 38.9 or low[1] < 40 for low, _ in ranges_of(form, "lat"))


@given(st.data(), filters() | checked_filters())
def test_what_matches_lies_in_the_range_of_every_dimension(data: st.DataObject, form: Filter) -> None:
    attributes = data.draw(attributes_for(form))
    if matches(form, attributes):
        for name in DIMENSIONS:
            assert any(holds(part, attributes.get(name)) for part in ranges_of(form, name)), name


@given(st.data(), filters() | checked_filters(), tables())
def test_every_candidate_of_a_match_has_the_subscription(
    data: st.DataObject, form: Filter, table: SegmentTable
) -> None:
    """BlueDove III-A 1): on each candidate matcher all matching subscriptions can be found."""
    attributes = data.draw(attributes_for(form))
    owners = table.owners_of(form)
    found = table.candidates(values_of(attributes, DIMENSIONS))
    assert {candidate.dimension for candidate in found} == set(range(len(DIMENSIONS)))
    if matches(form, attributes):
        for candidate in found:
            assert candidate.matcher in owners[candidate.dimension]


@given(tables(), st.lists(values() | st.none(), min_size=4, max_size=4))
def test_candidates_are_those_who_own_the_value(table: SegmentTable, point: list[Value | None]) -> None:
    found = set(table.candidates(point))
    expected = {
        (one.owner, dimension)
        for one in table.entries.values()
        for dimension, value in enumerate(point)
        if owns(one.segments[dimension], value)
    }
    assert found == expected


@given(tables(), filters())
def test_owners_are_those_whose_segments_meet_the_range(table: SegmentTable, form: Filter) -> None:
    for dimension, (name, owners) in enumerate(zip(DIMENSIONS, table.owners_of(form))):
        ranges = ranges_of(form, name)
        assert owners == {o.owner for o in table.entries.values() if touches(o.segments[dimension], ranges)}


@given(boundaries(), st.lists(values() | st.none(), max_size=20), st.data())
def test_handing_over_moves_values_and_loses_none(
    ends: list[Value], points: list[Value | None], data: st.DataObject
) -> None:
    edges = [None, *ends, None]
    spans = [Span(low, high) for low, high in itertools.pairwise(edges)]
    given_up = [span for span in spans if data.draw(st.booleans())]
    kept = joined(spans)
    for part in given_up:
        kept = without(kept, part)
    for value in points:
        assert owns(kept, value) is not owns(given_up, value)
    assert len(joined(spans)) == 1 and joined(given_up) == joined(reversed(given_up))


def test_gaps_and_overlaps_are_seen_and_harmless() -> None:
    cover = Cover([(interval(Span(None, 5)), 1), (interval(Span(3, 7)), 2), (interval(Span(9, None)), 3)])
    assert cover.owners(None) == (1,) and cover.owners(4) == (1, 2) and cover.owners(8) == ()
    assert cover.gaps() == [(before(7), before(9))] and cover.in_order() == [1, 2, 3]
    assert Cover([]).gaps() == [(BOTTOM, TOP)]


def test_an_entry_has_one_writer_and_its_last_word_counts() -> None:
    table = SegmentTable(("a",))
    assert table.merge(entry(1, (Span(),), version=3))
    assert not table.merge(entry(1, (), version=2)) and not table.merge(entry(1, (), version=3))
    assert table.merge(entry(1, (Span(),), version=3, state=DEAD)), "a verdict counts at the same version"
    assert table.candidates([1]) == []
    assert table.merge(entry(1, (Span(),), version=4)), "and the owner overrules it"
    assert table.merge(entry(1, (), version=0, incarnation=2)) and table.generation == 4
    assert not table.merge(entry(2, (Span(),), (Span(),))), "made for other dimensions"


def test_spares_go_to_the_next_matcher_of_each_other_dimension() -> None:
    order = ([1, 2, 3], [2, 3, 1], [3, 1, 2])
    covers = [Cover([(interval(s), o) for o, s in zip(owners, THIRDS)]) for owners in order]
    assert spare_places([{1}, {1}, {1}], covers) == [(2, 1), (2, 2)]
    assert spare_places([{1}, {1, 2}, {1}], covers) == []


THIRDS = (Span(None, 10), Span(10, 20), Span(20, None))


def test_a_draw_of_many_points_agrees_with_brute_force_on_numbers() -> None:
    """Equal widths as in the reproduction, many publications: no value is without its owner."""
    chance = Random(1)
    cover = Cover(
        [(interval(Span(i * 10 if i else None, (i + 1) * 10 if i < 9 else None)), i) for i in range(10)]
    )
    for _ in range(1000):
        value = chance.uniform(-5, 105)
        assert cover.owners(value) == (min(9, max(0, int(value // 10))),)
