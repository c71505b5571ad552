"""The index: which subscriptions, which groups, which labels a publication matches, without asking them all.

Every conjunction is a row filed under a key (`keys`), a publication looks up its own attributes and values
and asks only the groups it finds there. Results are those of `scan.Scan`, in time that grows with the
matches and, slowly, with the subscriptions; see docs/matching.md. Labels are unique within a group.

Filters with several conjunctions may match twice. They have keys of their own, so that what they find is
made distinct and what all the others find need not be.
"""

from __future__ import annotations

from typing import Any

from grapevine.filters.normal import Filter, Op
from matching.check import satisfied
from matching.explain import Explanation, explain
from matching.group import Group, Store
from matching.interface import Attributes
from matching.keys import Keys, rest
from matching.labels import LABEL_MASK, by_group
from matching.relatives import covered, covering, overlapping
from matching.row import SOLE, Row
from matching.statistics import Statistics, statistics

_SHARE = 32  # units of work for one group before another has its turn


class Index:
    __slots__ = ("_keys", "_members", "_multiple", "_nothing", "_rows", "_several", "_upkeep")

    def __init__(self) -> None:
        self._rows: dict[int, Row | tuple[Row, ...]] = {}  # by sid; a tuple unless there is one row
        self._keys = Keys()
        self._several = Keys()  # of filters with several conjunctions
        self._members: dict[int, int] = {}  # group -> subscriptions
        self._multiple = 0  # filters with several conjunctions
        self._nothing: dict[int, None] = {}  # sids of filters without a conjunction
        self._upkeep: dict[Group, None] = {}  # with deferred work

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, sid: int) -> bool:
        return sid in self._rows

    # Changing

    def add(self, sid: int, filter: Filter, group: int, label: int | None = None) -> None:
        assert sid not in self._rows, f"subscription {sid} is already in this index"
        if label is None:
            label = sid if 0 <= sid <= LABEL_MASK else sid & LABEL_MASK
        rows: list[Row] = []
        directory = self._directory(filter)
        for which, conjunction in enumerate(filter.conjunctions):
            keys = directory.note(conjunction)
            if len(keys) == len(filter.conjunctions) == 1:
                which = SOLE
            for key in keys:
                row = Row(sid, group, label, filter, which, key, rest(conjunction, key))
                self._file(directory, row)
                rows.append(row)
        self._rows[sid] = rows[0] if len(rows) == 1 else tuple(rows)
        if rows:
            self._members[group] = self._members.get(group, 0) + 1
        else:
            self._nothing[sid] = None
        if len(filter.conjunctions) > 1:
            self._multiple += 1

    def remove(self, sid: int) -> None:
        rows = _tuple(self._rows.pop(sid))
        if rows:
            filter = rows[0].filter
            directory = self._directory(filter)
            for row in rows:
                group = directory.group(row.key)
                group.remove(row)
                directory.count(row.key, -1)
                self._note_upkeep(group)
            for conjunction in filter.conjunctions:
                directory.forget(conjunction)
            self._multiple -= len(filter.conjunctions) > 1
            self._leave(rows[0].group)
        else:
            del self._nothing[sid]

    def _directory(self, filter: Filter) -> Keys:
        return self._several if len(filter.conjunctions) > 1 else self._keys

    def _leave(self, group: int) -> None:
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]

    def _file(self, directory: Keys, row: Row) -> None:
        group = directory.group(row.key)
        group.add(row)
        directory.count(row.key, 1)
        if group.crowded:
            self._relieve(directory, group)
        self._note_upkeep(group)

    def _relieve(self, directory: Keys, group: Group) -> None:
        """Rows filed when little was known may have a better key by now; what stays gets a store."""
        for row in list(group):
            conjunction = row.conjunction
            keys = directory.choose(conjunction)
            if len(keys) == 1 and keys[0] != row.key and not _is_listed(row):
                group.remove(row)
                directory.count(row.key, -1)
                row.key, row.rest = keys[0], rest(conjunction, keys[0])
                self._file(directory, row)
        if group.crowded:
            group.promote()

    def _note_upkeep(self, group: Group) -> None:
        if group.store is not None and group.store.pending:
            self._upkeep[group] = None
        elif self._upkeep:
            self._upkeep.pop(group, None)

    def work(self, budget: int) -> bool:
        """Do about `budget` units (a row moved each) of deferred upkeep at most; True while some is left."""
        while self._upkeep and budget > 0:
            group = next(iter(self._upkeep))
            if group.store is None or not group.store.work(min(budget, _SHARE)):
                del self._upkeep[group]
            budget -= _SHARE
        return bool(self._upkeep)

    # Matching

    def match(self, attributes: Attributes) -> list[int]:
        found: list[int] = []
        for group in self._keys.asked(attributes):
            if group.store is None:
                found += [row.sid for row in group.rows or () if satisfied(row.rest, attributes)]
            elif found:
                found += group.store.sids(attributes)
            else:
                found = group.store.sids(attributes)
        if self._multiple:
            found += {sid for group in self._several.asked(attributes) for sid in group.sids(attributes)}
        return found

    def groups(self, attributes: Attributes) -> list[int]:
        found: set[int] = set()
        asked = self._keys.asked(attributes)
        if self._multiple:
            asked += self._several.asked(attributes)
        for group in asked:
            if group.store is not None:
                group.store.anchors(attributes, found)
            elif group.rows:
                for row in group.rows:
                    if row.group not in found and satisfied(row.rest, attributes):
                        found.add(row.group)
        return sorted(found)

    def deliveries(self, attributes: Attributes) -> list[tuple[int, bytes]]:
        rows: list[Row] = []
        parts = []
        store = None
        for group in self._keys.asked(attributes):
            if group.store is not None:
                store = group.store
                parts.append(store.labels(attributes))
            elif group.rows:
                rows += [row for row in group.rows if satisfied(row.rest, attributes)]
        if self._multiple:
            other = self._deliver_several(attributes, parts, rows)
            store = other if store is None else store
        if store is None:
            return by_group([(row.group, row.label) for row in rows]) if rows else []
        if len(self._members) == 1 and not rows and len(parts) == 1:
            labels = parts[0][1].tobytes()
            return [(next(iter(self._members)), labels)] if labels else []
        return store.cut(parts, rows, store.sorted)

    def _deliver_several(self, attributes: Attributes, parts: list[Any], rows: list[Row]) -> Store | None:
        """Adds what filters with several conjunctions find, each once; returns a store that was asked."""
        asked = self._several.asked(attributes)
        stores = [group.store for group in asked if group.store is not None]
        listed = [row for group in asked for row in group.rows or () if satisfied(row.rest, attributes)]
        if not stores:
            rows += {row.sid: row for row in listed}.values()
            return None
        parts.append(stores[0].distinct([store.labels(attributes) for store in stores], listed))
        return stores[0]

    def _directories(self) -> tuple[Keys, ...]:
        return (self._keys, self._several) if self._multiple else (self._keys,)

    # Questions about filters

    def covering(self, filter: Filter) -> list[int]:
        return covering(self._directories(), self._rows, filter)

    def covered(self, filter: Filter) -> list[int]:
        return covered(self._directories(), self._nothing, filter)

    def overlapping(self, filter: Filter) -> list[int]:
        return overlapping(self._directories(), filter)

    # For people

    def statistics(self) -> Statistics:
        return statistics(self._directories(), len(self._rows))

    def explain(self, attributes: Attributes) -> Explanation:
        return explain(self._directories(), attributes)


def _tuple(rows: Row | tuple[Row, ...]) -> tuple[Row, ...]:
    return rows if isinstance(rows, tuple) else (rows,)


def _is_listed(row: Row) -> bool:
    """Filed under one of the values of an `in`: its other rows would have to move with it."""
    return any(p.op == Op.IN and p.attribute == row.key[0] for p in row.conjunction) if row.key else False
