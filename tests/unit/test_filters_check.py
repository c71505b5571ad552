"""Nothing that a peer or a publisher sends gets past the checks in a shape that the rest does not expect."""

from __future__ import annotations

import math
from typing import Any

import pytest

from grapevine.filters import Filter, Op, Predicate, check, check_attributes, limits


def one(attribute: Any, op: Any, operand: Any = None) -> Filter:
    return Filter(((Predicate(attribute, op, operand),),))


def both(*predicates: tuple[Any, ...]) -> Filter:
    return Filter((tuple(Predicate(*predicate) for predicate in predicates),))


GOOD = [
    Filter(()),
    Filter(((),)),
    one("a", Op.EQ, True),
    one("a", 1, 2**63 - 1),
    one("a", Op.NE, math.inf),
    one("a", Op.RANGE, (1, None, True, False)),
    one("a", Op.RANGE, ("a", "b", True, True)),
    one("a", Op.RANGE, (2**53, float(2**53 + 2), False, False)),
    one("a", Op.IN, (False, 1, "x")),
    one("a", Op.NOT_CONTAINS, ""),
    one("lat", Op.IN_CIRCLE, ("lon", 90, -180.0, 0)),
    both(("a", Op.EQ, 1), ("a", Op.IN_CIRCLE, ("b", 0, 0, 5))),
    both(("a", Op.NE, 1), ("a", Op.NE, 2), ("a", Op.RANGE, (0, 5, False, False))),
]

BAD = [
    one("", Op.EQ, 1),
    one("x" * (limits.NAME_CHARS + 1), Op.EQ, 1),
    one(5, Op.EQ, 1),
    one("a", 0, 1),
    one("a", 15, 1),
    one("a", True, 1),
    one("a", "EQ", 1),
    one("a", [1], 1),
    one("a", Op.EQ, None),
    one("a", Op.EQ, math.nan),
    one("a", Op.EQ, 2**63),
    one("a", Op.EQ, -(2**63) - 1),
    one("a", Op.EQ, "x" * (limits.STRING_CHARS + 1)),
    one("a", Op.EQ, b"x"),
    one("a", Op.EQ, [1]),
    one("a", Op.EQ, {}),
    one("a", Op.EQ, (1,)),
    one("a", Op.RANGE, None),
    one("a", Op.RANGE, 5),
    one("a", Op.RANGE, (1, 2, False)),
    one("a", Op.RANGE, [1, 2, False, False]),
    one("a", Op.RANGE, (None, None, False, False)),
    one("a", Op.RANGE, (2, 1, False, False)),
    one("a", Op.RANGE, (1, 1, False, False)),
    one("a", Op.RANGE, (1, "b", False, False)),
    one("a", Op.RANGE, (False, True, False, False)),
    one("a", Op.RANGE, (1, 2, 0, 1)),
    one("a", Op.RANGE, (1, None, False, True)),
    one("a", Op.RANGE, (math.nan, 2, False, False)),
    one("a", Op.IN, (1,)),
    one("a", Op.IN, (2, 1)),
    one("a", Op.IN, (1, 1.0)),
    one("a", Op.IN, (1, False)),
    one("a", Op.IN, (1, math.nan)),
    one("a", Op.IN, (1, None)),
    one("a", Op.IN, ((1,), (2,))),
    one("a", Op.IN, tuple(range(limits.IN_VALUES + 1))),
    one("a", Op.PREFIX, 5),
    one("a", Op.CONTAINS, None),
    one("a", Op.EXISTS, 1),
    one("a", Op.ABSENT, False),
    one("a", Op.IN_CIRCLE, ("b", 0, 0)),
    one("a", Op.IN_CIRCLE, ("a", 0, 0, 1)),
    one("a", Op.IN_CIRCLE, (5, 0, 0, 1)),
    one("a", Op.IN_CIRCLE, ("b", 91, 0, 1)),
    one("a", Op.IN_CIRCLE, ("b", 0, -181, 1)),
    one("a", Op.IN_CIRCLE, ("b", 0, 0, -1)),
    one("a", Op.NOT_IN_CIRCLE, ("b", 0, 0, math.inf)),
    one("a", Op.NOT_IN_CIRCLE, ("b", 0, True, 1)),
    one("a", Op.NOT_IN_CIRCLE, "abcd"),
    both(("b", Op.EQ, 1), ("a", Op.EQ, 1)),
    both(("a", Op.EQ, 1), ("a", Op.EQ, 1)),
    both(("a", Op.EQ, 1), ("a", Op.EQ, 2)),
    both(("a", Op.EQ, 1), ("a", Op.NE, 2)),
    both(("a", Op.NE, 2), ("a", Op.NE, 1)),
    both(("a", Op.NE, 2), ("a", Op.IN, (1, 2))),
    both(("a", Op.RANGE, (1, 2, False, False)), ("a", Op.RANGE, (1, 3, False, False))),
    both(("a", Op.PREFIX, "x"), ("a", Op.EXISTS)),
    both(("a", Op.EXISTS), ("a", Op.ABSENT)),
    both(("a", Op.ABSENT), ("a", Op.IN_CIRCLE, ("b", 0, 0, 1))),
    both(*((f"a{n:03}", Op.EXISTS) for n in range(limits.PREDICATES + 1))),
    both(*((f"a{n:03}", Op.EQ, "x" * 1000) for n in range(20))),
    Filter(((), (Predicate("a", Op.EXISTS),))),
    Filter(((Predicate("b", Op.EXISTS),), (Predicate("a", Op.EXISTS),))),
    Filter(((Predicate("a", Op.EXISTS),), (Predicate("a", Op.EXISTS),))),
    Filter(tuple((Predicate(f"a{n:03}", Op.EXISTS),) for n in range(limits.CONJUNCTIONS + 1))),
    Filter(5),  # type: ignore[arg-type]
    Filter([()]),  # type: ignore[arg-type]
    Filter((5,)),  # type: ignore[arg-type]
    Filter(([],)),  # type: ignore[arg-type]
    Filter(((5,),)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("form", GOOD, ids=repr)
def test_good_forms_pass(form: Filter) -> None:
    check(form)


@pytest.mark.parametrize("form", BAD, ids=range(len(BAD)))
def test_bad_forms_are_refused(form: Filter) -> None:
    with pytest.raises(ValueError, match=r"^filter: "):
        check(form)


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"a": math.nan}, "NaN"),
        ({"a": 2**63}, "64 bits"),
        ({"a": None}, "NoneType"),
        ({"a": b"x"}, "bytes"),
        ({"a": [1]}, "list"),
        ({"": 1}, "name"),
        ({5: 1}, "name"),
        ({"x" * (limits.NAME_CHARS + 1): 1}, "name"),
        ({"a": "x" * (limits.ATTRIBUTE_CHARS + 1)}, "ATTRIBUTE_CHARS"),
        ({f"a{n}": "x" * 4000 for n in range(5)}, "ATTRIBUTES_BYTES"),
        ({f"a{n}": "é" * 4000 for n in range(3)}, "ATTRIBUTES_BYTES"),
        ({f"a{n}": 1 for n in range(limits.ATTRIBUTES + 1)}, "ATTRIBUTES"),
        ({"a": "\ud800"}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
    ],
)
def test_bad_attributes_are_refused(attributes: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_attributes(attributes)


def test_good_attributes_pass() -> None:
    check_attributes({})
    check_attributes(
        {"a": True, "b": -(2**63), "c": math.inf, "d": "é" * limits.ATTRIBUTE_CHARS, "two words": ""}
    )
