"""Rows in slots: their cells, and the rows of bits of each attribute, which `block` asks.

* `cells` (see `bounds`) have each slot's bounds. A slot is `odd` if they do not say all of it; then its
  predicates are asked one by one. It is `vague` if it is more than intervals of numbers.
* Bits are set for many slots at once. Until then a slot is `staged`: not `placed`, and compared by each
  match. So inserts are cheap, and removes even more: the bits of a free slot mean nothing.
* Segments are cut anew when twice as many slots were set as there were when they were cut last. The new ones
  are filled beside the old ones, a chunk of slots with each placing and each unit of `work`.
* An attribute gets segments when enough rows ask for it; until then the rows that do are odd.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from struct import Struct

import numpy as np
import numpy.typing as npt
from bitarray import bitarray

from grapevine.filters.normal import Op, Predicate
from matching import cuts
from matching.bounds import number_bounds
from matching.cutting import LABEL
from matching.finder import Step, finder
from matching.octets import Octets
from matching.row import Row
from matching.scratch import scratch
from matching.segments import Segments
from matching.slots import Slots

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STAGED = 512  # slots placed at once
SOON = 64  # slots that an attribute has before it is cut at all
MAX_TABLES = 32
MAX_CELLS = 1 << 19  # slots times tables: what bounds the time to grow
_AT_ONCE = 8  # the first attributes get segments without being asked for often
_GROWTH = 4096  # slots added at once, at most
_CHUNK = 2048  # slots filled at once, at most
_SAMPLE = 4096  # slots looked at to choose cuts, at most
_VAGUE_SAMPLE = 512  # of those whose predicates must be looked at one by one


class Slotted:
    def __init__(self, key_attribute: str | None) -> None:
        self._key_attribute = key_attribute  # settled by the key, hence in no row's predicates
        self._live = 0
        self.capacity = 64
        self.tables: list[Segments] = []
        self._table: dict[str, Segments] = {}
        self._next: Segments | None = None  # takes over from the table at its place when it is filled
        self._filled = 0  # slots that it has
        self._asked: dict[str, dict[int, None]] = {}  # attribute without segments -> slots
        self._slots = Slots(self.capacity)
        self._rows: list[Row | None] = [None] * self.capacity
        self._sids = np.zeros(self.capacity, np.int64)
        self._labels = np.zeros(self.capacity, LABEL)
        self._groups = np.zeros(self.capacity, np.uint32)
        self._cells = np.full((self.capacity, 0), -inf)
        self._placed = bitarray(self.capacity, endian="little")  # neither free nor staged
        self._kept: dict[int, bitarray] = {}  # of it and a row of the first table: see `finder`
        self._take_width()
        self._staged: dict[int, None] = {}
        self._seen = 0  # staged slots that matches had to look at
        self._odd = bitarray(self.capacity, endian="little")
        self._odds = 0
        self._vague = bitarray(self.capacity, endian="little")
        self._vagues = 0
        self._vague_in: dict[str, bitarray] = {}  # attribute with segments -> slots that are vague by it
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

    # Rows that come and go

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
        self._live += 1
        self._stage(slot, row.rest)
        if len(self._staged) >= STAGED:
            self.place()
        return True

    def _stage(self, slot: int, predicates: tuple[Predicate, ...]) -> None:
        cells = [-inf] * (2 * len(self.tables))
        wanted: list[str] = []
        for predicate in predicates:
            table = self._table.get(predicate.attribute)
            if table is None:
                wanted.append(predicate.attribute)
                continue
            least, greatest = number_bounds(predicate) or self._code(slot, table, predicate)
            column = 2 * table.index
            if least > cells[column]:
                cells[column] = least
            if -greatest > cells[column + 1]:
                cells[column + 1] = -greatest
        if self._vague[slot] and len({p.attribute for p in predicates}) < len(predicates):
            self._make_odd(slot)  # a text's number would pass for a number's bound
        self._cell.pack_into(self._cells, slot * self._cell.size, *cells)  # type: ignore[arg-type]
        self._staged[slot] = None
        for attribute in wanted:
            if attribute not in self._table:  # asking for one may make another's segments
                self._ask(slot, attribute)

    def _code(self, slot: int, table: Segments, predicate: Predicate) -> tuple[float, float]:
        """Cells for what is no interval of numbers: a text that must be equal has a number, others are odd.

        Numbers of texts and bounds of numbers share columns, because the bits have told the types apart.
        """
        self._make_vague(slot)
        self._vague_in[table.attribute][slot] = 1
        if predicate.op == Op.EQ and isinstance(predicate.operand, str):
            code = table.codes.use(predicate.operand)
            return code, code
        self._make_odd(slot)
        return -inf, inf

    def _make_vague(self, slot: int) -> None:
        self._vagues += not self._vague[slot]
        self._vague[slot] = 1

    def _make_odd(self, slot: int) -> None:
        self._odds += not self._odd[slot]
        self._odd[slot] = 1

    def predicates(self, slot: int) -> tuple[Predicate, ...]:
        row = self._rows[slot]
        assert row is not None, f"slot {slot} has bits but no row"
        return row.rest

    def remove(self, row: Row) -> None:
        slot = row.slot
        assert self._rows[slot] is row, f"row of subscription {row.sid} is not where it was put"
        self._unset(slot)
        self._staged.pop(slot, None)
        self._rows[slot] = None
        self._placed[slot] = 0
        self._kept.clear()
        self._slots.give(slot, row.group)
        self._live -= 1

    def _unset(self, slot: int) -> None:
        """Forget what is known of a slot beside its bits and cells."""
        if not self._vague[slot]:
            return
        for predicate in self.predicates(slot):
            table = self._table.get(predicate.attribute)
            if table is None:
                self._unask(slot, predicate.attribute)
                continue
            self._vague_in[predicate.attribute][slot] = 0
            if predicate.op == Op.EQ and isinstance(predicate.operand, str):
                table.codes.drop(predicate.operand)
        self._odds -= self._odd[slot]
        self._vagues -= 1
        self._odd[slot] = self._vague[slot] = 0

    def _grow(self) -> bool:
        capacity = self.capacity + min(self.capacity, max(512, self.capacity // 4), _GROWTH) & ~63
        if capacity * max(_AT_ONCE, len(self.tables)) > MAX_CELLS:
            return False
        more = capacity - self.capacity
        for table in self._tables():
            table.resize(capacity)
        self._slots.resize(capacity)
        self._rows.extend([None] * more)
        self._sids = np.concatenate((self._sids, np.zeros(more, np.int64)))
        self._labels = np.concatenate((self._labels, np.zeros(more, LABEL)))
        self._groups = np.concatenate((self._groups, np.zeros(more, np.uint32)))
        self._cells = np.concatenate((self._cells, np.full((more, self._cells.shape[1]), -inf)))
        self._placed.extend(bitarray(more))
        self._odd.extend(bitarray(more))
        for bits in (self._vague, *self._vague_in.values()):
            bits.extend(bitarray(more))
        self.capacity = self._end = capacity
        self._plan_match()
        return True

    # Attributes without segments

    def _ask(self, slot: int, attribute: str) -> None:
        slots = self._asked.setdefault(attribute, {})
        slots[slot] = None
        self._make_odd(slot)
        self._make_vague(slot)
        popular = min(256, max(8, self._live // 64))
        if len(self.tables) < _AT_ONCE or (len(slots) >= popular and self._room_for_table()):
            self._make_table(attribute)

    def _unask(self, slot: int, attribute: str) -> None:
        slots = self._asked.get(attribute)
        if slots is not None:
            slots.pop(slot, None)
            if not slots:
                del self._asked[attribute]

    def _room_for_table(self) -> bool:
        tables = len(self.tables) + 1
        return tables <= MAX_TABLES and tables * self.capacity <= MAX_CELLS

    def _make_table(self, attribute: str) -> None:
        slots = self._asked.pop(attribute)
        for slot in slots:
            self._unset(slot)
        table = Segments(attribute, len(self.tables), self.capacity)
        self.tables.append(table)
        self._table[attribute] = table
        self._vague_in[attribute] = bitarray(self.capacity, endian="little")
        self._cells = np.concatenate((self._cells, np.full((self.capacity, 2), -inf)), axis=1)
        self._take_width()
        for slot in slots:
            self._placed[slot] = 0
            self._stage(slot, self.predicates(slot))

    def _take_width(self) -> None:
        """How the cells of a slot are written, and where they are compared."""
        width = self._cells.shape[1]
        self._point = np.zeros(width)  # of the publication that is being matched
        self._at: memoryview[float] = memoryview(self._point)  # type: ignore[arg-type]
        self._cell = Struct(f"{width}d")
        self._scratch = scratch(width)
        self._plan_match()

    def _plan_match(self) -> None:
        """What a match must know of each table, so that it looks up nothing else."""
        self._plan: list[Step] = [
            (table.attribute, table.cuts, table.numbers, table.fall, 2 * table.index, 2 * table.index + 1)
            for table in self.tables
        ]
        self._kept.clear()
        self._find = finder(self._plan, self._placed, self._kept, self._cells, self._sids, self._point)

    # Bits

    def _tables(self) -> list[Segments]:
        return self.tables if self._next is None else [*self.tables, self._next]

    def place(self) -> None:
        """Give the staged slots their bits, and cut on where it is time."""
        if self._staged:
            staged = sorted(self._staged)
            slots = np.array(staged, np.int64)
            octets, cells = Octets(slots), self._cells.take(slots, 0)
            for table in self._tables():
                self._fill(table, slots, octets, cells)
                table.placed += len(staged)
            self._placed[staged] = 1
            self._kept.clear()
            self._staged.clear()
            self._seen = 0
        self._cut_on()

    def _fill(self, table: Segments, slots: Ints, octets: Octets, cells: Floats) -> None:
        column = 2 * table.index
        least, greatest = cells[:, column].copy(), -cells[:, column + 1]
        if not self._vagues:
            table.fill(octets, least, greatest)
            return
        vague = self._are(self._vague_in[table.attribute], slots).nonzero()[0]
        odd = self._are(self._odd, slots[vague])
        told, asked = vague[~odd], vague[odd]
        rows = table.rows_of(least[told])
        least[asked], greatest[asked] = -inf, inf
        spans, several = self._spans(table, slots[asked].tolist(), asked.tolist())
        others = np.concatenate((np.array((told, rows, rows)), spans), axis=1)
        table.fill(octets, least, greatest, others)
        for slot, predicate in several:
            table.set(slot, predicate)

    def _spans(
        self, table: Segments, slots: list[int], places: list[int]
    ) -> tuple[Ints, list[tuple[int, Predicate]]]:
        """Where odd slots are in: (place, first and last row of those with one span of rows; the others)."""
        spans: list[tuple[int, int, int]] = []
        several: list[tuple[int, Predicate]] = []
        for slot, place in zip(slots, places):
            asked = [p for p in self.predicates(slot) if p.attribute == table.attribute]
            if len(asked) == 1 and len(found := table.place(asked[0])) == 1:
                spans.append((place, found[0][0], found[0][1] - 1))
            else:
                several += [(slot, predicate) for predicate in asked]
        return np.array(spans, np.int64).reshape(-1, 3).T, several

    def _are(self, bits: bitarray, slots: Ints) -> npt.NDArray[np.bool_]:
        octets = np.frombuffer(bits, np.uint8)  # type: ignore[call-overload]
        found: npt.NDArray[np.bool_] = octets[slots >> 3] >> (slots & 7).astype(np.uint8) & 1 == 1
        return found

    @property
    def pending(self) -> bool:
        return bool(self._staged) or self._next is not None or self._due() is not None

    def _due(self) -> Segments | None:
        return next((table for table in self.tables if table.placed > max(SOON, 2 * table.based)), None)

    def _cut_on(self) -> None:
        """A chunk of slots into the segments that take over, if there are or should be any."""
        if self._next is None:
            due = self._due()
            if due is None:
                return
            self._next = Segments(due.attribute, due.index, self.capacity, *self._cuts(due))
            self._next.codes, self._next.based = due.codes, self._live
            self._filled = 0
        table, end = self._next, min(self._filled + _CHUNK, self._slots.used)
        if self._filled < end:
            slots = np.arange(self._filled, end)
            self._fill(table, slots, Octets(slots), self._cells[self._filled : end])
        self._filled = end
        if end == self._slots.used:
            self.tables[table.index] = self._table[table.attribute] = table
            self._next = None
            self._plan_match()

    def _cuts(self, table: Segments) -> tuple[list[float], list[str]]:
        """From the bounds of a sample of the slots."""
        used = self._slots.used
        slots = np.arange(0, used, used // _SAMPLE + 1)
        slots = slots[self._are(self._placed, slots)]
        vague = self._are(self._vague_in[table.attribute], slots)
        cells = self._cells[slots[~vague], 2 * table.index : 2 * table.index + 2]
        thin = int(vague.sum()) // _VAGUE_SAMPLE + 1
        found = [
            cut
            for slot in slots[vague][::thin].tolist()
            for predicate in self.predicates(slot)
            if predicate.attribute == table.attribute
            for cut in cuts.predicate_cuts(predicate)
        ]
        texts = [cut for cut in found if isinstance(cut, str)]
        others = [cut for cut in found if not isinstance(cut, str)]
        numbers = np.concatenate((cells[:, 0], np.nextafter(-cells[:, 1], inf), np.array(others, np.float64)))
        numbers = numbers[np.isfinite(numbers)]
        share = thin * len(texts) / (len(numbers) + thin * len(texts) or 1)
        most = min(cuts.MAX_CUTS, 2 * self._live // cuts.BOUNDS + 1)
        for_texts = round(most * share)
        return cuts.number_cuts(numbers, most - for_texts), cuts.text_cuts(texts, for_texts)
