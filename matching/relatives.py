"""Covering, covered and overlapping subscriptions: the index leaves few, `relations` decides about each.

What is left out must be decided by `relations` in the same way, so the sets equal those of a scan:
* an equality is implied by the same equality alone (an `in` by a subset), so a covering row is filed under
  a key that the given conjunction has;
* a covered row that is filed under an attribute the given conjunction asks about has a value it accepts;
* an overlapping row has no predicate that excludes one of the given conjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from grapevine.filters.evaluate import accepts
from grapevine.filters.normal import Conjunction, Filter, Op, Predicate, Value
from matching.group import Group
from matching.keys import Access, Keys
from matching.profile import Profile
from matching.relations import covers, overlaps
from matching.row import SOLE, Row, Split

Directories = tuple[Keys, ...]

_CIRCLES = (Op.IN_CIRCLE, Op.NOT_IN_CIRCLE)


def covering(directories: Directories, sids: Iterable[int], filter: Filter) -> list[int]:
    """Sids known to match whatever `filter` matches."""
    if not filter.conjunctions:
        return sorted(sids)
    found = _Found(lambda row: covers(row.filter, filter))
    first = filter.conjunctions[0]  # whoever covers the filter covers this
    profile = Profile(first)
    for group in _implied_groups(directories, first):
        decided, undecided = _ask(group, "covering", profile)
        if len(filter.conjunctions) == 1:
            found.take(decided)
        else:
            found.decide(decided)
        found.decide(undecided)
    return found.sids()


class _Found:
    """Sids and whether they are an answer; each filter is looked at once."""

    def __init__(self, decide: Callable[[Row], bool]) -> None:
        self._decide = decide
        self._answers: dict[int, bool] = {}

    def take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._answers[row.sid] = True

    def decide(self, rows: Iterable[Row]) -> None:
        answers = self._answers
        for row in rows:
            if row.sid not in answers:
                answers[row.sid] = self._decide(row)

    def sids(self) -> list[int]:
        return sorted(sid for sid, answer in self._answers.items() if answer)


def _ask(group: Group, question: str, profile: Profile) -> Split:
    if group.store is None:
        return [], group.rows or []
    answer: Split = getattr(group.store, question)(profile)
    return answer


def _implied_groups(directories: Directories, conjunction: Conjunction) -> Iterator[Group]:
    for keys in directories:
        yield keys.always
        for name in dict.fromkeys(predicate.attribute for predicate in conjunction):
            access = keys.accesses.get(name)
            if access is not None and access.filed:
                yield from _implied_values(access, [p for p in conjunction if p.attribute == name])


def _implied_values(access: Access, predicates: list[Predicate]) -> Iterator[Group]:
    if access.presence is not None:
        yield access.presence
    for predicate in predicates:
        if predicate.op in (Op.EQ, Op.IN):
            value = predicate.operand if predicate.op == Op.EQ else predicate.operand[0]  # type: ignore[index]
            if value in access.values:
                yield access.values[value]


def covered(directories: Directories, nothing: Iterable[int], filter: Filter) -> list[int]:
    """Sids known to match nothing that `filter` does not; `nothing` has those that match nothing at all."""
    found = _Found(lambda row: covers(filter, row.filter))
    for conjunction in filter.conjunctions:
        profile = Profile(conjunction)
        for group in _accepted_groups(directories, conjunction):
            decided, undecided = _ask(group, "covered", profile)
            found.take(row for row in decided if row.which == SOLE)
            found.decide(row for row in decided if row.which == 0)
            found.decide(row for row in undecided if row.which <= 0)
    return sorted([*found.sids(), *nothing])


def overlapping(directories: Directories, filter: Filter) -> list[int]:
    """Sids that may match something `filter` matches."""
    found = _Found(lambda row: overlaps(row.filter, filter))
    for conjunction in filter.conjunctions:
        profile = Profile(conjunction)
        for group in _accepted_groups(directories, conjunction):
            decided, undecided = _ask(group, "overlapping", profile)
            found.take(decided)
            found.decide(undecided)
    return found.sids()


def _accepted_groups(directories: Directories, conjunction: Conjunction) -> Iterator[Group]:
    """Groups whose key the conjunction does not rule out."""
    asked: dict[str, list[Predicate]] = {}
    for predicate in conjunction:
        asked.setdefault(predicate.attribute, []).append(predicate)
    for keys in directories:
        yield keys.always
        for name, access in keys.accesses.items():
            if access.filed:
                if access.presence is not None:
                    yield access.presence
                yield from _accepted_values(access, asked.get(name, []))


def _accepted_values(access: Access, predicates: list[Predicate]) -> Iterator[Group]:
    """The values of an attribute that every predicate about it accepts; a circle is not asked."""
    plain = [p for p in predicates if p.op not in _CIRCLES]
    for predicate in plain:
        if predicate.op in (Op.EQ, Op.IN):
            values: tuple[Value, ...] = predicate.operand if predicate.op == Op.IN else (predicate.operand,)  # type: ignore[assignment]
            yield from (access.values[value] for value in dict.fromkeys(values) if value in access.values)
            return
    for value, group in access.values.items():
        if (value == 0 or value == 1) or all(accepts(p.op, p.operand, value) for p in plain):
            yield group
