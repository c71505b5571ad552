"""Topics over content filters: which topics a filter names, and where a topic lies on the ring.

What a publication's topic is stands in grapevine.filters.topics. A filter's topics are, for each of its
conjunctions, the product of what it says about each term. A term that a conjunction leaves open has no
finite set of topics, so the filter is refused: topic trees carry whole topics, what else the filter asks is
checked where it is delivered.

The rule that all the rest stands on: every publication that matches the filter lies in one of its topics.
Cells of a range may be too many (its open ends, a circle's bounding box), never too few: a value's cell
grows with the value, ints and floats alike, because both are rounded before they are divided.

A topic's key is a hash of its text. Two topics with one key would share a tree and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeAlias

from grapevine.filters import Filter, Op, Predicate, Value
from grapevine.filters.geo import circle_spans, is_position
from grapevine.filters.normal import Conjunction
from grapevine.filters.topics import (
    Refusal,
    Term,
    Topic,
    Unusable,
    cell_of,
    spelling,
    spelt,
    terms_of,
    topic_of,
)
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.digest import blake2b

__all__ = ["Refusal", "Term", "Topic", "TopicKeys", "Unusable", "key_of", "terms_of", "topic_of", "topics_of"]

Span: TypeAlias = tuple[int, int]  # cells, both ends included
EVERY_CELL: tuple[Span, ...] | None = None
TOPICS_CACHED = 65_536


def key_of(topic: Topic) -> int:
    """The topic's place on the ring."""
    return int.from_bytes(blake2b(b"topic" + topic.encode(), digest_size=8).digest(), "big")


def topics_of(filter: Filter, by: Sequence[Term], most: int) -> frozenset[Topic] | Refusal:
    """All topics in which a publication that matches may lie, `most` at most."""
    found: set[Topic] = set()
    for conjunction in filter.conjunctions:
        choices: list[list[Value]] = []
        count = 1
        for term in by:
            wanted = _choices(conjunction, term, most)
            if isinstance(wanted, Refusal):
                return wanted
            choices.append(wanted)
            count *= len(wanted)
        if count > most:
            return _too_many(by[0], most)
        found.update(map(spelt, product(*choices)))
        if len(found) > most:
            return _too_many(by[0], most)
    return frozenset(found)


def _choices(conjunction: Conjunction, term: Term, most: int) -> list[Value] | Refusal:
    about = [predicate for predicate in conjunction if _concerns(predicate, term.attribute)]
    listed = [_values(predicate) for predicate in about if predicate.op in (Op.EQ, Op.IN)]
    if term.step is None:
        if not listed:
            return _open(about, term)
        return [value for value in listed[0] if all(_holds(value, others) for others in listed[1:])]
    spans: tuple[Span, ...] | None = EVERY_CELL
    for predicate in about:
        spans = _both(spans, _spans(predicate, term))
    if listed:
        cells = [{cell_of(value, term.step) for value in values} for values in listed]
        alike = set.intersection(*cells) - {None}
        return sorted(cell for cell in alike if cell is not None and _inside(cell, spans))
    if spans is None:
        return _open(about, term)
    if sum(high - low + 1 for low, high in spans) > most:
        return _too_many(term, most)
    return [cell for low, high in spans for cell in range(low, high + 1)]


def _concerns(predicate: Predicate, attribute: str) -> bool:
    if predicate.attribute == attribute:
        return True
    operand: Any = predicate.operand
    return predicate.op == Op.IN_CIRCLE and operand[0] == attribute


def _values(predicate: Predicate) -> Iterable[Value]:
    operand: Any = predicate.operand
    return operand if predicate.op == Op.IN else (operand,)


def _holds(value: Value, others: Iterable[Value]) -> bool:
    return any(spelling(value) == spelling(other) for other in others)


def _spans(predicate: Predicate, term: Term) -> tuple[Span, ...] | None:
    """The cells that the predicate leaves; None: it says nothing that has two ends."""
    operand: Any = predicate.operand
    if predicate.op == Op.RANGE:
        low, high = operand[:2]
        if isinstance(low if high is None else high, str):
            return ()  # of strings: no number lies in it
        return None if low is None or high is None else _cells(((low, high),), term)
    if predicate.op != Op.IN_CIRCLE:
        return None
    name, latitude, longitude, km = operand
    if not is_position(latitude, longitude):
        return ()
    latitudes, longitudes = circle_spans(latitude, longitude, km)
    if predicate.attribute != term.attribute:
        return _cells(longitudes, term)
    spans = _cells((latitudes,), term)
    return _both(spans, _cells(longitudes, term)) if name == term.attribute else spans


def _cells(ranges: Iterable[tuple[float, float]], term: Term) -> tuple[Span, ...] | None:
    assert term.step is not None
    spans: list[Span] = []
    for low, high in ranges:
        first, last = cell_of(low, term.step), cell_of(high, term.step)
        if first is None or last is None:
            return None
        if spans and first <= spans[-1][1] and spans[-1][0] <= last:
            first, last = min(first, spans[-1][0]), max(last, spans[-1][1])
            spans.pop()
        spans.append((first, last))
    return tuple(spans)


def _both(one: tuple[Span, ...] | None, other: tuple[Span, ...] | None) -> tuple[Span, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    crossed = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((low, high) for low, high in crossed if low <= high)


def _inside(cell: int, spans: tuple[Span, ...] | None) -> bool:
    return spans is None or any(low <= cell <= high for low, high in spans)


SPELT = {
    int(Op.NE): "!=",
    int(Op.RANGE): "with a comparison",
    int(Op.PREFIX): "prefix",
    int(Op.SUFFIX): "suffix",
    int(Op.CONTAINS): "contains",
    int(Op.EXISTS): "exists",
    int(Op.ABSENT): "not exists",
}


def _open(about: Sequence[Predicate], term: Term) -> Refusal:
    name = term.attribute
    works = f"{name} = .. or {name} in (..)"
    if term.step is not None:
        works = f"{name} between .. and .., {works}"
    said = f"; `{name} {SPELT.get(about[0].op, 'not ..')}` alone does not" if about else ""
    return Refusal(f"this overlay routes by topic: each alternative must say {works}{said}", str(term))


def _too_many(term: Term, most: int) -> Refusal:
    return Refusal(
        f"this overlay routes by topic: the filter names more than {most} topics (topics.most); "
        f"ask for less of {term.attribute}",
        str(term),
    )


class TopicKeys:
    """The key of a publication's topic by its attributes' bytes; None: it has none."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._known: dict[bytes, int | None] = {}

    def __call__(self, attributes: bytes) -> int | None:
        if attributes in self._known:
            return self._known[attributes]
        found: Topic | Refusal
        try:
            found = topic_of(decode_attributes(attributes), self.terms)
        except WireError:
            found = Refusal("", "")
        key = None if isinstance(found, Refusal) else key_of(found)
        if len(self._known) >= TOPICS_CACHED:
            self._known.clear()
        self._known[attributes] = key
        return key
