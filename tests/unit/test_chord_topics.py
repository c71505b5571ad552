"""Topics over filters: what is refused and why, and that no topic of a matching publication is missed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grapevine.filters import Value, parse
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import EVERYTHING, NOTHING
from overlay.chord.topics import Refusal, Term, Unusable, cell_of, key_of, terms_of, topic_of, topics_of
from tests.strategies import attributes_for, checked_filters, filters, numbers

TOPIC = terms_of(["topic"])
GRID = terms_of(["lat/1", "lon/1"])
MOST = 256


def names(text: str, by: tuple[Term, ...] = TOPIC) -> frozenset[str] | Refusal:
    return topics_of(parse(text), by, MOST)


def refused(text: str, by: tuple[Term, ...] = TOPIC) -> str:
    found = names(text, by)
    assert isinstance(found, Refusal), found
    return found.text


def test_a_filter_names_its_topics() -> None:
    assert names("topic = 'us'") == {"'us'"}
    assert names("topic in ('us', 'ca') and price > 5") == {"'us'", "'ca'"}
    assert names("topic = 'us' or topic = 'ca' and price > 5") == {"'us'", "'ca'"}
    assert names("topic = 1 or topic = 1.0 or topic = true") == {"1", "true"}
    assert names("topic in ('us', 'ca') and topic != 'us'") in ({"'us'", "'ca'"}, {"'ca'"})
    assert topics_of(NOTHING, TOPIC, MOST) == frozenset()


def test_cells_of_numbers() -> None:
    assert names("lat between 40.5 and 42.2 and lon = -74.5", GRID) == {"40, -75", "41, -75", "42, -75"}
    assert names("within(lat, lon, box(10, 179.5, 10.5, -179.5))", GRID) == {"10, 179", "10, 180", "10, -180"}
    around = names("within(lat, lon, circle(40.5, -74.5, 30))", GRID)
    assert around == {"40, -75"}
    assert names("lat = 'x' and lon = 1", GRID) == frozenset()


def test_refusals_name_the_term_and_a_form_that_works() -> None:
    assert "topic = .. or topic in (..)" in refused("topic prefix 'us'")
    assert "`topic prefix`" in refused("topic prefix 'us'")
    assert "`topic !=`" in refused("topic != 'us'")
    assert "topic" in refused("topic = 'us' or price > 5")
    assert "lat between" in refused("lat > 5 and lon = 1", GRID)
    assert "lon between" in refused("lat = 5", GRID)
    assert "more than 256" in refused("lat between 0 and 80 and lon between 0 and 80", GRID)
    found = topics_of(EVERYTHING, TOPIC, MOST)
    assert isinstance(found, Refusal) and found.attribute == "topic"


def test_publications_without_a_topic() -> None:
    assert topic_of({"topic": "us"}, TOPIC) == "'us'"
    assert topic_of({"lat": 40.7, "lon": -74}, GRID) == "40, -74"
    assert isinstance(topic_of({"price": 1}, TOPIC), Refusal)
    for wrong in ("x", True, float("inf")):
        assert isinstance(topic_of({"lat": wrong, "lon": 1}, GRID), Refusal)


def test_terms() -> None:
    assert terms_of(["a/b", "lat/0.5"]) == (Term("a/b"), Term("lat", 0.5))
    for wrong in ([], ["lat/0"], ["lat/-1"], ["/1"], ["a", "a"], ["lat/inf"]):
        with pytest.raises(Unusable):
            terms_of(wrong)


def test_keys_are_spread_and_fixed() -> None:
    assert key_of("'us'") == key_of("'us'") != key_of("'ca'")
    assert 0 <= key_of("'us'") < 2**64


@given(one=numbers(), other=numbers(), step=st.sampled_from((1.0, 0.5, 0.1, 3.0)))
def test_a_cell_grows_with_its_value(one: float, other: float, step: float) -> None:
    low, high = sorted((one, other))
    first, last = cell_of(low, step), cell_of(high, step)
    assert first is None or last is None or first <= last


TERMS = st.sampled_from(
    (("a",), ("a/1",), ("b/0.5", "a"), ("lat/1", "lon/1"), ("lat/10", "lon/30"), ("y/7", "x/7"))
)


@settings(max_examples=150)
@given(st.data(), filters(6) | checked_filters(), TERMS)
def test_every_match_lies_in_a_topic_of_the_filter(data: st.DataObject, form, by) -> None:  # type: ignore[no-untyped-def]
    terms = terms_of(by)
    named = topics_of(form, terms, MOST)
    assume(not isinstance(named, Refusal))
    attributes: dict[str, Value] = data.draw(attributes_for(form))
    if matches(form, attributes):
        topic = topic_of(attributes, terms)
        assert isinstance(topic, Refusal) or topic in named
