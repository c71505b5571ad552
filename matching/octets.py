"""Where the bits of some slots lie in rows of bits, so that many slots of many rows are written at once.

A slot is one bit of an octet in each row. Slots that fill their octets are written over what is there. Of
others the octets are read, changed and written together, one column of a matrix each, which costs about as
much for a hundred slots as for one; two slots of one octet go one after the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


class Octets:
    __slots__ = ("_turns", "_whole")

    def __init__(self, slots: Ints) -> None:
        """`slots` ascending, at least one."""
        first, end = int(slots[0]), int(slots[-1]) + 1
        self._whole: slice | None = None
        self._turns: list[_Turn] = []
        if end - first == len(slots) and not first & 7 and not end & 7:
            self._whole = slice(first >> 3, end >> 3)
            return
        octets = slots >> 3
        starts = np.flatnonzero(np.diff(octets, prepend=-1))
        turn = np.arange(len(slots)) - np.repeat(starts, np.diff(starts, append=len(slots)))
        for number in range(int(turn.max()) + 1):
            self._turns.append(_Turn(np.flatnonzero(turn == number), slots))

    def write(self, cells: Cells, within: Bools) -> None:
        """`within` has a column for each slot and a row for each of `cells`."""
        if self._whole is not None:
            cells[:, self._whole] = np.packbits(within, axis=-1, bitorder="little")
        for turn in self._turns:
            turn.write(cells, within)


class _Turn:
    """Slots in octets of their own."""

    __slots__ = ("_bit", "_chosen", "_kept", "_octets")

    def __init__(self, chosen: Ints, slots: Ints) -> None:
        self._chosen = chosen if len(chosen) < len(slots) else None  # else all
        slots = slots[chosen]
        self._octets = slots >> 3
        self._bit = (slots & 7).astype(np.uint8)
        self._kept = ~(np.uint8(1) << self._bit)

    def write(self, cells: Cells, within: Bools) -> None:
        if self._chosen is not None:
            within = within.take(self._chosen, 1)
        bits = within.view(np.uint8) << self._bit
        cells[:, self._octets] = cells.take(self._octets, 1) & self._kept | bits
