"""The grammar's rules as expression nodes: called by the parser, bottom up, as each rule completes.

Meaning that the grammar cannot say is checked here, where the position is still known: which types an
operator takes, numbers that fit, coordinates that exist, how deep a filter nests.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from lark import Token, Transformer, v_args

from grapevine.errors import FilterError
from grapevine.filters import limits
from grapevine.filters.expression import And, Box, Circle, Constant, Expression, Not, Or, Test, Within
from grapevine.filters.normal import Value, value_type

# The attributes that a box or a circle without `within` is about.
LATITUDE, LONGITUDE = "lat", "lon"

BRACKET_OPERATORS = {
    "eq": "=",
    "=": "=",
    "neq": "!=",
    "<>": "!=",
    "!=": "!=",
    "<": "<",
    "lt": "<",
    "str-lt": "<",
    "<=": "<=",
    "le": "<=",
    "str-le": "<=",
    ">": ">",
    "gt": ">",
    "str-gt": ">",
    ">=": ">=",
    "ge": ">=",
    "str-ge": ">=",
    "ispresent": "exists",
    "str-prefix": "prefix",
    "str-postfix": "suffix",
    "str-contains": "contains",
}


class Name(NamedTuple):
    text: str
    at: int


class Literal(NamedTuple):
    value: Value
    at: int


@v_args(inline=True)
class Builder(Transformer[Token, Any]):
    def word_name(self, token: Token) -> Name:
        return _name(str(token), token)

    def quoted_name(self, token: Token) -> Name:
        return _name(token[1:-1].replace('""', '"'), token)

    def number(self, token: Token) -> Literal:
        return Literal(_number(token), _at(token))

    def string(self, token: Token) -> Literal:
        return _string(token[1:-1].replace("''", "'"), token)

    def word_string(self, token: Token) -> Literal:
        return _string(str(token), token)

    def quoted_string(self, token: Token) -> Literal:
        return _string(token[1:-1].replace('""', '"'), token)

    def boolean(self, token: Token) -> Literal:
        return Literal(token.lower() == "true", _at(token))

    def bracket_value(self, literal: Literal) -> Literal:
        return literal

    def constant(self, token: Token) -> Constant:
        return Constant(token.lower() == "true", _at(token))

    def compare(self, name: Name, operator: Token, literal: Literal) -> Test:
        return _compare(name, str(operator), literal)

    def between(self, name: Name, operator: Token, low: Literal, high: Literal) -> Test:
        _orderable(low)
        _orderable(high)
        if value_type(low.value) is not value_type(high.value):
            raise FilterError("between needs two numbers or two strings", high.at)
        return Test(name.text, "between", (low.value, high.value), name.at)

    def member(self, name: Name, *literals: Literal) -> Test:
        if len(literals) > limits.IN_VALUES:
            message = (
                f"too many values for {name.text}: {len(literals)}, at most {limits.IN_VALUES} (IN_VALUES)"
            )
            raise FilterError(message, literals[limits.IN_VALUES].at)
        return Test(name.text, "in", tuple(literal.value for literal in literals), name.at)

    def string_test(self, name: Name, operator: Token, literal: Literal) -> Test:
        return Test(name.text, operator.lower(), (literal.value,), name.at)

    def exists(self, token: Token, name: Name) -> Test:
        return Test(name.text, "exists", (), _at(token))

    def bare(self, name: Name) -> Test:
        return Test(name.text, "=", (True,), name.at)

    def box(
        self, token: Token, south: Literal, west: Literal, north: Literal, east: Literal
    ) -> tuple[Box, int]:
        for latitude, longitude in ((south, west), (north, east)):
            _coordinates(latitude, longitude)
        if south.value > north.value:  # type: ignore[operator]
            raise FilterError(
                "a box is box(south, west, north, east), and this south is north of its north", south.at
            )
        return Box(south.value, west.value, north.value, east.value), _at(token)  # type: ignore[arg-type]

    def circle(self, token: Token, latitude: Literal, longitude: Literal, km: Literal) -> tuple[Circle, int]:
        _coordinates(latitude, longitude)
        if not 0 <= km.value < math.inf:  # type: ignore[operator]
            raise FilterError("the radius of a circle is a number of kilometres, not negative", km.at)
        return Circle(latitude.value, longitude.value, km.value), _at(token)  # type: ignore[arg-type]

    def within(
        self, token: Token, latitude: Name, longitude: Name, shape: tuple[Box | Circle, int]
    ) -> Within:
        if latitude.text == longitude.text:
            raise FilterError("latitude and longitude are two attributes", longitude.at)
        return Within(latitude.text, longitude.text, shape[0], _at(token))

    def bare_shape(self, shape: tuple[Box | Circle, int]) -> Within:
        return Within(LATITUDE, LONGITUDE, *shape)

    def triple(self, name: Name, operator: Token, literal: Literal | None) -> Test:
        known = BRACKET_OPERATORS.get(operator.lower())
        if known is None:
            raise FilterError(f"no such operator: {operator}", _at(operator), tuple(BRACKET_OPERATORS))
        if known == "exists":
            return Test(name.text, known, (), name.at)  # PADRES wants a value there, and ignores it
        if literal is None:
            raise FilterError(f"{operator} needs a value", _at(operator) + len(operator), ("a value",))
        if known in ("prefix", "suffix", "contains"):
            if not isinstance(literal.value, str):
                raise FilterError(f"{operator} needs a string", literal.at, ("a string",))
            return Test(name.text, known, (literal.value,), name.at)
        return _compare(name, known, literal)

    def negation(self, token: Token, part: Expression) -> Not:
        return Not(part, _at(token))

    def conjunction(self, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else And(parts, parts[0].at)

    def disjunction(self, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else Or(parts, parts[0].at)


def check_nesting(expression: Expression) -> None:
    """Everything that walks the tree later may recurse."""
    level = [expression]
    for _ in range(limits.NESTING):
        level = [part for node in level for part in _parts(node)]
        if not level:
            return
    raise FilterError(f"nested deeper than {limits.NESTING} (NESTING)", level[0].at)


def _parts(node: Expression) -> tuple[Expression, ...]:
    if isinstance(node, And | Or):
        return node.parts
    return (node.part,) if isinstance(node, Not) else ()


def _at(token: Token) -> int:
    return token.start_pos or 0


def _name(text: str, token: Token) -> Name:
    if not text:
        raise FilterError("an attribute's name is empty", _at(token))
    if len(text) > limits.NAME_CHARS:
        message = f"a name has {len(text)} characters, at most {limits.NAME_CHARS} (NAME_CHARS)"
        raise FilterError(message, _at(token))
    _encodable(text, token)
    return Name(text, _at(token))


def _string(text: str, token: Token) -> Literal:
    if len(text) > limits.STRING_CHARS:
        message = f"a string has {len(text)} characters, at most {limits.STRING_CHARS} (STRING_CHARS)"
        raise FilterError(message, _at(token))
    _encodable(text, token)
    return Literal(text, _at(token))


def _encodable(text: str, token: Token) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FilterError("half of a surrogate pair is not a character", _at(token)) from None


def _number(token: Token) -> int | float:
    if any(mark in token for mark in ".eE"):
        return float(token)
    # Longer than any 64-bit number: not worth converting.
    digits = token.lstrip("+-0")
    number = int(token) if len(digits) < 20 else limits.INT_MAX + 1
    if not limits.INT_MIN <= number <= limits.INT_MAX:
        raise FilterError("an integer must fit into 64 bits; with a decimal point it is a float", _at(token))
    return number


def _orderable(literal: Literal) -> None:
    if isinstance(literal.value, bool):
        raise FilterError("true and false have no order", literal.at, ("a number", "a string"))


def _compare(name: Name, operator: str, literal: Literal) -> Test:
    if operator not in ("=", "!="):
        _orderable(literal)
    return Test(name.text, operator, (literal.value,), name.at)


def _coordinates(latitude: Literal, longitude: Literal) -> None:
    if not -90 <= latitude.value <= 90:  # type: ignore[operator]
        raise FilterError("a latitude lies between -90 and 90", latitude.at)
    if not -180 <= longitude.value <= 180:  # type: ignore[operator]
        raise FilterError("a longitude lies between -180 and 180", longitude.at)
