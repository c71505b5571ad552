"""What two normal forms say about each other without looking at a publication.

`covers(a, b)` is True only if whatever b matches a matches too; `overlaps(a, b)` is False only if no
publication matches both. Both decide predicate by predicate about the same attribute, so they are
sound for every operator and complete for none: an undecided pair is "not covered" and "overlaps".

* A conjunction is implied by another if each of its predicates is implied by one of the other's.
* Two conjunctions exclude each other if two of their predicates about one attribute do.
* A circle is implied by its equal alone.
"""

from __future__ import annotations

from grapevine.filters.evaluate import accepts
from grapevine.filters.normal import Conjunction, Filter, Op, Predicate, Value, value_type

Bounds = tuple[Value | None, Value | None, bool, bool]

_CIRCLES = (Op.IN_CIRCLE, Op.NOT_IN_CIRCLE)
_OPPOSITE = {
    Op.PREFIX: Op.NOT_PREFIX,
    Op.SUFFIX: Op.NOT_SUFFIX,
    Op.CONTAINS: Op.NOT_CONTAINS,
    Op.NOT_PREFIX: Op.PREFIX,
    Op.NOT_SUFFIX: Op.SUFFIX,
    Op.NOT_CONTAINS: Op.CONTAINS,
    Op.IN_CIRCLE: Op.NOT_IN_CIRCLE,
    Op.NOT_IN_CIRCLE: Op.IN_CIRCLE,
}
_LAST_CHAR = "\U0010ffff"


def covers(a: Filter, b: Filter) -> bool:
    """Whether a is known to match whatever b matches."""
    return all(any(conjunction_implies(cb, ca) for ca in a.conjunctions) for cb in b.conjunctions)


def overlaps(a: Filter, b: Filter) -> bool:
    """Whether something may match both."""
    return any(not conjunctions_exclude(ca, cb) for ca in a.conjunctions for cb in b.conjunctions)


def conjunction_implies(cb: Conjunction, ca: Conjunction) -> bool:
    """Whether whatever satisfies cb is known to satisfy ca."""
    return all(any(p.attribute == q.attribute and implies(p, q) for p in cb) for q in ca)


def conjunctions_exclude(ca: Conjunction, cb: Conjunction) -> bool:
    return any(p.attribute == q.attribute and excludes(p, q) for p in ca for q in cb)


def implies(p: Predicate, q: Predicate) -> bool:
    """Whether q is known to be true where p is; both about the same attribute."""
    if p.op == q.op and p.operand == q.operand and _same_types(p, q):
        return True
    if p.op == Op.ABSENT or q.op == Op.ABSENT or q.op in _CIRCLES:
        return False
    if q.op == Op.EXISTS:
        return True
    if p.op == Op.EXISTS or p.op in _CIRCLES:
        return False
    if p.op == Op.EQ:
        return accepts(q.op, q.operand, p.operand)  # type: ignore[arg-type]
    if p.op == Op.IN:
        return all(accepts(q.op, q.operand, one) for one in p.operand)  # type: ignore[union-attr, arg-type]
    if _operand_type(p) is not _operand_type(q):
        return False
    if q.op == Op.NE:
        return not accepts(p.op, p.operand, q.operand)  # type: ignore[arg-type]
    if q.op in (Op.RANGE, Op.PREFIX, Op.NOT_PREFIX) and p.op in (Op.RANGE, Op.PREFIX):
        return _region_implies(p, q)
    return _operand_type(p) is str and p.op != Op.RANGE and _string_implies(p, q)


def excludes(p: Predicate, q: Predicate) -> bool:
    """Whether p and q are known never to be true together; both about the same attribute."""
    if p.op == Op.ABSENT or q.op == Op.ABSENT:
        return p.op != q.op
    if p.op == Op.EXISTS or q.op == Op.EXISTS:
        return False
    if p.op in (Op.EQ, Op.IN) or q.op in (Op.EQ, Op.IN):
        return _values_exclude(p, q)
    if _operand_type(p) is not _operand_type(q):
        return True
    opposite = _OPPOSITE.get(q.op)  # type: ignore[call-overload]
    if opposite is not None and implies(p, Predicate(q.attribute, opposite, q.operand)):
        return True
    opposite = _OPPOSITE.get(p.op)  # type: ignore[call-overload]
    if opposite is not None and implies(q, Predicate(p.attribute, opposite, p.operand)):
        return True
    if p.op in (Op.RANGE, Op.PREFIX) and q.op in (Op.RANGE, Op.PREFIX):
        return apart(region(p), region(q))
    return p.op == Op.SUFFIX and q.op == Op.SUFFIX and not _nested_suffix(p, q)


def region(predicate: Predicate) -> Bounds:
    """The interval a RANGE or PREFIX stands for; strings order by code point."""
    if predicate.op == Op.RANGE:
        return predicate.operand  # type: ignore[return-value]
    start: str = predicate.operand  # type: ignore[assignment]
    return start, after_prefix(start), False, True


def after_prefix(start: str) -> str | None:
    """The least string above all that begin with `start`, None if there is none."""
    start = start.rstrip(_LAST_CHAR)
    return start[:-1] + chr(ord(start[-1]) + 1) if start else None


def inside(inner: Bounds, outer: Bounds) -> bool:
    low, high, low_open, high_open = outer
    in_low, in_high, in_low_open, in_high_open = inner
    if low is not None:
        if in_low is None or in_low < low or (in_low == low and low_open and not in_low_open):  # type: ignore[operator]
            return False
    if high is None:
        return True
    return not (
        in_high is None or in_high > high or (in_high == high and high_open and not in_high_open)  # type: ignore[operator]
    )


def apart(one: Bounds, other: Bounds) -> bool:
    return _below(one, other) or _below(other, one)


def _below(one: Bounds, other: Bounds) -> bool:
    high, low = one[1], other[0]
    if high is None or low is None:
        return False
    return high < low or (high == low and (one[3] or other[2]))  # type: ignore[operator]


def _region_implies(p: Predicate, q: Predicate) -> bool:
    if q.op == Op.NOT_PREFIX:
        return apart(region(p), region(Predicate(q.attribute, Op.PREFIX, q.operand)))
    return inside(region(p), region(q))


def _string_implies(p: Predicate, q: Predicate) -> bool:
    """For two predicates out of PREFIX, SUFFIX, CONTAINS and their negations (NE implies nothing here)."""
    if p.op == Op.NE or q.op == Op.RANGE:
        return False
    s: str = p.operand  # type: ignore[assignment]
    t: str = q.operand  # type: ignore[assignment]
    match p.op, q.op:
        case (Op.SUFFIX, Op.SUFFIX):
            return s.endswith(t)
        case (Op.SUFFIX, Op.NOT_SUFFIX):
            return not (s.endswith(t) or t.endswith(s))
        case (Op.PREFIX | Op.SUFFIX | Op.CONTAINS, Op.CONTAINS):
            return t in s
        case (Op.NOT_PREFIX, Op.NOT_PREFIX):
            return t.startswith(s)
        case (Op.NOT_SUFFIX, Op.NOT_SUFFIX):
            return t.endswith(s)
        case (Op.NOT_CONTAINS, Op.NOT_CONTAINS | Op.NOT_PREFIX | Op.NOT_SUFFIX):
            return s in t
    return False


def _values_exclude(p: Predicate, q: Predicate) -> bool:
    if p.op not in (Op.EQ, Op.IN):
        p, q = q, p
    if q.op in _CIRCLES:
        return False
    values = p.operand if p.op == Op.IN else (p.operand,)
    return not any(accepts(q.op, q.operand, one) for one in values)  # type: ignore[union-attr, arg-type]


def _nested_suffix(p: Predicate, q: Predicate) -> bool:
    s: str = p.operand  # type: ignore[assignment]
    t: str = q.operand  # type: ignore[assignment]
    return s.endswith(t) or t.endswith(s)


def _operand_type(predicate: Predicate) -> type[bool] | type[float] | type[str]:
    """The type of value that satisfies a predicate other than EQ, IN, EXISTS and ABSENT."""
    if predicate.op in _CIRCLES:
        return float
    operand = predicate.operand
    if predicate.op == Op.RANGE:
        low, high, _, _ = region(predicate)
        operand = high if low is None else low
    return value_type(operand)  # type: ignore[arg-type]


def _same_types(p: Predicate, q: Predicate) -> bool:
    """`1 == True` in Python, never in the language; tuples of one language type agree element by element."""
    if p.op == Op.IN:
        return [value_type(one) for one in p.operand] == [value_type(one) for one in q.operand]  # type: ignore[union-attr, arg-type]
    if p.op in (Op.EQ, Op.NE):
        return value_type(p.operand) is value_type(q.operand)  # type: ignore[arg-type]
    return True
