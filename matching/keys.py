"""Under what a conjunction is filed, chosen from what was seen so far.

* Under an equality if it has one: the one that the fewest conjunctions share. `in` counts as one equality
  for each of its values.
* Otherwise under an attribute that must be there: a rare one, if one is much rarer than the others; among
  common ones the one that most rows are filed under, so that rows which look alike lie together.
* Otherwise (nothing, or only `not exists`) with the rows that every publication looks at.
Only an attribute with a single predicate can be a key, so that the key says all about it.
"""

from __future__ import annotations

from collections.abc import Iterator

from grapevine.filters.normal import Conjunction, Op, Predicate, Value
from matching.group import Group, settled
from matching.interface import Attributes
from matching.row import Key

IN_KEYS = 16  # longer lists are looked at one by one
_RARE = 8  # so many times fewer conjunctions ask for a rare attribute
_ENOUGH = 64  # conjunctions seen before one is called rare
_EQ, _IN, _ABSENT = int(Op.EQ), int(Op.IN), int(Op.ABSENT)


class Access:
    """The groups of one attribute."""

    __slots__ = ("filed", "key", "mentions", "presence", "values")

    def __init__(self, attribute: str) -> None:
        self.key: tuple[str] = (attribute,)
        self.values: dict[Value, Group] = {}  # True and 1 are one key: see `settled`
        self.presence: Group | None = None
        self.mentions = 0  # conjunctions that ask for this attribute
        self.filed = 0  # rows filed under it


class Keys:
    """The directory from attributes and values to groups."""

    __slots__ = ("_used", "accesses", "always")

    def __init__(self) -> None:
        self.accesses: dict[str, Access] = {}
        self._used: dict[str, Access] = {}  # those with rows
        self.always = Group(())

    def note(self, conjunction: Conjunction) -> list[Key]:
        """Count a conjunction and choose its keys."""
        equal = False
        asked: list[Access] = []
        for predicate in conjunction:
            access = self.accesses.get(predicate.attribute)
            if access is None:
                access = self.accesses[predicate.attribute] = Access(predicate.attribute)
            access.mentions += 1
            op = predicate.op
            if op != _EQ and op != _IN:
                if op != _ABSENT:
                    asked.append(access)
                continue
            equal = True
            for value in _values(predicate):
                group = access.values.get(value)
                if group is None:
                    group = access.values[value] = Group((predicate.attribute, value))
                group.wanted += 1
        return self.choose(conjunction) if equal else [_presence(asked)]

    def forget(self, conjunction: Conjunction) -> None:
        """Undo the counting of `note`; after its rows have gone."""
        for predicate in conjunction:
            access = self.accesses[predicate.attribute]
            access.mentions -= 1
            for value in _values(predicate):
                group = access.values[value]
                group.wanted -= 1
                if not group.wanted:
                    del access.values[value]
            if not access.mentions:
                del self.accesses[predicate.attribute]

    def choose(self, conjunction: Conjunction) -> list[Key]:
        best: Group | None = None
        name, least, spread = "", 0, 0
        for predicate in conjunction:  # as `_choose` does, for what most filters are
            if predicate.op == _IN:
                return self._choose(conjunction)
            if predicate.op == _EQ:
                values = self.accesses[predicate.attribute].values
                group = values[predicate.operand]  # type: ignore[index]
                if best is None or (group.wanted, -len(values)) < (least, spread):
                    best, name, least, spread = group, predicate.attribute, group.wanted, -len(values)
        if best is None or [p.attribute for p in conjunction].count(name) > 1:
            return self._choose(conjunction)
        return [best.key]

    def _choose(self, conjunction: Conjunction) -> list[Key]:
        attributes = [predicate.attribute for predicate in conjunction]
        equal = [p for p in conjunction if _values(p) and attributes.count(p.attribute) == 1]
        if not equal:
            return [_presence([self.accesses[p.attribute] for p in conjunction if p.op != _ABSENT])]
        best = min(equal, key=self._crowd) if len(equal) > 1 else equal[0]
        groups = self.accesses[best.attribute].values
        return list(dict.fromkeys(groups[value].key for value in _values(best)))  # True and 1 may be two

    def _crowd(self, predicate: Predicate) -> tuple[int, int]:
        """How many conjunctions share an equality; of two alike, the attribute with more values wins."""
        access, values = self.accesses[predicate.attribute], _values(predicate)
        return sum(access.values[value].wanted for value in values), -len(access.values)

    def group(self, key: Key) -> Group:
        if not key:
            return self.always
        access = self.accesses[key[0]]
        if len(key) == 2:
            return access.values[key[1]]
        if access.presence is None:
            access.presence = Group(key)
        return access.presence

    def count(self, key: Key, change: int) -> None:
        """A row was filed under a key (1) or left it (-1)."""
        if key:
            access = self.accesses[key[0]]
            access.filed += change
            if change > 0:
                self._used[key[0]] = access
                return
            if access.presence is not None and not len(access.presence):
                access.presence = None
            if not access.filed:
                del self._used[key[0]]

    def asked(self, attributes: Attributes) -> list[Group]:
        """The groups with rows whose key a publication has."""
        found = [self.always] if self.always.rows or self.always.store is not None else []
        used = self._used
        for name in used if len(used) < len(attributes) else attributes:
            if name not in used or name not in attributes:
                continue
            access = used[name]
            if access.presence is not None:
                found.append(access.presence)
            if access.values:
                group = access.values.get(attributes[name])
                if group is not None and (group.rows or group.store is not None):
                    found.append(group)
        return found

    def groups(self) -> Iterator[Group]:
        """Every group with rows, in an order that depends on the history alone."""
        if len(self.always):
            yield self.always
        for access in self._used.values():
            if access.presence is not None:
                yield access.presence
            yield from (group for group in access.values.values() if len(group))


def _presence(asked: list[Access]) -> Key:
    """One of the attributes that must be there, if any must."""
    if not asked:
        return ()
    least = most = fullest = asked[0]
    for access in asked:
        if access.mentions < least.mentions:
            least = access
        elif access.mentions > most.mentions:
            most = access
        if access.filed > fullest.filed:
            fullest = access
    if most.mentions >= _ENOUGH and least.mentions * _RARE < most.mentions:
        return least.key
    return fullest.key


def rest(conjunction: Conjunction, key: Key) -> tuple[Predicate, ...]:
    """What is left to check of a row under its key."""
    name = settled(key)
    return conjunction if name is None else tuple(p for p in conjunction if p.attribute != name)


def _values(predicate: Predicate) -> tuple[Value, ...]:
    if predicate.op == _EQ:
        return (predicate.operand,)  # type: ignore[return-value]
    if predicate.op == _IN and len(predicate.operand) <= IN_KEYS:  # type: ignore[arg-type]
        return predicate.operand  # type: ignore[return-value]
    return ()
