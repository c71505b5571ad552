"""Random filters and publications for hypothesis, over one small vocabulary so that they often meet.

expressions()       expression trees of every operator (`expression_text` spells one, by its own printer)
texts()             the same as text
filters()           normal forms as `parse` makes them
checked_filters()   forms that a peer may send: they pass `check`, but need not be folded
attributes()        a publication's attributes
attributes_for(f)   attributes built from the operands of `f`: at, beside and between its boundaries
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from grapevine.errors import FilterError
from grapevine.filters import Filter, Op, Predicate, Value
from grapevine.filters.checking import check
from grapevine.filters.expression import And, Box, Circle, Constant, Expression, Not, Or, Test, Within
from grapevine.filters.normal import predicate_key, value_key
from grapevine.filters.normalise import normalise

PLAIN_NAMES = ("a", "b", "volume", "openClose%Diff", "a.b:c/d-e", "within")
QUOTED_NAMES = ("and", "two words", 'a"b', "1e6", "Not", "naïve!")
COORDINATES = (("lat", "lon"), ("y", "x"))
NAMES = (*PLAIN_NAMES, *QUOTED_NAMES, *(name for pair in COORDINATES for name in pair))

STRINGS = ("", "a", "ab", "abc", "abab", "b", "ba", "bab", "it's", "Z", "é", "\U0001f600", "true", "1")
NUMBERS: tuple[int | float, ...] = (
    *(-2, -1, 0, 1, 2, 3, 10, 170, 180, -180, -170),
    *(-0.5, 0.5, 1.5, 2.5, 0.1, 1e-300, 1e300, -1e300, math.inf, -math.inf),
    # Where a float can no longer tell two ints apart, and where 64 bits end.
    *(2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), float(2**63)),
)
KILOMETRES = (0, 1, 111.3, 500, 5000, 9999, 20016)
LATITUDES = (-90, -89.5, -45, -1, 0, 0.5, 1, 60, 89, 90)
LONGITUDES = (-180, -179.5, -90, -1, 0, 0.5, 1, 90, 179, 180)


def names() -> st.SearchStrategy[str]:
    return st.sampled_from(("a", "a", "a", "b", "b", *NAMES))


def strings() -> st.SearchStrategy[str]:
    return st.sampled_from(STRINGS) | st.text("ab", max_size=4) | st.text(max_size=3).filter(_encodable)


def numbers() -> st.SearchStrategy[int | float]:
    return st.sampled_from(NUMBERS) | st.integers(-5, 5) | st.floats(allow_nan=False)


def values() -> st.SearchStrategy[Value]:
    return st.one_of(numbers(), strings(), st.booleans())


def latitudes() -> st.SearchStrategy[float]:
    return st.sampled_from(LATITUDES) | st.floats(-90, 90)


def longitudes() -> st.SearchStrategy[float]:
    return st.sampled_from(LONGITUDES) | st.floats(-180, 180)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@st.composite
def tests_of_one_attribute(draw: st.DrawFn) -> Test:
    name = draw(names())
    operator = draw(
        st.sampled_from(
            ("=", "!=", "<", "<=", ">", ">=", "between", "in", "prefix", "suffix", "contains", "exists")
        )
    )
    if operator == "exists":
        return Test(name, operator)
    if operator in ("prefix", "suffix", "contains"):
        return Test(name, operator, (draw(strings()),))
    if operator == "in":
        return Test(name, operator, tuple(draw(st.lists(values(), min_size=1, max_size=4))))
    if operator == "between":
        of_one_type: st.SearchStrategy[Any] = draw(st.sampled_from((numbers(), strings())))
        return Test(name, operator, (draw(of_one_type), draw(of_one_type)))
    return Test(name, operator, (draw(values() if operator in ("=", "!=") else numbers() | strings()),))


@st.composite
def withins(draw: st.DrawFn) -> Within:
    latitude, longitude = draw(st.sampled_from(COORDINATES))
    if draw(st.booleans()):
        return Within(
            latitude,
            longitude,
            Circle(draw(latitudes()), draw(longitudes()), draw(st.sampled_from(KILOMETRES))),
        )
    south, north = sorted((draw(latitudes()), draw(latitudes())))
    return Within(latitude, longitude, Box(south, draw(longitudes()), north, draw(longitudes())))


def leaves() -> st.SearchStrategy[Expression]:
    return st.one_of(
        tests_of_one_attribute(),
        tests_of_one_attribute(),
        tests_of_one_attribute(),
        withins(),
        st.builds(Constant, st.booleans()),
    )


def _joined(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


def expressions(max_leaves: int = 8) -> st.SearchStrategy[Expression]:
    return st.recursive(leaves(), _joined, max_leaves=max_leaves)


def texts() -> st.SearchStrategy[str]:
    return expressions().map(expression_text)


def filters(max_leaves: int = 8) -> st.SearchStrategy[Filter]:
    """Normal forms, as parsing makes them; the few that expand beyond the limits are left out."""
    return expressions(max_leaves).map(_normalised).filter(lambda form: form is not None)  # type: ignore[return-value]


def _normalised(expression: Expression) -> Filter | None:
    try:
        return normalise(expression)
    except FilterError:
        return None


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    """One predicate of any operator, as a peer may send it (also 1.0 for 1, and circles without ranges)."""
    op = draw(st.sampled_from(Op))
    if op in (Op.IN_CIRCLE, Op.NOT_IN_CIRCLE):
        latitude, longitude = draw(st.sampled_from(COORDINATES))
        centre = (draw(latitudes()), draw(longitudes()), draw(st.sampled_from(KILOMETRES)))
        return Predicate(latitude, op, (longitude, *centre))
    return Predicate(draw(names()), op, draw(_operands(op)))


def _operands(op: Op) -> st.SearchStrategy[Any]:
    if op in (Op.EQ, Op.NE):
        return values()
    if op is Op.RANGE:
        return _ranges()
    if op is Op.IN:
        distinct = st.lists(values(), min_size=2, max_size=5, unique_by=value_key)
        return distinct.map(lambda found: tuple(sorted(found, key=value_key)))
    if op in (Op.EXISTS, Op.ABSENT):
        return st.none()
    return strings()


@st.composite
def _ranges(draw: st.DrawFn) -> tuple[Any, Any, bool, bool]:
    of_one_type: st.SearchStrategy[Any] = draw(st.sampled_from((numbers(), strings())))
    low, high = sorted(draw(st.lists(of_one_type, min_size=2, max_size=2, unique=True)))
    open_ends = (draw(st.booleans()), draw(st.booleans()))
    cut = draw(st.sampled_from(("both", "low", "high")))
    if cut == "low":
        return low, None, open_ends[0], False
    if cut == "high":
        return None, high, False, open_ends[1]
    return low, high, *open_ends


def checked_filters() -> st.SearchStrategy[Filter]:
    conjunction = st.lists(predicates(), max_size=5).map(_distinct)
    return st.lists(conjunction, max_size=4).map(_sorted_filter).filter(_passes)


def _distinct(found: list[Predicate]) -> tuple[Predicate, ...]:
    return tuple(sorted({predicate_key(one): one for one in found}.values(), key=predicate_key))


def _sorted_filter(conjunctions: list[tuple[Predicate, ...]]) -> Filter:
    keyed = {tuple(map(predicate_key, conjunction)): conjunction for conjunction in conjunctions}
    return Filter(((),)) if () in keyed else Filter(tuple(keyed[key] for key in sorted(keyed)))


def _passes(form: Filter) -> bool:
    try:
        check(form)
    except ValueError:
        return False
    return True


def attributes() -> st.SearchStrategy[dict[str, Value]]:
    positions = st.fixed_dictionaries({}, optional={"lat": latitudes(), "lon": longitudes()})
    others = st.dictionaries(names(), values(), max_size=5)
    return st.builds(lambda left, right: {**left, **right}, positions, others)


@st.composite
def attributes_for(draw: st.DrawFn, form: Filter) -> dict[str, Value]:
    """Attributes that have a good chance to match, or to miss by one predicate."""
    found = dict(draw(attributes()))
    if not form.conjunctions:
        return found
    for predicate in draw(st.sampled_from(form.conjunctions)):
        if predicate.op == Op.ABSENT:
            found.pop(predicate.attribute, None)
        else:
            found.update(draw(_satisfying(predicate)))
    return found


@st.composite
def _satisfying(draw: st.DrawFn, predicate: Predicate) -> dict[str, Value]:
    name, operand = predicate.attribute, predicate.operand
    if predicate.op in (Op.IN_CIRCLE, Op.NOT_IN_CIRCLE):
        longitude_name, latitude, longitude, _ = operand  # type: ignore[misc]
        aside = st.sampled_from((0.0, 0.0, 0.1, -0.1, 3.0, -3.0))
        return {name: latitude + draw(aside), longitude_name: longitude + draw(aside)}
    ends: list[Any] = [end for end in operand[:2] if end is not None] if predicate.op == Op.RANGE else []
    if predicate.op == Op.RANGE:
        return {name: draw(st.sampled_from([beside for end in ends for beside in _beside(end)]))}
    if predicate.op == Op.IN:
        return {name: draw(st.sampled_from(operand))}
    if operand is None:
        return {name: draw(values())}
    if predicate.op in (Op.EQ, Op.NE):
        return {name: draw(st.sampled_from(_beside(operand)))}
    return {name: draw(st.sampled_from([operand, f"{operand}b", f"a{operand}", f"a{operand}b", ""]))}


def _beside(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [value]
    if isinstance(value, str):
        return [value, f"{value}a", value[:-1], f"b{value}"]
    if isinstance(value, int):
        return [one for one in (value, value - 1, value + 1) if -(2**63) <= one < 2**63]
    return [value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]


def expression_text(node: Expression) -> str:
    """A text of this expression, more parentheses than needed; independent of `to_text`."""
    if isinstance(node, And):
        return " and ".join(f"({expression_text(part)})" for part in node.parts)
    if isinstance(node, Or):
        return " OR ".join(f"({expression_text(part)})" for part in node.parts)
    if isinstance(node, Not):
        return f"not ({expression_text(node.part)})"
    if isinstance(node, Constant):
        return str(node.value)
    if isinstance(node, Within):
        return _within_text(node)
    name = _name(node.attribute)
    operands = [_value(operand) for operand in node.operands]
    if node.operator == "exists":
        return f"Exists {name}"
    if node.operator == "between":
        return f"{name} between {operands[0]} and {operands[1]}"
    if node.operator == "in":
        return f"{name} in ({','.join(operands)})"
    return f"{name} {node.operator} {operands[0]}"


def _within_text(node: Within) -> str:
    shape = node.shape
    if isinstance(shape, Box):
        numbers_ = (shape.south, shape.west, shape.north, shape.east)
    else:
        numbers_ = (shape.latitude, shape.longitude, shape.km)  # type: ignore[assignment]
    shape_text = f"{type(shape).__name__}({', '.join(map(_value, numbers_))})"
    return f"within({_name(node.latitude)}, {_name(node.longitude)}, {shape_text})"


def _name(name: str) -> str:
    return (
        name if name in PLAIN_NAMES or name in sum(COORDINATES, ()) else '"' + name.replace('"', '""') + '"'
    )


def _value(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value in (math.inf, -math.inf):
        return "1e400" if value > 0 else "-1e400"  # type: ignore[operator]
    return repr(value)
