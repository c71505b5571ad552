"""Values of a channel's parameters: what is taken, what is refused, when two sets are one."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.errors import Error, ParameterError
from grapevine.wire.parameters import Parameter, canonical, mistakes, read_canonical, set_id, take, take_set

TYPE = Parameter("type", "string")
LAT = Parameter("lat", "double", snap=0.01, minimum=-90.0, maximum=90.0)
KM = Parameter("km", "double", default=2, minimum=0, maximum=50)
AT = Parameter("at", "timestamp")


@pytest.mark.parametrize(
    ("parameter", "value", "taken"),
    [
        (TYPE, "fire", "fire"),
        (LAT, 60.1699, 60.17),
        (LAT, 60.17, 60.17),
        (LAT, -0.004, 0.0),
        (KM, 3, 3.0),
        (Parameter("n", "bigint", snap=10), 14, 10),
        (Parameter("n", "bigint", snap=10), -15, -10),
        (Parameter("n", "bigint"), 2.0, 2),
        (Parameter("b", "boolean"), True, True),
        (Parameter("n", "bigint", snap=1000), 2**63 - 1, 2**63 - 1),
        (Parameter("n", "bigint", snap=1000), -(2**63), -(2**63)),
        (Parameter("km", "double", snap=20.0, minimum=0, maximum=50), 50, 50.0),
        (Parameter("km", "double", snap=20.0, minimum=15, maximum=50), 21, 20.0),
        (Parameter("km", "double", snap=0.01), 1e308, 1e308),
        (
            Parameter("at", "timestamp", minimum="1970-01-01", maximum="1970-01-03"),
            "1970-01-02",
            86_400_000_000,
        ),
        (AT, "1970-01-02", 86_400_000_000),
        (AT, "1970-01-01T01:00:00+01:00", 0),
        (AT, "2026-11-17 18:00:00.25Z", 1_794_938_400_250_000),
    ],
)
def test_a_value_becomes_its_type(parameter: Parameter, value: object, taken: object) -> None:
    found = take(parameter, value)
    assert found == taken and type(found) is type(taken)
    assert math.copysign(1, found) == 1 if found == 0 else True  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        (TYPE, 3, "text"),
        (TYPE, "x" * 5000, "at most 4096"),
        (LAT, "60", "a number"),
        (LAT, True, "a number"),
        (LAT, math.nan, "a number"),
        (LAT, -math.inf, "a number"),
        (LAT, 90.5, "at most 90"),
        (KM, -1, "at least 0"),
        (Parameter("n", "bigint"), 2.5, "whole number"),
        (Parameter("n", "bigint"), 2**63, "whole number"),
        (Parameter("b", "boolean"), 1, "true or false"),
        (AT, "2026-02-29", "a time"),
        (AT, "0000-01-01", "years 1 to 9999"),
        (AT, 2**62, "a time"),
        (Parameter("at", "timestamp", minimum="1970-01-02"), "1970-01-01", "at least 1970-01-02"),
        (AT, "yesterday", "a time"),
    ],
)
def test_what_is_none_is_refused(parameter: Parameter, value: object, said: str) -> None:
    with pytest.raises(ParameterError, match=said) as caught:
        take(parameter, value)
    assert isinstance(caught.value, Error) and isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@given(st.datetimes(datetime(1600, 1, 1), datetime(2400, 1, 1)), st.integers(-720, 720))
def test_times_are_counted_like_the_librarys(naive: datetime, minutes: int) -> None:
    zoned = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    expected = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert take(AT, zoned.isoformat()) == take(AT, zoned) == expected


def test_a_set_has_defaults_and_one_order() -> None:
    declared = (TYPE, LAT, KM)
    assert take_set(declared, {"lat": 60.1712, "type": "fire"}) == ("fire", 60.17, 2.0)
    with pytest.raises(ParameterError, match="parameter lat: expected a value"):
        take_set(declared, {"type": "fire"})
    with pytest.raises(ParameterError, match="one of type, lat, km"):
        take_set(declared, {"type": "fire", "lat": 1, "lot": 2})


def test_equal_sets_are_one_subscription() -> None:
    """BAD 3.1: identical subscriptions share a back-end subscription; snap makes near ones identical."""
    declared = (TYPE, LAT, KM)
    one, near, other = (
        canonical(take_set(declared, {"type": "fire", "lat": lat, "km": km}))
        for lat, km in ((60.171, 2), (60.1701, 2.0), (60.171, 3))
    )
    assert one == near != other
    assert set_id("c", 1, one) == set_id("c", 1, near)
    assert len({set_id(*key) for key in (("c", 1, one), ("d", 1, one), ("c", 2, one), ("c", 1, other))}) == 4


values: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=20),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "timestamp": st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),  # years 1 to 9999
}


@given(st.data(), st.lists(st.sampled_from(sorted(values)), max_size=6))
def test_a_canonical_set_is_read_back(data: st.DataObject, kinds: list[str]) -> None:
    declared = [Parameter(f"p{number}", kind) for number, kind in enumerate(kinds)]
    given = {each.name: data.draw(values[each.type]) for each in declared}
    taken = take_set(declared, given)
    assert read_canonical(declared, canonical(taken)) == taken
    assert canonical(read_canonical(declared, canonical(taken))) == canonical(taken)


@given(st.binary(max_size=20))
def test_a_strangers_bytes_are_refused_or_canonical(form: bytes) -> None:
    declared = (KM, TYPE)
    try:
        taken = read_canonical(declared, form)
    except ParameterError:
        return
    assert canonical(taken) == form


@given(st.floats(-1e6, 1e6), st.sampled_from((0.001, 0.01, 0.05, 0.25, 1.0, 7.0)))
def test_snap_is_near_and_stays(value: float, snap: float) -> None:
    parameter = Parameter("x", "double", snap=snap)
    snapped = take(parameter, value)
    assert isinstance(snapped, float)
    assert abs(snapped - value) <= snap * 0.5001
    assert take(parameter, snapped) == snapped


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        (Parameter("x", "float"), "'float' is not one of string"),
        (Parameter("x", "string", snap=1.0), "snap is for numbers"),
        (Parameter("x", "double", snap=0.0), "snap is not above 0"),
        (Parameter("x", "bigint", snap=0.5), "whole number"),
        (Parameter("x", "double", default="a"), "default is a, not a number"),
        (Parameter("x", "double", default=9, maximum=5), "default is 9, not at most 5"),
        (Parameter("x", "double", minimum=9, maximum=5), "min is above max"),
        (Parameter("x", "double", snap=0.1, default=1, minimum=0, maximum=5), ""),
    ],
)
def test_a_declaration_that_cannot_be(parameter: Parameter, said: str) -> None:
    found = mistakes(parameter)
    assert said in "; ".join(found) and bool(found) == bool(said)


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=1e-15, max_value=1e15),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_what_was_taken_is_taken_again(value: float, snap: float, low: float, more: float) -> None:
    """The driver takes what the back end took: a form it refuses would stop the channel for all."""
    free = Parameter("x", "double", snap=snap)
    assert take(free, take(free, value)) == take(free, value)
    bound = Parameter("x", "double", snap=snap, minimum=low, maximum=low + more)
    inside = min(max(value, low), low + more)
    form = canonical([take(bound, inside)])
    assert read_canonical([bound], form) == (take(bound, inside),)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**62))
def test_whole_numbers_stay_in_64_bits(value: int, snap: int) -> None:
    parameter = Parameter("n", "bigint", snap=snap)
    found = take(parameter, value)
    assert -(2**63) <= found < 2**63 and take(parameter, found) == found  # type: ignore[operator]
