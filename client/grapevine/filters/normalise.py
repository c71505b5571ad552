"""From expression to normal form: `not` to the leaves, then a disjunction of folded conjunctions.

Two texts that mean the same get the same form where that is cheap: conjunctions are folded, those that
another one implies literally are dropped, those that differ in one list of values become one, and all
is sorted. Bringing a normal form to normal form changes nothing.

`in` is an `or` of equalities and `between` an `and` of two comparisons, also under `not`. A box is its
ranges; a circle its ranges and IN_CIRCLE; only IN_CIRCLE is negated then, since no position outside
the ranges is inside the circle.

The work is bounded while it is done, not after: COMBINATIONS counts every conjunction that is folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from grapevine.errors import FilterError
from grapevine.filters import limits
from grapevine.filters.expression import And, Box, Constant, Expression, Not, Or, Test, Within
from grapevine.filters.folding import canonical, finite_values, fold, one_of
from grapevine.filters.geo import circle_spans, longitude_spans
from grapevine.filters.normal import Conjunction, Filter, Op, Predicate, Value, predicate_key

Disjunction: TypeAlias = list[Conjunction]
ConjunctionKey: TypeAlias = tuple[tuple[str, int, str], ...]

STRING_OPS = {
    "prefix": (Op.PREFIX, Op.NOT_PREFIX),
    "suffix": (Op.SUFFIX, Op.NOT_SUFFIX),
    "contains": (Op.CONTAINS, Op.NOT_CONTAINS),
    "exists": (Op.EXISTS, Op.ABSENT),
}
NEGATED_COMPARISON = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def normalise(expression: Expression) -> Filter:
    """The normal form, within the limits; else a FilterError at the part that is too large."""
    result = Filter(tuple(_Expansion().expand(expression, False)))
    if size(result) > limits.FILTER_SIZE:
        raise FilterError(f"the filter is too large: {size(result)} of {limits.FILTER_SIZE} (FILTER_SIZE)")
    return result


def size(filter: Filter) -> int:
    """What FILTER_SIZE limits: roughly the bytes of the form, never less than a quarter of its text."""
    return sum(_size(predicate) for conjunction in filter.conjunctions for predicate in conjunction)


def _size(predicate: Predicate) -> int:
    operand = predicate.operand
    own = limits.SEARCH_SIZE if predicate.op in (Op.CONTAINS, Op.NOT_CONTAINS) else limits.PREDICATE_SIZE
    values = operand if isinstance(operand, tuple) else (operand,)
    lengths = sum(len(value) + 4 if isinstance(value, str) else 8 for value in values)
    return own + len(predicate.attribute) + lengths


class _Expansion:
    """One filter on its way; knows how much work it took so far."""

    def __init__(self) -> None:
        self.combinations = 0

    def expand(self, node: Expression, negated: bool) -> Disjunction:
        if isinstance(node, Not):
            return self.expand(node.part, not negated)
        if isinstance(node, And | Or):
            parts = [self.expand(part, negated) for part in node.parts]
            if isinstance(node, And) != negated:
                return self._product(parts, node.at)
            return self._union(parts, node.at)
        if isinstance(node, Constant):
            return [()] if node.value != negated else []
        if isinstance(node, Within):
            return self._folded(_within(node, negated), node.at)
        return self._folded(_test(node, negated), node.at)

    def _folded(self, conjunctions: Iterable[Iterable[Predicate]], at: int) -> Disjunction:
        """Fold each, drop the contradictions, simplify the rest."""
        found: dict[ConjunctionKey, Conjunction] = {}
        for predicates in conjunctions:
            self.combinations += 1
            if self.combinations > limits.COMBINATIONS:
                raise FilterError(
                    f"the filter combines into more than {limits.COMBINATIONS} conjunctions (COMBINATIONS)",
                    at,
                )
            conjunction = fold(predicates)
            if conjunction is not None:
                _check_conjunction(conjunction, at)
                found[_key(conjunction)] = conjunction
        return _simplified(found, at)

    def _product(self, parts: list[Disjunction], at: int) -> Disjunction:
        # All single conjunctions fold at once; a plain chain of `and` costs one folding.
        fixed = [predicate for part in parts if len(part) == 1 for predicate in part[0]]
        _check_count("conditions joined by and", len(fixed), limits.JOINED, "JOINED", at)
        result = self._folded([fixed], at)
        for part in parts:
            if len(part) != 1:
                result = self._folded((left + right for left in result for right in part), at)
        return result

    def _union(self, parts: list[Disjunction], at: int) -> Disjunction:
        found = {_key(conjunction): conjunction for part in parts for conjunction in part}
        _check_count("conditions joined by or", len(found), limits.JOINED, "JOINED", at)
        return _simplified(found, at)


def _simplified(found: dict[ConjunctionKey, Conjunction], at: int) -> Disjunction:
    if len(found) > 1:
        before = 0
        while len(found) != before:
            before = len(found)
            found = _merged(found, at)
            _check_count("conjunctions", len(found), limits.CONJUNCTIONS, "CONJUNCTIONS", at)
            found = _unsubsumed(found)
    return [found[key] for key in sorted(found)]


def _merged(found: dict[ConjunctionKey, Conjunction], at: int) -> dict[ConjunctionKey, Conjunction]:
    """Conjunctions that differ only in the values listed for one attribute become one."""
    for attribute in sorted({name for key in found for name, op, _ in key if op == Op.EQ or op == Op.IN}):
        alike: dict[ConjunctionKey, list[Conjunction]] = {}
        result: dict[ConjunctionKey, Conjunction] = {}
        for key, conjunction in found.items():
            rest = tuple(one for one in key if one[0] != attribute or one[1] not in (Op.EQ, Op.IN))
            if len(rest) == len(key):
                result[key] = conjunction
            else:
                alike.setdefault(rest, []).append(conjunction)
        for group in alike.values():
            conjunction = group[0] if len(group) == 1 else _joined(attribute, group, at)
            result[_key(conjunction)] = conjunction
        found = result
    return found


def _joined(attribute: str, group: list[Conjunction], at: int) -> Conjunction:
    values: list[Value] = []
    others: list[Predicate] = []
    for conjunction in group:
        others = []
        for predicate in conjunction:
            if predicate.attribute == attribute and predicate.op in (Op.EQ, Op.IN):
                values += finite_values(predicate)
            else:
                others.append(predicate)
    conjunction = tuple(sorted([*others, *(one_of(attribute, values) or ())], key=predicate_key))
    _check_conjunction(conjunction, at)
    return conjunction


def _unsubsumed(found: dict[ConjunctionKey, Conjunction]) -> dict[ConjunctionKey, Conjunction]:
    """Without those that ask for all that another one asks for, and more."""
    sets = {key: frozenset(key) for key in found}
    return {
        key: conjunction
        for key, conjunction in found.items()
        if not any(other < sets[key] for other in sets.values())
    }


def _key(conjunction: Conjunction) -> ConjunctionKey:
    return tuple(map(predicate_key, conjunction))


def _check_conjunction(conjunction: Conjunction, at: int) -> None:
    _check_count("predicates in one conjunction", len(conjunction), limits.PREDICATES, "PREDICATES", at)
    for predicate in conjunction:
        if predicate.op == Op.IN:
            count = len(finite_values(predicate))
            _check_count(f"values for {predicate.attribute}", count, limits.IN_VALUES, "IN_VALUES", at)


def _check_count(what: str, count: int, limit: int, name: str, at: int) -> None:
    if count > limit:
        raise FilterError(f"too many {what}: {count}, at most {limit} ({name})", at)


def _test(test: Test, negated: bool) -> list[list[Predicate]]:
    name, operator = test.attribute, test.operator
    operands = [canonical(value) for value in test.operands]
    if operator in STRING_OPS:
        return [[Predicate(name, STRING_OPS[operator][negated], *operands)]]
    if operator == "in":
        if negated:
            return [[Predicate(name, Op.NE, value) for value in operands]]
        return [one_of(name, operands) or []]
    if operator == "between":
        low, high = operands
        if negated:
            return [[_compare(name, "<", low)], [_compare(name, ">", high)]]
        return [[_compare(name, ">=", low), _compare(name, "<=", high)]]
    return [[_compare(name, NEGATED_COMPARISON[operator] if negated else operator, operands[0])]]


def _compare(name: str, operator: str, value: Value) -> Predicate:
    if operator == "=":
        return Predicate(name, Op.EQ, value)
    if operator == "!=":
        return Predicate(name, Op.NE, value)
    operand: Any = (None, value, False, operator == "<")
    if operator.startswith(">"):
        operand = (value, None, operator == ">", False)
    return Predicate(name, Op.RANGE, operand)


def _span(name: str, low: float, high: float) -> Predicate:
    return Predicate(name, Op.RANGE, (canonical(low), canonical(high), False, False))


def _within(within: Within, negated: bool) -> list[list[Predicate]]:
    shape = within.shape
    if isinstance(shape, Box):
        return _outside_box(within, shape) if negated else _inside_box(within, shape)
    centre = (canonical(shape.latitude), canonical(shape.longitude), canonical(shape.km))
    operand = (within.longitude, *centre)
    if negated:
        return [[Predicate(within.latitude, Op.NOT_IN_CIRCLE, operand)]]
    check = Predicate(within.latitude, Op.IN_CIRCLE, operand)
    latitudes, longitudes = circle_spans(shape.latitude, shape.longitude, shape.km)
    return [
        [_span(within.latitude, *latitudes), _span(within.longitude, *span), check] for span in longitudes
    ]


def _inside_box(within: Within, box: Box) -> list[list[Predicate]]:
    latitudes = _span(within.latitude, box.south, box.north)
    spans = longitude_spans(box.west, box.east)
    return [[latitudes, _span(within.longitude, *span)] for span in spans]


def _outside_box(within: Within, box: Box) -> list[list[Predicate]]:
    west, east = canonical(box.west), canonical(box.east)
    beyond = [
        [_compare(within.latitude, "<", canonical(box.south))],
        [_compare(within.latitude, ">", canonical(box.north))],
    ]
    left, right = _compare(within.longitude, "<", west), _compare(within.longitude, ">", east)
    if box.west <= box.east:
        return [*beyond, [left], [right]]
    nowhere = [[_compare(within.longitude, "<", -180)], [_compare(within.longitude, ">", 180)]]
    return [*beyond, [left, right], *nowhere]
