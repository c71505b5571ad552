"""Topics: what a publication is about, where an overlay routes by that (docs/dynatops.md).

`[topics] by` is a list of terms. A term is an attribute, or `attribute/step`: a number cut into cells of this
width. A publication's topic is the tuple of its terms.

A topic is a text, the values as the filter language spells them: 1 and 1.0 are one topic, 1 and true are two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from grapevine.filters.normal import Value

Topic: TypeAlias = str


class Term(NamedTuple):
    attribute: str
    step: float | None = None  # width of a cell

    def __str__(self) -> str:
        return self.attribute if self.step is None else f"{self.attribute}/{self.step:g}"


class Refusal(NamedTuple):
    """Why a filter or a publication has no topic here; `attribute` is the term's."""

    text: str
    attribute: str


class Unusable(ValueError):
    """A list of terms that no publication could be sorted by."""


def terms_of(by: Sequence[str]) -> tuple[Term, ...]:
    """`lat/0.5` is cells of half a degree; a slash before anything but a number belongs to the name."""
    terms = tuple(_term(text) for text in by)
    if not terms:
        raise Unusable("topics.by names no attribute: say for example ['topic']")
    for term in terms:
        if not term.attribute or (term.step is not None and not 0 < term.step < math.inf):
            raise Unusable(f"topics.by: {term} is no attribute, and no attribute/width with a width above 0")
    if len({term.attribute for term in terms}) < len(terms):
        raise Unusable("topics.by names an attribute twice")
    return terms


def _term(text: str) -> Term:
    attribute, slash, step = text.rpartition("/")
    try:
        return Term(attribute, float(step)) if slash else Term(text)
    except ValueError:
        return Term(text)


def topic_of(attributes: Mapping[str, Value], by: Sequence[Term]) -> Topic | Refusal:
    """A publication's topic."""
    values: list[Value] = []
    for term in by:
        value = attributes.get(term.attribute)
        if value is None:
            return Refusal(f"{_made_of(by)}: the attribute {term.attribute} is missing", str(term))
        if term.step is not None:
            value = cell_of(value, term.step)
            if value is None:
                return Refusal(f"{_made_of(by)}: {term.attribute} must be a finite number", str(term))
        values.append(value)
    return spelt(values)


def _made_of(by: Sequence[Term]) -> str:
    return f"this overlay routes by topic, which is made of {', '.join(map(str, by))}"


def cell_of(value: Value, step: float) -> int | None:
    """None where there is none: another type, infinite, or too large to be told from its neighbours."""
    if isinstance(value, bool | str):
        return None
    cell = float(value) / step
    return math.floor(cell) if math.isfinite(cell) else None


def spelt(values: Iterable[Value]) -> Topic:
    return ", ".join(map(spelling, values))


def spelling(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)
