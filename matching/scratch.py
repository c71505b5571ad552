"""Scratch buffers: where the cells of some slots are laid beside a point and compared with it.

At a few dozen slots the price of a comparison is that of the calls. numpy compares two arrays of one shape
in a third of the time that it takes for an array and a row, so the point is laid out once for each slot, as
bytes; and arrays of every number of rows are made beforehand. All of them lie over the same memory, which
is kept, and all indexes of the process share it: they are asked by one thread.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ROWS = 255  # what `listing` finds the quick way
_greater, _not, _or = np.greater, np.logical_not, np.logical_or.reduce


class Scratch:
    """For cells of one width, a multiple of two. No value is NaN."""

    def __init__(self, width: int) -> None:
        # Several comparisons are read as one word, which is quicker than to reduce them.
        self._word = np.dtype(f"u{8 if width % 8 == 0 else 4 if width % 4 == 0 else 2}")
        self.single = width == self._word.itemsize
        self._cells, self._points = np.zeros((ROWS, width)), np.zeros((ROWS, width))
        self._above = np.zeros((ROWS, width), np.bool_)
        self.places = [self._place(rows) for rows in range(ROWS + 1)] if width else []

    def _place(self, rows: int) -> tuple[Floats, Floats, memoryview, Bools, npt.NDArray[np.unsignedinteger]]:
        points, above = self._points[:rows], self._above[:rows]
        words = above.view(self._word)
        octets = memoryview(points.ravel()).cast("B")  # type: ignore[arg-type]
        return self._cells[:rows], points, octets, above, words.ravel() if self.single else words

    def below(self, table: Floats, slots: Ints, point: bytes) -> Bools:
        """Which of the slots have every cell of theirs in the table at or below the point's."""
        count = len(slots)
        if not 0 < count < len(self.places):
            return self._any_number_below(table, slots, point)
        cells, points, octets, above, words = self.places[count]
        table.take(slots, 0, cells, "clip")  # without "clip" it would be buffered
        octets[:] = point * count
        _greater(cells, points, above)
        found: Bools = _not(words if self.single else _or(words, 1))
        return found

    def _any_number_below(self, table: Floats, slots: Ints, point: bytes) -> Bools:
        if not point or not len(slots):
            return np.ones(len(slots), np.bool_)
        points = np.frombuffer(point * len(slots)).reshape(len(slots), -1)
        above = (table.take(slots, 0) > points).view(self._word)
        found: Bools = _not(above.ravel() if self.single else _or(above, 1))
        return found


@cache
def scratch(width: int) -> Scratch:
    return Scratch(width)
