"""What must hold for every filter: against an evaluator of its own, over the expression as written."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from grapevine.errors import FilterError
from grapevine.filters import Filter, Op, Value, check, check_attributes, identity, matches, parse, to_text
from grapevine.filters.expression import And, Box, Circle, Constant, Expression, Not, Or, Test, Within
from grapevine.filters.geo import EARTH_RADIUS_KM, circle_spans, distance_km
from grapevine.filters.language import read
from grapevine.filters.normalise import normalise
from tests import strategies as gen
from tools.simulator.random_filters import random_attributes, random_expression, random_filter

COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
INVERSE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def truth(node: Expression, attributes: Mapping[str, Value], negated: bool = False) -> bool:
    """The language's rules over the tree itself: no normal form, no folding."""
    if isinstance(node, Constant):
        return node.value != negated
    if isinstance(node, Not):
        return truth(node.part, attributes, not negated)
    if isinstance(node, And | Or):
        every = isinstance(node, And) != negated
        return (all if every else any)(truth(part, attributes, negated) for part in node.parts)
    if isinstance(node, Within):
        return within(node, attributes, negated)
    if node.operator == "exists":
        return (node.attribute in attributes) != negated
    return node.attribute in attributes and test_truth(node, attributes[node.attribute], negated)


def test_truth(node: Test, value: Value, negated: bool) -> bool:
    operands: Any = node.operands
    if node.operator in ("prefix", "suffix", "contains"):
        if not isinstance(value, str):
            return False
        part = operands[0]
        found = {
            "prefix": value[: len(part)] == part,
            "suffix": value[len(value) - len(part) :] == part and len(part) <= len(value),
            "contains": value.find(part) >= 0,
        }
        return found[node.operator] != negated
    if node.operator == "in":
        answers = [compare(value, "!=" if negated else "=", one) for one in operands]
        return all(answers) if negated else any(answers)
    if node.operator == "between":
        low, high = operands
        if negated:
            return compare(value, "<", low) or compare(value, ">", high)
        return compare(value, ">=", low) and compare(value, "<=", high)
    return compare(value, INVERSE[node.operator] if negated else node.operator, operands[0])


test_truth.__test__ = False  # type: ignore[attr-defined]


def kind(value: Value) -> str:
    return {bool: "bool", str: "string", int: "number", float: "number"}[type(value)]


def compare(value: Value, sign: str, other: Value) -> bool:
    return kind(value) == kind(other) and bool(COMPARE[sign](value, other))


def within(node: Within, attributes: Mapping[str, Value], negated: bool) -> bool:
    latitude, longitude = (number(attributes.get(name)) for name in (node.latitude, node.longitude))
    shape = node.shape
    if isinstance(shape, Box):
        in_latitude = latitude is not None and shape.south <= latitude <= shape.north
        in_longitude = longitude is not None and between_meridians(shape, longitude)
        if not negated:
            return in_latitude and in_longitude
        return (latitude is not None and not in_latitude) or (longitude is not None and not in_longitude)
    if latitude is None or longitude is None or not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        return False
    away = arc_km(latitude, longitude, shape.latitude, shape.longitude)
    if abs(away - shape.km) < 1e-3:  # the last digits are the haversine formula's to decide
        away = distance_km(latitude, longitude, shape.latitude, shape.longitude)
    return (away <= shape.km) != negated


def between_meridians(box: Box, longitude: float) -> bool:
    if box.west <= box.east:
        return box.west <= longitude <= box.east
    return box.west <= longitude <= 180 or -180 <= longitude <= box.east


def number(value: Value | None) -> Any:
    return None if value is None or isinstance(value, bool | str) else value


def arc_km(latitude_a: float, longitude_a: float, latitude_b: float, longitude_b: float) -> float:
    """The angle between two vectors from the earth's centre; not the haversine formula."""
    a, b = unit_vector(latitude_a, longitude_a), unit_vector(latitude_b, longitude_b)
    cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    return EARTH_RADIUS_KM * math.atan2(math.hypot(*cross), sum(x * y for x, y in zip(a, b)))


def unit_vector(latitude: float, longitude: float) -> tuple[float, float, float]:
    phi, lam = math.radians(latitude), math.radians(longitude)
    return math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi)


def normal(node: Expression) -> Filter:
    try:
        return normalise(node)
    except FilterError as error:
        assume("too many conjunctions" not in str(error))
        raise


@given(st.data(), gen.expressions())
def test_the_normal_form_means_what_the_expression_says(data: st.DataObject, node: Expression) -> None:
    form = normal(node)
    attributes = data.draw(gen.attributes_for(form) | gen.attributes())
    assert matches(form, attributes) == truth(node, attributes)


@given(gen.expressions())
def test_text_is_read_as_the_expression_it_spells(node: Expression) -> None:
    text = gen.expression_text(node)
    assert gen.expression_text(read(text)) == text
    assert identity(parse(text)) == identity(normal(node))


@given(gen.filters())
def test_printing_and_parsing_gives_the_same_form(form: Filter) -> None:
    assert identity(parse(to_text(form))) == identity(form)


@given(gen.filters())
def test_every_parsed_form_passes_the_check_on_both_sides_of_the_wire(form: Filter) -> None:
    check(form)
    check(msgspec.msgpack.decode(msgspec.msgpack.encode(form), type=Filter))


@given(st.data(), gen.checked_filters())
def test_a_form_that_passes_the_check_can_be_folded_without_a_change_of_meaning(
    data: st.DataObject, form: Filter
) -> None:
    attributes = data.draw(gen.attributes_for(form))
    assert matches(parse(to_text(form)), attributes) == matches(form, attributes)


@given(st.data(), gen.expressions())
def test_a_filter_and_its_negation_never_both_match(data: st.DataObject, node: Expression) -> None:
    form, negated = normal(node), normal(Not(node))
    attributes = data.draw(gen.attributes_for(form) | gen.attributes_for(negated))
    assert not (matches(form, attributes) and matches(negated, attributes))


@given(gen.expressions(), gen.expressions())
def test_laws_of_not(left: Expression, right: Expression) -> None:
    assert identity(normal(Not(Not(left)))) == identity(normal(left))
    assert identity(normal(Not(And((left, right))))) == identity(normal(Or((Not(left), Not(right)))))
    assert identity(normal(Not(Or((left, right))))) == identity(normal(And((Not(left), Not(right)))))


@given(gen.expressions(), gen.expressions())
def test_order_and_repetition_do_not_matter(left: Expression, right: Expression) -> None:
    assert identity(normal(And((left, right)))) == identity(normal(And((right, left))))
    assert identity(normal(Or((left, right)))) == identity(normal(Or((right, left))))
    assert identity(normal(Or((left, left)))) == identity(normal(left))
    assert identity(normal(And((left, Constant(True))))) == identity(normal(left))
    assert normal(And((left, Constant(False)))).conjunctions == ()
    assert normal(Or((left, Constant(True)))).conjunctions == ((),)


@given(gen.latitudes(), gen.longitudes(), gen.latitudes(), gen.longitudes())
@example(0, 180, 0, -180)
def test_both_distances_agree(
    latitude_a: float, longitude_a: float, latitude_b: float, longitude_b: float
) -> None:
    ours = distance_km(latitude_a, longitude_a, latitude_b, longitude_b)
    assert ours == pytest.approx(arc_km(latitude_a, longitude_a, latitude_b, longitude_b), abs=1e-3)


@given(
    gen.latitudes(), gen.longitudes(), st.floats(0, 20100), st.floats(0, 2 * math.pi), st.floats(0, 1.0000001)
)
def test_the_ranges_of_a_circle_hold_all_of_it(
    latitude: float, longitude: float, km: float, bearing: float, share: float
) -> None:
    point = walked(latitude, longitude, km * share, bearing)
    assume(distance_km(latitude, longitude, *point) <= km)
    (south, north), spans = circle_spans(latitude, longitude, km)
    assert south <= point[0] <= north
    assert any(west <= point[1] <= east for west, east in spans)


def walked(latitude: float, longitude: float, km: float, bearing: float) -> tuple[float, float]:
    """Where one is after `km` from here."""
    phi, angle = math.radians(latitude), km / EARTH_RADIUS_KM
    sine = math.sin(phi) * math.cos(angle) + math.cos(phi) * math.sin(angle) * math.cos(bearing)
    there = math.asin(max(-1.0, min(1.0, sine)))
    east = math.atan2(
        math.sin(bearing) * math.sin(angle) * math.cos(phi), math.cos(angle) - math.sin(phi) * math.sin(there)
    )
    degrees = math.remainder(longitude + math.degrees(east), 360)
    return math.degrees(there), max(-180.0, min(180.0, degrees))


@given(gen.attributes())
def test_generated_attributes_are_good_ones(attributes: dict[str, Value]) -> None:
    check_attributes(attributes)


def scrambled() -> st.SearchStrategy[Any]:
    """What a decoder may hand over where an operand should be."""
    plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=3)
    return (
        plain | st.lists(plain, max_size=5).map(tuple) | st.lists(plain, max_size=3) | st.binary(max_size=3)
    )


@given(st.data(), st.lists(st.tuples(st.text(max_size=2), st.integers(-1, 16), scrambled()), max_size=3))
def test_whatever_passes_the_check_can_be_evaluated_and_printed(
    data: st.DataObject, rows: list[tuple[str, int, Any]]
) -> None:
    form = Filter((tuple(gen.Predicate(*row) for row in rows),))
    try:
        check(form)
    except ValueError:
        return
    matches(form, data.draw(gen.attributes_for(form)))
    parse(to_text(form))


def test_the_same_with_the_simulators_generator() -> None:
    """Two thousand pairs that cost little, over towns and stocks instead of corner cases."""
    rng = Random(7)
    for _ in range(2_000):
        node = random_expression(rng)
        form = normalise(node)
        check(form)
        assert identity(parse(to_text(form))) == identity(form)
        for attributes in (random_attributes(rng), random_attributes(rng)):
            assert matches(form, attributes) == truth(node, attributes), (node, attributes)


def test_the_simulators_generator_uses_every_operator_and_matches_now_and_then() -> None:
    rng = Random(3)
    forms = [random_filter(rng) for _ in range(400)]
    publications = [random_attributes(rng) for _ in range(100)]
    hits = sum(matches(form, attributes) for form in forms for attributes in publications)
    assert 0.05 < hits / 40_000 < 0.25
    used = {predicate.op for form in forms for conjunction in form.conjunctions for predicate in conjunction}
    assert used == set(Op)


def test_circle_expression_needs_both_numbers() -> None:
    node = Within("lat", "lon", Circle(0, 0, 10))
    assert not truth(node, {"lat": 0, "lon": True})
    assert not matches(normalise(node), {"lat": 0, "lon": True})
