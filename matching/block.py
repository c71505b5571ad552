"""Rows as slots of bit vectors: a match is a few ORs of rows of bits, whatever the filters ask.

* Each attribute has its `Segments`; `out` of the rows a publication falls in, ORed, leaves the candidates
  as zeros. Listing them checks all exactly: `cells` (see `bounds`) are compared for all of them at once. A
  slot is `odd` if the cells do not say all of it; then its predicates are asked one by one. It is `vague`
  if it is more than intervals of numbers; then questions about filters are not decided here.
* "Which groups" does not list many: candidates without an `edge` bit match for sure, and are seen as bytes
  that have an owner. Those on an edge are checked for groups not found by then.
* An attribute gets segments when enough rows ask for it; until then the rows that do are `unsure`: on the
  edge of every match.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import inf, nextafter

import numpy as np
import numpy.typing as npt
from bitarray import bitarray

from grapevine.filters.normal import Op, Predicate, Value
from matching import kernel
from matching.bounds import number_bounds, number_pair
from matching.check import satisfied
from matching.cutting import LABEL
from matching.interface import Attributes
from matching.listing import zeros
from matching.profile import Profile
from matching.row import Row, Split
from matching.segments import Segments
from matching.slots import SHARED, Slots

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MAX_TABLES = 32
MAX_CELLS = 1 << 19  # slots times tables: what bounds the time to grow
_AT_ONCE = 8  # the first attributes get segments without being asked for often
_MANY = 256  # candidates; above, "which groups" does not list them
_GROWTH = 4096  # slots added at once, at most


class Block:
    def __init__(self, key_attribute: str | None) -> None:
        self._key_attribute = key_attribute  # settled by the key, hence in no row's predicates
        self._live = 0
        self.capacity = 64
        self.tables: list[Segments] = []
        self._table: dict[str, Segments] = {}
        self._asked: dict[str, dict[int, None]] = {}  # attribute without segments -> slots
        self._slots = Slots(self.capacity)
        self._rows: list[Row | None] = [None] * self.capacity
        self._sids = np.zeros(self.capacity, np.int64)
        self._labels = np.zeros(self.capacity, LABEL)
        self._groups = np.zeros(self.capacity, np.uint32)
        self._cells = np.full((self.capacity, 0), -inf)
        self._dead = _ones(self.capacity)
        self._odd = bitarray(self.capacity, endian="little")
        self._vague = bitarray(self.capacity, endian="little")
        self._unsure = bitarray(self.capacity, endian="little")
        self._end = self.capacity  # `last` has taken what lies behind

    def __len__(self) -> int:
        return self._live

    def __iter__(self) -> Iterator[Row]:
        return (row for row in self._rows if row is not None)

    def last(self, count: int) -> list[Row]:
        """Some rows from the end."""
        found: list[Row] = []
        while len(found) < count and self._end:
            self._end -= 1
            row = self._rows[self._end]
            if row is not None:
                found.append(row)
        return found

    # Filling

    def add(self, row: Row, grow: bool) -> bool:
        """False if there is no slot for it, or none even after growing."""
        slot = self._slots.take(row.group)
        if slot < 0:
            if not grow or not self._grow():
                return False
            slot = self._slots.take(row.group)
        row.slot = slot
        self._rows[slot] = row
        self._sids[slot] = row.sid
        self._labels[slot] = row.label
        self._groups[slot] = row.group
        self._dead[slot] = 0
        self._live += 1
        self._constrain(slot, row.rest)
        return True

    def _constrain(self, slot: int, predicates: tuple[Predicate, ...]) -> None:
        cells = [-inf] * (2 * len(self.tables))
        wanted: list[str] = []
        crowds: list[tuple[Segments, int]] = []
        for predicate in predicates:
            table = self._table.get(predicate.attribute)
            if table is None:
                wanted.append(predicate.attribute)
                continue
            table.count += 1
            bounds = number_bounds(predicate)
            if bounds is None:
                crowded = table.set(slot, predicate)
                self._vague[slot] = 1
                bounds = self._code(slot, table, predicate)
            else:
                crowded = table.narrow(slot, *bounds)
            least, greatest = bounds
            column = 2 * table.index
            if least > cells[column]:
                cells[column] = least
            if -greatest > cells[column + 1]:
                cells[column + 1] = -greatest
            if crowded >= 0:
                crowds.append((table, crowded))
        self._cells[slot] = cells
        for table, crowded in crowds:
            if table.crowded(crowded):
                table.split(crowded, self)
        for attribute in wanted:
            if attribute not in self._table:  # asking for one may make another's segments
                self._ask(slot, attribute)

    def _code(self, slot: int, table: Segments, predicate: Predicate) -> tuple[float, float]:
        """Cells for what is no interval of numbers: a text that must be equal has a number, others are odd.

        Numbers of texts and bounds of numbers share columns, because the bits have told the types apart.
        """
        if predicate.op == Op.EQ and isinstance(predicate.operand, str):
            code = table.codes.use(predicate.operand)
            return code, code
        self._odd[slot] = 1
        return -inf, inf

    def plain(self, slots: list[int]) -> list[int]:
        vague = self._vague
        return [slot for slot in slots if not vague[slot]]

    def ends(self, table: int, slots: list[int]) -> tuple[Floats, Floats]:
        cells = self._cells.take(slots, 0)
        return cells[:, 2 * table], np.nextafter(-cells[:, 2 * table + 1], inf)

    def predicates(self, slot: int) -> tuple[Predicate, ...]:
        row = self._rows[slot]
        assert row is not None, f"slot {slot} has bits but no row"
        return row.rest

    def _ask(self, slot: int, attribute: str) -> None:
        """A row asks for an attribute without segments."""
        slots = self._asked.setdefault(attribute, {})
        slots[slot] = None
        self._unsure[slot] = self._odd[slot] = self._vague[slot] = 1
        popular = min(256, max(8, self._live // 64))
        if len(self.tables) < _AT_ONCE or (len(slots) >= popular and self._room_for_table()):
            self._make_table(attribute)

    def _room_for_table(self) -> bool:
        tables = len(self.tables) + 1
        return tables <= MAX_TABLES and tables * self.capacity <= MAX_CELLS

    def _make_table(self, attribute: str) -> None:
        slots = self._asked.pop(attribute)
        for slot in slots:
            self._unset(slot)
            self._unsure[slot] = self._odd[slot] = self._vague[slot] = 0
        table = Segments(attribute, len(self.tables), self.capacity)
        self.tables.append(table)
        self._table[attribute] = table
        self._cells = np.concatenate((self._cells, np.full((self.capacity, 2), -inf)), axis=1)
        for slot in slots:
            self._constrain(slot, self.predicates(slot))

    def _unset(self, slot: int) -> None:
        """Take a slot out of every table and list of askers."""
        for predicate in self.predicates(slot):
            table = self._table.get(predicate.attribute)
            if table is not None:
                table.count -= 1
                table.clear(slot)
                if predicate.op == Op.EQ and isinstance(predicate.operand, str):
                    table.codes.drop(predicate.operand)
            else:
                self._unask(slot, predicate.attribute)

    def _unask(self, slot: int, attribute: str) -> None:
        slots = self._asked.get(attribute)
        if slots is not None:
            slots.pop(slot, None)
            if not slots:
                del self._asked[attribute]

    def remove(self, row: Row) -> None:
        slot = row.slot
        assert self._rows[slot] is row, f"row of subscription {row.sid} is not where it was put"
        self._unset(slot)
        self._rows[slot] = None
        self._dead[slot] = 1
        self._odd[slot] = self._unsure[slot] = self._vague[slot] = 0
        self._slots.give(slot, row.group)
        self._live -= 1

    def _grow(self) -> bool:
        capacity = self.capacity + min(self.capacity, max(512, self.capacity // 4), _GROWTH) & ~63
        if capacity * max(_AT_ONCE, len(self.tables)) > MAX_CELLS:
            return False
        more = capacity - self.capacity
        for table in self.tables:
            table.resize(capacity)
        self._slots.resize(capacity)
        self._rows.extend([None] * more)
        self._sids = np.concatenate((self._sids, np.zeros(more, np.int64)))
        self._labels = np.concatenate((self._labels, np.zeros(more, LABEL)))
        self._groups = np.concatenate((self._groups, np.zeros(more, np.uint32)))
        self._cells = np.concatenate((self._cells, np.full((more, self._cells.shape[1]), -inf)))
        self._dead.extend(_ones(more))
        self._odd.extend(bitarray(more))
        self._vague.extend(bitarray(more))
        self._unsure.extend(bitarray(more))
        self.capacity = self._end = capacity
        return True

    # Matching

    def _fallen(self, attributes: Attributes) -> tuple[list[bitarray], list[float]]:
        """(the rows of bits a publication falls in, its numbers as the cells want them)"""
        get = attributes.get
        rows = [self._dead]
        point: list[float] = []
        for table in self.tables:
            value = get(table.attribute)
            if type(value) is float:
                rows.append(table.out[3 + bisect_right(table.cuts, value)])
                point += (value, -value)
            elif type(value) is str:
                rows.append(table.out[table.row(value)])
                code = table.codes.of.get(value, -1.0)
                point += (code, -code)
            else:
                rows.append(table.out[table.row(value)])
                point += number_pair(value)
        return rows, point

    def _hits(self, attributes: Attributes) -> Ints:
        """The slots that match. Checking all candidates at once costs less than finding the sure ones."""
        rows, point = self._fallen(attributes)
        if kernel.module is None:
            return self._checked(zeros(_union(rows)), point, attributes)
        passed = np.frombuffer(kernel.module.slots(rows, self._cells, point), np.int64)
        return self._without_odd(passed, attributes)

    def _checked(self, slots: Ints, point: list[float], attributes: Attributes) -> Ints:
        """Those of the slots whose rows match; `point` has the publication's numbers."""
        return self._without_odd(slots[self._at_or_below(slots, point)], attributes)

    def _without_odd(self, passed: Ints, attributes: Attributes) -> Ints:
        """Without the odd ones that do not match after all."""
        odd = self._odd
        if not odd.any():
            return passed
        kept = [s for s in passed.tolist() if not odd[s] or satisfied(self.predicates(s), attributes)]
        return np.array(kept, np.int64)

    def sids(self, attributes: Attributes) -> list[int]:
        found = self._sids[self._hits(attributes)]
        found.sort()
        return found.tolist()  # type: ignore[no-any-return]

    def anchors(self, attributes: Attributes, found: set[int]) -> None:
        rows, point = self._fallen(attributes)
        if kernel.module is not None and not self._odd.any():
            found.update(kernel.module.groups(rows, self._cells, point, self._groups))
            return
        out = _union(rows)
        if out.count(0) > _MANY:
            edge = self._edge(attributes)
            edge |= out
            self._sure_anchors(edge, found)
            edge ^= out
            group_of = memoryview(self._groups)  # type: ignore[arg-type]
            slots = [slot for slot in edge.search(1) if group_of[slot] not in found]
            passed = self._checked(np.array(slots, np.int64), point, attributes)
        else:
            passed = self._checked(zeros(out), point, attributes)
        found.update(self._groups[passed].tolist())

    def _edge(self, attributes: Attributes) -> bitarray:
        """Ones: the slots that a value of the same segments need not satisfy."""
        edge = self._unsure.copy()
        for table in self.tables:
            edge |= table.edge[table.row(attributes.get(table.attribute))]
        return edge

    def _sure_anchors(self, sure: bitarray, found: set[int]) -> None:
        """Zeros are matches: a byte with one is its owner's, and the bits of a shared byte their rows'."""
        used: Ints = (_octets(sure) != 255).nonzero()[0]
        if not len(used):
            return
        owners = self._slots.owners[used]
        hit = np.bincount(owners).nonzero()[0].tolist()
        if hit[0] == SHARED:
            del hit[0]
            self._shared_anchors(used[owners == SHARED], sure, found)
        found.update(map(self._slots.group, hit))

    def _shared_anchors(self, used: Ints, sure: bitarray, found: set[int]) -> None:
        bits = np.unpackbits(_octets(sure)[used], bitorder="little")
        zeros = (bits == 0).nonzero()[0]
        found.update(self._groups[used[zeros >> 3] * 8 + (zeros & 7)].tolist())

    def labels(self, attributes: Attributes) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.uint32]]:
        hits = self._hits(attributes)
        return self._groups[hits], self._labels[hits]

    # Questions about filters

    def covering(self, profile: Profile) -> Split:
        """Both ends of an interval must not be out."""
        out = self._dead.copy()
        for table in self.tables:
            ends: list[Value | None] = []
            if table.attribute in profile.numbers:
                ends.extend(profile.numbers[table.attribute])
            elif table.attribute in profile.texts:
                ends.append(profile.texts[table.attribute])
            elif table.attribute not in profile.attributes:
                ends.append(None)
            for end in ends:
                out |= table.out[table.row(end)]
        slots = zeros(out)
        point = [bound for table in self.tables for bound in profile.least(table.attribute)]
        return self._split(profile, self._may(slots, point))

    def covered(self, profile: Profile) -> Split:
        """What lies just beyond an interval's ends must not be in; vague rows always may be covered."""
        inside = ~self._dead
        bounds: list[tuple[int, float]] = []
        for attribute, (low, high) in profile.numbers.items():
            table = self._table.get(attribute)
            if table is None or attribute == self._key_attribute:
                continue
            bounds += [(2 * table.index, low), (2 * table.index + 1, -high)]
            inside &= table.out[0]
            for beyond in (nextafter(low, -inf), nextafter(high, inf)):
                if abs(beyond) != inf:
                    row = table.row(beyond)
                    inside &= table.out[row] | table.edge[row]
        slots = zeros(~inside)
        for column, bound in bounds:
            slots = slots[self._cells[slots, column] >= bound]
        vague = (~self._dead & self._vague).search(1)
        return self._split(
            profile, np.array(sorted({*slots.tolist(), *vague}), np.int64), self._missing(profile)
        )

    def _missing(self, profile: Profile) -> bool:
        """Whether the profile asks for an attribute that has no cells here: no plain row is narrower then."""
        names = [*profile.numbers, *profile.texts]
        return any(name != self._key_attribute and name not in self._table for name in names) or any(
            name != self._key_attribute for name in profile.texts
        )

    def overlapping(self, profile: Profile) -> Split:
        slots = zeros(self._dead)
        point = [bound for table in self.tables for bound in profile.crossed(table.attribute)]
        return self._split(profile, self._may(slots, point))

    def _may(self, slots: Ints, point: list[float]) -> Ints:
        """Those below the point, and those of which the cells do not say enough."""
        vague = np.unpackbits(_octets(self._vague), bitorder="little").view(np.bool_)
        return slots[self._at_or_below(slots, point) | vague[slots]]

    def _at_or_below(self, slots: Ints, point: list[float]) -> npt.NDArray[np.bool_]:
        below: npt.NDArray[np.bool_] = np.logical_and.reduce(
            self._cells.take(slots, 0) <= np.array(point), axis=1
        )
        return below

    def _split(self, profile: Profile, slots: Ints, none_plain: bool = False) -> Split:
        """Decided by the cells, unless a row is vague or the profile is not exact."""
        rows = [(slot, row) for slot in slots.tolist() if (row := self._rows[slot]) is not None]
        if not profile.exact:
            return [], [row for _, row in rows]
        vague = self._vague
        plain = [] if none_plain else [row for slot, row in rows if not vague[slot]]
        return plain, [row for slot, row in rows if vague[slot]]

    # For people

    def explain(self, attributes: Attributes) -> tuple[int, int]:
        """(rows left by the bits, those of them on an edge of a segment)"""
        out = _union(self._fallen(attributes)[0])
        return out.count(0), (self._edge(attributes) & ~out).count()

    def bytes(self) -> int:
        arrays = self._cells.nbytes + self._labels.nbytes + self._groups.nbytes + self._slots.owners.nbytes
        lists = 16 * self.capacity + 3 * self.capacity // 8
        return arrays + lists + sum(table.nbytes for table in self.tables)


def _union(rows: list[bitarray]) -> bitarray:
    union = rows[0].copy()
    for row in rows[1:]:
        union |= row
    return union


def _octets(bits: bitarray) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bits, np.uint8)  # type: ignore[call-overload, no-any-return]


def _ones(length: int) -> bitarray:
    bits = bitarray(length, endian="little")
    bits.setall(1)
    return bits
