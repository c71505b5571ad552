"""What is said about two filters holds for every publication, and the cases that must be decided are."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grapevine.filters import parse
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import EVERYTHING, NOTHING, Filter, Op, Predicate
from matching.check import satisfied
from matching.relations import after_prefix, covers, excludes, implies, overlaps
from tests import strategies


def pairs() -> st.SearchStrategy[tuple[Filter, Filter]]:
    form = strategies.filters(max_leaves=3) | strategies.checked_filters()
    return st.tuples(form, form)


@st.composite
def predicates_about_one(draw: st.DrawFn) -> tuple[Predicate, Predicate]:
    p, q = draw(strategies.predicates()), draw(strategies.predicates())
    circles = (Op.IN_CIRCLE, Op.NOT_IN_CIRCLE)
    assume(p.op not in circles and q.op not in circles)
    return Predicate("a", p.op, p.operand), Predicate("a", q.op, q.operand)


@settings(max_examples=120)
@given(pairs(), st.data())
def test_covers_and_overlaps_are_sound(pair: tuple[Filter, Filter], data: st.DataObject) -> None:
    a, b = pair
    for form in pair:
        attributes = data.draw(strategies.attributes_for(form))
        in_a, in_b = matches(a, attributes), matches(b, attributes)
        assert not (covers(a, b) and in_b and not in_a)
        assert overlaps(a, b) or not (in_a and in_b)


@settings(max_examples=250)
@given(predicates_about_one(), st.data())
def test_predicates_imply_and_exclude_soundly(pair: tuple[Predicate, Predicate], data: st.DataObject) -> None:
    p, q = pair
    for predicate in pair:
        attributes = data.draw(strategies.attributes_for(Filter(((predicate,),))))
        in_p, in_q = satisfied((p,), attributes), satisfied((q,), attributes)
        assert not (implies(p, q) and in_p and not in_q)
        assert not (excludes(p, q) and in_p and in_q)
        assert excludes(p, q) == excludes(q, p)


@settings(max_examples=200)
@given(strategies.predicates(), st.data())
def test_the_quick_check_says_what_the_evaluator_says(predicate: Predicate, data: st.DataObject) -> None:
    form = Filter(((predicate,),))
    for attributes in (data.draw(strategies.attributes_for(form)), data.draw(strategies.attributes())):
        assert satisfied((predicate,), attributes) == matches(form, attributes)


@given(strategies.filters(max_leaves=4))
def test_a_filter_covers_itself_and_everything_covers_it(form: Filter) -> None:
    assert covers(form, form) and covers(EVERYTHING, form) and covers(form, NOTHING)
    assert not overlaps(form, NOTHING)


COVERING = [
    ("a >= 1", "a > 1"),
    ("a > 1", "a between 2 and 3"),
    ("a != 5", "a > 5"),
    ("a != 5", "a = 4"),
    ("a in (1, 2, 3)", "a in (1, 3)"),
    ("a in (1, 2)", "a = 2"),
    ("a > 0", "a in (1, 2)"),
    ("exists a", "a != 'x'"),
    ("a prefix 'a'", "a prefix 'ab'"),
    ("a contains 'b'", "a prefix 'abc'"),
    ("a contains 'b'", "a suffix 'abc'"),
    ("a contains 'b'", "a contains 'abc'"),
    ("a suffix 'c'", "a suffix 'bc'"),
    ("a >= 'ab'", "a prefix 'abc'"),
    ("a < 'b'", "a prefix 'a'"),
    ("a != 'x'", "a prefix 'a'"),
    ("not a prefix 'b'", "a prefix 'a'"),
    ("not a prefix 'ab'", "not a prefix 'a'"),
    ("not a contains 'ab'", "not a contains 'a'"),
    ("not a prefix 'ab'", "not a contains 'a'"),
    ("not a suffix 'ab'", "not a suffix 'b'"),
    ("a > 1 or b > 1", "a > 2"),
    ("a > 1", "a > 2 and b = 3 or a = 5"),
    ("not exists a", "not exists a and b > 1"),
    ("within(y, x, circle(1, 2, 3))", "within(y, x, circle(1, 2, 3)) and b"),
]
NOT_COVERING = [
    ("a > 1", "a >= 1"),
    ("a > 1", "exists a"),
    ("a > 1", "a = '2'"),
    ("a = 1", "a = true"),
    ("a prefix 'ab'", "a prefix 'a'"),
    ("a != 5", "a >= 5"),
    ("not exists a", "b > 1"),
    ("a > 1", "a > 2 or b > 2"),
    ("within(y, x, circle(1, 2, 30))", "within(y, x, circle(1, 2, 3))"),
]
APART = [
    ("a < 1", "a >= 1"),
    ("a = 1", "a = true"),
    ("a > 1", "a prefix 'x'"),
    ("a prefix 'a'", "a prefix 'b'"),
    ("a suffix 'a'", "a suffix 'b'"),
    ("a prefix 'ab'", "not a prefix 'a'"),
    ("a contains 'ab'", "not a contains 'a'"),
    ("a prefix 'b'", "a < 'b'"),
    ("a in (1, 2)", "a in (3, 'x')"),
    ("not exists a", "a != 1"),
    ("b = 1 and a = 1", "b = 1 and a = 2 or b = 2"),
]


@pytest.mark.parametrize(("wide", "narrow"), COVERING)
def test_decides_that_one_covers_the_other(wide: str, narrow: str) -> None:
    assert covers(parse(wide), parse(narrow))


@pytest.mark.parametrize(("wide", "narrow"), NOT_COVERING)
def test_does_not_cover(wide: str, narrow: str) -> None:
    assert not covers(parse(wide), parse(narrow))
    assert overlaps(parse(wide), parse(narrow)) or (wide, narrow) in (
        ("a > 1", "a = '2'"),
        ("a = 1", "a = true"),
    )


@pytest.mark.parametrize(("one", "other"), APART)
def test_decides_that_two_are_apart(one: str, other: str) -> None:
    assert not overlaps(parse(one), parse(other))
    assert not overlaps(parse(other), parse(one))


@given(st.text(max_size=4), st.text(max_size=6))
def test_the_end_of_a_prefix(start: str, text: str) -> None:
    end = after_prefix(start)
    assert text.startswith(start) == (start <= text and (end is None or text < end))
