"""One attribute of a block: for each segment of its values, which slots are out and which are on the edge.

* Rows of bits, one per segment: the attribute is missing, False, True, the segments of numbers between
  `cuts`, the segments of strings between `texts`. A segment is closed below and open above.
* `out` has the slots no value of the segment satisfies, `edge` those some may and some may not; a slot in
  neither is satisfied by every value of the segment. Slots without a predicate here have no bit at all.
* The rows of a slot are a stride apart, so that one slice assignment sets them.
* Segments adapt: a row with too many edges is split at the median of the bounds that lie in it, the two
  quietest neighbours are merged when there are no rows left. Both touch one or two rows and the slots on
  their edge, nothing else.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf, nextafter
from typing import Protocol

import numpy as np
import numpy.typing as npt
from bitarray import bitarray

from grapevine.filters.normal import Op, Predicate, Value, value_type
from matching.bounds import number_bounds
from matching.relations import after_prefix, region

Spans = tuple[list[tuple[int, int]], Sequence[int]]  # rows that are not out, rows on the edge
Floats = npt.NDArray[np.float64]

MAX_ROWS = 128
MIN_EDGES = 32  # fewer on one row are not worth a split
_MISSING, _FALSE, _TRUE, _NUMBERS = 0, 1, 2, 3


class Codes:
    """Numbers for the texts that slots must equal, for as long as one does."""

    __slots__ = ("_next", "_uses", "of")

    def __init__(self) -> None:
        self.of: dict[str, float] = {}
        self._uses: dict[str, int] = {}
        self._next = 0

    def use(self, text: str) -> float:
        if text not in self.of:
            self.of[text] = float(self._next)
            self._next += 1
        self._uses[text] = self._uses.get(text, 0) + 1
        return self.of[text]

    def drop(self, text: str) -> None:
        self._uses[text] -= 1
        if not self._uses[text]:
            del self._uses[text], self.of[text]


class Slots(Protocol):
    """What a table asks about the slots whose bits it keeps."""

    def predicates(self, slot: int) -> tuple[Predicate, ...]: ...

    def plain(self, slots: list[int]) -> list[int]:
        """Those that are no more than an interval of numbers in each attribute."""

    def ends(self, table: int, slots: list[int]) -> tuple[Floats, Floats]:
        """Of plain slots, in one attribute: the least number in it, the least beyond it."""


class Segments:
    __slots__ = (
        "_bits_edge",
        "_bits_out",
        "_cells",
        "_limit",
        "_load",
        "attribute",
        "capacity",
        "codes",
        "count",
        "cuts",
        "edge",
        "index",
        "out",
        "texts",
    )

    def __init__(self, attribute: str, index: int, capacity: int) -> None:
        self.attribute = attribute
        self.index = index  # its place in the block
        self.count = 0  # slots with a predicate here
        self.cuts: list[float] = []
        self.texts: list[str] = []
        self.codes = Codes()
        self._limit = MIN_EDGES
        self._cells = np.zeros((2, 0, 0), np.uint8)
        self.capacity = 0
        self._load = [0] * 5  # row -> edges, an upper estimate
        self._allocate(8, capacity)

    def _allocate(self, rows: int, capacity: int) -> None:
        cells = np.zeros((2, rows, capacity // 8), np.uint8)
        kept, width = min(rows, self._cells.shape[1]), min(capacity, self.capacity) // 8
        cells[:, :kept, :width] = self._cells[:, :kept, :width]
        self._cells = cells
        self.capacity = capacity
        self._bits_out = bitarray(buffer=cells[0], endian="little")
        self._bits_edge = bitarray(buffer=cells[1], endian="little")
        self.out = [bitarray(buffer=row, endian="little") for row in cells[0]]
        self.edge = [bitarray(buffer=row, endian="little") for row in cells[1]]

    def resize(self, capacity: int) -> None:
        self._allocate(self._cells.shape[1], capacity)

    @property
    def nbytes(self) -> int:
        return int(self._cells.nbytes) + 2 * self._cells.shape[1] * 250  # a view of a row is about that

    @property
    def rows(self) -> int:
        return len(self._load)

    def row(self, value: Value | None) -> int:
        kind = type(value)
        if kind is float or kind is int:
            return 3 + bisect_right(self.cuts, value)  # type: ignore[type-var]
        if kind is str:
            return 4 + len(self.cuts) + bisect_right(self.texts, value)  # type: ignore[type-var]
        return _MISSING if value is None else _TRUE if value else _FALSE

    # Setting and clearing a slot

    def set(self, slot: int, predicate: Predicate) -> int:
        """Narrow a slot by a predicate; returns a row with many edges, perhaps to be split, or -1."""
        spans, edges = self.place(predicate)
        bits, capacity, load, first = self._bits_out, self.capacity, self._load, 0
        for start, stop in (*spans, (len(load), 0)):
            if first < start:
                bits[first * capacity + slot : start * capacity : capacity] = 1
            first = stop
        crowded = -1
        if isinstance(edges, range):  # everywhere: no split would help, so it counts for none
            self._bits_edge[edges.start * capacity + slot : edges.stop * capacity : capacity] = 1
            return -1
        for row in edges:
            self._bits_edge[row * capacity + slot] = 1
            load[row] += 1
            if load[row] > self._limit:
                crowded = row
        return crowded

    def narrow(self, slot: int, least: float, greatest: float) -> int:
        """`set` for an interval of numbers, the common case; returns as `set` does."""
        cuts, bits, capacity, load = self.cuts, self._bits_out, self.capacity, self._load
        start, stop = bisect_right(cuts, least) + 3, bisect_right(cuts, greatest) + 3
        bits[slot : start * capacity : capacity] = 1
        bits[(stop + 1) * capacity + slot : len(load) * capacity : capacity] = 1
        crowded = -1
        if least != -inf and (start == 3 or cuts[start - 4] != least):
            self._bits_edge[start * capacity + slot] = 1
            load[start] += 1
            if load[start] > self._limit:
                crowded = start
        if greatest != inf and (stop == len(cuts) + 3 or cuts[stop - 3] != nextafter(greatest, inf)):
            self._bits_edge[stop * capacity + slot] = 1
            load[stop] += 1
            if load[stop] > self._limit:
                crowded = stop
        return crowded

    def clear(self, slot: int) -> None:
        stop = len(self._load) * self.capacity
        self._bits_out[slot : stop : self.capacity] = 0
        self._bits_edge[slot : stop : self.capacity] = 0

    def place(self, predicate: Predicate) -> Spans:
        """In which rows a value can satisfy the predicate, and in which of them another may not."""
        bounds = number_bounds(predicate)
        if bounds is not None:
            return self._numbers(*bounds)
        op, operand = predicate.op, predicate.operand
        texts, end = 4 + len(self.cuts), len(self._load)
        if op == Op.EXISTS:
            return [(_FALSE, end)], ()
        if op == Op.ABSENT:
            return [(_MISSING, _FALSE)], ()
        if op == Op.IN_CIRCLE or op == Op.NOT_IN_CIRCLE:
            return [(_NUMBERS, texts)], range(_NUMBERS, texts)
        if op == Op.EQ:
            return self._equal(operand)  # type: ignore[arg-type]
        if op == Op.IN:
            return self._values(operand)  # type: ignore[arg-type]
        if op == Op.NE:
            return self._all_but(operand)  # type: ignore[arg-type]
        if op == Op.PREFIX or op == Op.RANGE:
            return self._interval(predicate)
        return [(texts, end)], range(texts, end)

    def _numbers(self, least: float, greatest: float) -> Spans:
        cuts, edges = self.cuts, []
        start, stop = bisect_right(cuts, least), bisect_right(cuts, greatest)
        if least != -inf and (start == 0 or cuts[start - 1] != least):
            edges.append(start + 3)
        if greatest != inf and (stop == len(cuts) or cuts[stop] != nextafter(greatest, inf)):
            if stop != start or not edges:
                edges.append(stop + 3)
        return [(start + 3, stop + 4)], edges

    def _equal(self, value: Value) -> Spans:
        if isinstance(value, str):
            return self._strings(value, value + "\0")
        row = self.row(value)
        return [(row, row + 1)], () if isinstance(value, bool) else (row,)

    def _values(self, values: tuple[Value, ...]) -> Spans:
        rows = sorted({self.row(value) for value in values})
        return [(row, row + 1) for row in rows], rows

    def _all_but(self, value: Value) -> Spans:
        kind, texts = value_type(value), 4 + len(self.cuts)
        if kind is bool:
            return [(_FALSE, _TRUE) if value else (_TRUE, _NUMBERS)], ()
        return [(_NUMBERS, texts) if kind is float else (texts, len(self._load))], [self.row(value)]

    def _interval(self, predicate: Predicate) -> Spans:
        """Of strings, or of numbers beyond `bounds.EXACT`, whose ends are always on an edge."""
        low, high, low_open, high_open = region(predicate)
        if isinstance(high if low is None else low, str):
            return self._strings(*_text_bounds(low, high, low_open, high_open))
        start = _NUMBERS if low is None else self.row(low)
        stop = 3 + len(self.cuts) if high is None else self.row(high)
        return [(start, stop + 1)], [start, stop] if start != stop else [start]

    def _strings(self, low: str, high: str | None) -> Spans:
        """From low, up to but without high."""
        first, texts, edges = 4 + len(self.cuts), self.texts, []
        start, stop = bisect_right(texts, low), len(texts)
        if low and (start == 0 or texts[start - 1] != low):
            edges.append(first + start)
        if high is not None:
            stop = max(start, bisect_left(texts, high))
            if (stop == len(texts) or texts[stop] != high) and (stop != start or not edges):
                edges.append(first + stop)
        return [(first + start, first + stop + 1)], edges

    # Adapting

    def crowded(self, row: int) -> bool:
        """Whether a row has so many edges that it should be split."""
        if self._load[row] <= self._limit:
            return False
        self._limit = max(MIN_EDGES, 4 * self.count // MAX_ROWS)
        if len(self._load) >= MAX_ROWS:
            self._limit *= 2
        if self._load[row] > self._limit:
            self._load[row] = self.edge[row].count()
        return self._load[row] > self._limit

    def split(self, row: int, slots: Slots) -> None:
        """Divide a row where the bounds inside it have their median."""
        listed = list(self.edge[row].search(1))
        plain = slots.plain(listed) if row < 4 + len(self.cuts) else []
        at = self._median(row, listed, plain, slots)
        if at is None:
            self._load[row] = -len(listed)  # look again when there are twice as many
            return
        if len(self._load) >= MAX_ROWS:
            gone = self._merge_quietest(row)
            if gone < 0:
                self._load[row] = -len(listed)
                return
            row -= gone < row
        ends = self._ends(row)
        self._insert(row, at)
        if plain:
            self._place_plain(plain, row, (ends[0], float(at), ends[1]), slots)
        known = set(plain)
        for slot in listed:
            if slot not in known:
                self._place_again(slot, row, slots.predicates(slot))
        for new in (row, row + 1):
            self._load[new] = self.edge[new].count()

    def _ends(self, row: int) -> tuple[float, float]:
        """From where to where the numbers of a row go."""
        place = row - 3
        low = self.cuts[place - 1] if 0 < place <= len(self.cuts) else -inf
        return low, self.cuts[place] if 0 <= place < len(self.cuts) else inf

    def _median(self, row: int, listed: list[int], plain: list[int], slots: Slots) -> float | str | None:
        if plain:
            low, high = self._ends(row)
            inside = np.concatenate(slots.ends(self.index, plain))
            inside = np.sort(inside[(inside > low) & (inside < high)])
            if len(inside):
                return float(inside[len(inside) // 2])
        bounds = [
            cut
            for slot in listed[:: len(listed) // 64 + 1]
            for predicate in slots.predicates(slot)
            if predicate.attribute == self.attribute
            for cut in _cuts(predicate)
            if self.row(cut) == row and not self._starts(row, cut)
        ]
        bounds.sort()
        return bounds[len(bounds) // 2] if bounds else None

    def _starts(self, row: int, cut: float | str) -> bool:
        if isinstance(cut, str):
            place = row - 4 - len(self.cuts)
            return self.texts[place - 1] == cut if place else not cut
        return row > _NUMBERS and self.cuts[row - 4] == cut

    def _insert(self, row: int, at: float | str) -> None:
        """A second copy of `row` behind it, for the values from `at` on."""
        used = len(self._load)
        if used == self._cells.shape[1]:
            self._allocate(min(2 * used, MAX_ROWS), self.capacity)
        self._cells[:, row + 1 : used + 1] = self._cells[:, row:used].copy()
        self._load.insert(row + 1, 0)
        if isinstance(at, str):
            self.texts.insert(row - 4 - len(self.cuts), at)
        else:
            self.cuts.insert(row - 3, at)

    def _place_plain(
        self, plain: list[int], row: int, ends: tuple[float, float, float], slots: Slots
    ) -> None:
        """Both halves of a row for slots that are intervals, all at once."""
        low, at, high = ends
        least, beyond = slots.ends(self.index, plain)
        out_left, out_right = least >= at, beyond <= at
        self.out[row][plain] = _bits(out_left)
        self.out[row + 1][plain] = _bits(out_right)
        self.edge[row][plain] = _bits(~out_left & ((least > low) | (beyond < at)))
        self.edge[row + 1][plain] = _bits(~out_right & ((least > at) | (beyond < high)))

    def _place_again(self, slot: int, first: int, predicates: tuple[Predicate, ...]) -> None:
        out, edge, rows = self._bits_out, self._bits_edge, (first, first + 1)
        for row in rows:
            out[row * self.capacity + slot] = edge[row * self.capacity + slot] = 0
        for predicate in predicates:
            if predicate.attribute != self.attribute:
                continue
            spans, edges = self.place(predicate)
            for row in rows:
                if not any(start <= row < stop for start, stop in spans):
                    out[row * self.capacity + slot] = 1
                elif row in edges:
                    edge[row * self.capacity + slot] = 1

    def _merge_quietest(self, spared: int) -> int:
        """Join the two neighbours with the fewest edges, not the row spared; returns the row that went."""
        texts, load = 4 + len(self.cuts), self._load
        pairs = [
            row for row in range(_NUMBERS, len(load) - 1) if row + 1 != texts and spared - row not in (0, 1)
        ]
        if not pairs:
            return -1
        row = min(pairs, key=lambda row: load[row] + load[row + 1])
        if load[row] + load[row + 1] > load[spared] // 2:
            return -1
        self._merge(row)
        return row + 1

    def _merge(self, row: int) -> None:
        used = len(self._load)
        out, edge = self._cells[0], self._cells[1]
        edge[row] |= edge[row + 1] | (out[row] ^ out[row + 1])
        out[row] &= out[row + 1]
        self._cells[:, row + 1 : used - 1] = self._cells[:, row + 2 : used].copy()
        self._cells[:, used - 1] = 0
        if row < 3 + len(self.cuts):
            del self.cuts[row - 3]
        else:
            del self.texts[row - 4 - len(self.cuts)]
        del self._load[row + 1]
        self._load[row] = self.edge[row].count()


def _bits(mask: npt.NDArray[np.bool_]) -> bitarray:
    bits = bitarray(endian="little")
    bits.pack(mask.tobytes())
    return bits


def _text_bounds(low: object, high: object, low_open: bool, high_open: bool) -> tuple[str, str | None]:
    """The least string above s is s + NUL, so that strings need no open and closed ends."""
    start = "" if low is None else f"{low}\0" if low_open else str(low)
    return start, None if high is None else str(high) if high_open else f"{high}\0"


def _cuts(predicate: Predicate) -> list[float | str]:
    """Where a segment may end so that this predicate is on its edge no more."""
    bounds = number_bounds(predicate)
    if bounds is not None:
        return [cut for cut in (bounds[0], nextafter(bounds[1], inf)) if abs(cut) != inf]
    op, operand = predicate.op, predicate.operand
    if op == Op.PREFIX or op == Op.NOT_PREFIX:
        return [cut for cut in (str(operand), after_prefix(str(operand))) if cut]
    if op == Op.RANGE:
        low, high, low_open, high_open = region(predicate)
        if isinstance(high if low is None else low, str):
            return [cut for cut in _text_bounds(low, high, low_open, high_open) if cut]
    if op == Op.EQ or op == Op.NE:
        return _value_cuts(operand)  # type: ignore[arg-type]
    if op == Op.IN:
        return [cut for value in operand for cut in _value_cuts(value)]  # type: ignore[union-attr, arg-type]
    return []


def _value_cuts(value: Value) -> list[float | str]:
    if isinstance(value, str):
        return [value, value + "\0"]
    bounds = number_bounds(Predicate("", Op.EQ, value))
    return [] if bounds is None else [bounds[0], nextafter(bounds[0], inf)]
