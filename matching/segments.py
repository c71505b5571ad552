"""One attribute of a block: for each segment of its values, which slots some value of it satisfies.

* Rows of bits, one per segment: the attribute is missing, False, True, the segments of numbers between
  `cuts`, the segments of strings between `texts`. A segment is closed below and open above.
* A slot is in a row if some value of the segment satisfies it; without a predicate it is in all of them.
* A slot that is an interval, and in a row and in the two beside it, is satisfied by every value of the row:
  an interval that ends in a segment is not in the next one.
* Slots are set by the hundred (`fill`): one matrix of comparisons for all of them and all rows.
* The cuts stay as they are. A block whose values have changed makes other segments beside these and fills
  them in steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

import numpy as np
import numpy.typing as npt
from bitarray import bitarray

from grapevine.filters.normal import Op, Predicate, Value, value_type
from matching.bounds import number_bounds, number_pair
from matching.cuts import text_bounds
from matching.octets import Octets
from matching.relations import region

Spans = list[tuple[int, int]]  # rows that a slot is in
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MISSING, _FALSE, _TRUE, _NUMBERS = 0, 1, 2, 3
_BEYOND = 255  # a row after all rows
_EQ = int(Op.EQ)  # an enum's member costs more than the comparison
_ALL = 255  # an octet of slots that are in


class Codes:
    """Numbers for the texts that slots must equal, for as long as one does."""

    __slots__ = ("_next", "_uses", "of", "texts")

    def __init__(self) -> None:
        self.of: dict[str, float] = {}
        self.texts: dict[float, str] = {}
        self._uses: dict[str, int] = {}
        self._next = 0

    def use(self, text: str) -> float:
        if text not in self.of:
            self.of[text] = float(self._next)
            self.texts[self.of[text]] = text
            self._next += 1
        self._uses[text] = self._uses.get(text, 0) + 1
        return self.of[text]

    def drop(self, text: str) -> None:
        self._uses[text] -= 1
        if not self._uses[text]:
            del self._uses[text], self.texts[self.of.pop(text)]


class Segments:
    __slots__ = (
        "_cells",
        "_cuts",
        "_rank",
        "attribute",
        "based",
        "capacity",
        "codes",
        "cuts",
        "index",
        "numbers",
        "placed",
        "rows",
        "some",
        "texts",
    )

    def __init__(
        self, attribute: str, index: int, capacity: int, cuts: Sequence[float] = (), texts: Sequence[str] = ()
    ) -> None:
        self.attribute = attribute
        self.index = index  # its place in the block
        self.cuts, self.texts = list(cuts), list(texts)
        self.rows = 5 + len(self.cuts) + len(self.texts)
        self.codes = Codes()
        self.based = 0  # rows that the cuts were chosen for
        self.placed = 0  # slots set since then
        self._cuts = np.array(self.cuts)
        self._rank = np.arange(self.rows, dtype=np.uint8)[:, None]
        self._cells = np.full((self.rows, 0), _ALL, np.uint8)
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        cells = np.full((self.rows, capacity // 8), _ALL, np.uint8)
        width = min(cells.shape[1], self._cells.shape[1])
        cells[:, :width] = self._cells[:, :width]
        self._cells, self.capacity = cells, capacity
        self.some = [bitarray(buffer=row, endian="little") for row in cells]
        self.some.append(self.some[_MISSING])  # beside the last row: no interval has it
        self.numbers = self.some[_NUMBERS : 4 + len(self.cuts)]

    @property
    def nbytes(self) -> int:
        return int(self._cells.nbytes) + self.rows * 250  # a view of a row is about that

    def row(self, value: Value | None) -> int:
        kind = type(value)
        if kind is float or kind is int:
            return 3 + bisect_right(self.cuts, value)  # type: ignore[type-var]
        if kind is str:
            return 4 + len(self.cuts) + bisect_right(self.texts, value)  # type: ignore[type-var]
        return _MISSING if value is None else _TRUE if value else _FALSE

    def fall(self, value: Value | None) -> tuple[bitarray, float, float]:
        """(the row of bits that a value falls in, the value as the cells want it: see `bounds`)"""
        if type(value) is str:
            code = self.codes.of.get(value, -1.0)
            return self.some[self.row(value)], code, -code
        return self.some[self.row(value)], *number_pair(value)

    # Setting slots

    def fill(self, octets: Octets, least: Floats, greatest: Floats, others: Ints | None = None) -> None:
        """Intervals of numbers for many slots, whatever they were; (-inf, inf) is no predicate at all.

        `others` has those that are something else: which of the slots, first rows, last rows."""
        start = np.searchsorted(self._cuts, least, "right") + _NUMBERS
        stop = np.searchsorted(self._cuts, greatest, "right") + _NUMBERS
        free = (least == -inf) & (greatest == inf)
        start[free], stop[free] = 0, _BEYOND
        if others is not None:
            which, first, last = others
            start[which], stop[which] = first, last
        lows, highs = start.astype(np.uint8), stop.astype(np.uint8)
        octets.write(self._cells, (self._rank >= lows) & (self._rank <= highs))

    def rows_of(self, codes: Floats) -> Ints:
        """The rows of the texts that have these numbers."""
        known, where = np.unique(codes, return_inverse=True)
        rows = [self.row(self.codes.texts[code]) for code in known.tolist()]
        return np.array(rows, np.int64)[where]

    def set(self, slot: int, predicate: Predicate) -> None:
        """Narrow one slot, which was filled before, by any predicate."""
        kept = np.full(self.rows, _ALL & ~(1 << (slot & 7)), np.uint8)
        for start, stop in self.place(predicate):
            kept[start:stop] = _ALL
        self._cells[:, slot >> 3] &= kept

    def place(self, predicate: Predicate) -> Spans:
        """In which rows a value may satisfy the predicate."""
        bounds = number_bounds(predicate)
        if bounds is not None:
            return [(self.row(bounds[0]), self.row(bounds[1]) + 1)]
        op, operand = predicate.op, predicate.operand
        if op == _EQ:
            row = self.row(operand)  # type: ignore[arg-type]
            return [(row, row + 1)]
        texts, end = 4 + len(self.cuts), self.rows
        if op == Op.EXISTS:
            return [(_FALSE, end)]
        if op == Op.ABSENT:
            return [(_MISSING, _FALSE)]
        if op == Op.IN_CIRCLE or op == Op.NOT_IN_CIRCLE:
            return [(_NUMBERS, texts)]
        if op == Op.IN:
            return self._values(operand)  # type: ignore[arg-type]
        if op == Op.NE:
            return self._all_but(operand)  # type: ignore[arg-type]
        if op == Op.PREFIX or op == Op.RANGE:
            return self._interval(predicate)
        return [(texts, end)]

    def _values(self, values: tuple[Value, ...]) -> Spans:
        return [(row, row + 1) for row in {self.row(value) for value in values}]

    def _all_but(self, value: Value) -> Spans:
        kind, texts = value_type(value), 4 + len(self.cuts)
        if kind is bool:
            return [(_FALSE, _TRUE) if value else (_TRUE, _NUMBERS)]
        return [(_NUMBERS, texts) if kind is float else (texts, self.rows)]

    def _interval(self, predicate: Predicate) -> Spans:
        """Of strings, or of numbers beyond `bounds.EXACT`."""
        low, high, low_open, high_open = region(predicate)
        if isinstance(high if low is None else low, str):
            start, stop = text_bounds(low, high, low_open, high_open)
            first = 4 + len(self.cuts)
            last = len(self.texts) if stop is None else bisect_left(self.texts, stop)
            return [(first + bisect_right(self.texts, start), first + last + 1)]
        first = _NUMBERS if low is None else self.row(low)
        return [(first, 4 + len(self.cuts) if high is None else self.row(high) + 1)]
