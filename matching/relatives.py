"""Covering, covered and overlapping subscriptions: the index leaves few, `relations` decides about each.

What is left out must be decided by `relations` in the same way, so the sets equal those of a scan:
* an equality is implied by the same equality alone (an `in` by a subset), so a covering row is filed under
  a key that the given conjunction has;
* a covered row that is filed under an attribute the given conjunction asks about has a value it accepts;
* an overlapping row has no predicate that excludes one of the given conjunction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grapevine.filters.evaluate import accepts
from grapevine.filters.normal import Conjunction, Filter, Op, Predicate, Value
from matching.group import Group
from matching.keys import Access, Keys
from matching.profile import Profile
from matching.relations import covers, overlaps

_CIRCLES = (Op.IN_CIRCLE, Op.NOT_IN_CIRCLE)


def covering(keys: Keys, sids: Iterable[int], filter: Filter) -> list[int]:
    """Sids known to match whatever `filter` matches."""
    if not filter.conjunctions:
        return sorted(sids)
    first = filter.conjunctions[0]  # whoever covers the filter covers this
    profile = Profile(first)
    found: dict[int, bool] = {}
    for group in _implied_groups(keys, first):
        rows = group.store.covering(profile) if group.store is not None else group.rows or ()
        for row in rows:
            if row.sid not in found:
                found[row.sid] = covers(row.filter, filter)
    return sorted(sid for sid, decided in found.items() if decided)


def _implied_groups(keys: Keys, conjunction: Conjunction) -> Iterator[Group]:
    yield keys.always
    for name in dict.fromkeys(predicate.attribute for predicate in conjunction):
        access = keys.accesses.get(name)
        if access is None or not access.filed:
            continue
        if access.presence is not None:
            yield access.presence
        for predicate in conjunction:
            if predicate.attribute == name and predicate.op in (Op.EQ, Op.IN):
                value = predicate.operand if predicate.op == Op.EQ else predicate.operand[0]  # type: ignore[index]
                if value in access.values:
                    yield access.values[value]  # type: ignore[index]


def covered(keys: Keys, nothing: Iterable[int], filter: Filter) -> list[int]:
    """Sids known to match nothing that `filter` does not; `nothing` has those that match nothing at all."""
    found = dict.fromkeys(nothing, True)
    for conjunction in filter.conjunctions:
        profile = Profile(conjunction)
        for group in _accepted_groups(keys, conjunction):
            for row in group.store.covered(profile) if group.store is not None else group.rows or ():
                if row.which == 0 and row.sid not in found:
                    found[row.sid] = covers(filter, row.filter)
    return sorted(sid for sid, decided in found.items() if decided)


def overlapping(keys: Keys, filter: Filter) -> list[int]:
    """Sids that may match something `filter` matches."""
    found: dict[int, bool] = {}
    for conjunction in filter.conjunctions:
        profile = Profile(conjunction)
        for group in _accepted_groups(keys, conjunction):
            for row in group.store.overlapping(profile) if group.store is not None else group.rows or ():
                if not found.get(row.sid, False):
                    found[row.sid] = overlaps(row.filter, filter)
    return sorted(sid for sid, decided in found.items() if decided)


def _accepted_groups(keys: Keys, conjunction: Conjunction) -> Iterator[Group]:
    """Groups whose key the conjunction does not rule out."""
    asked: dict[str, list[Predicate]] = {}
    for predicate in conjunction:
        asked.setdefault(predicate.attribute, []).append(predicate)
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
