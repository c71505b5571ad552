"""Where the bits of some slots lie in rows of bits, so that many slots of many rows are written at once.

A slot is one bit of an octet in each row: the octets that have any are read, changed and written together,
one column of a matrix each, which costs about as much for a hundred slots as for one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.uint8]


class Octets:
    __slots__ = ("_kept", "_where", "places", "width")

    def __init__(self, slots: Ints) -> None:
        """`slots` ascending."""
        octets = slots >> 3
        first = np.ones(len(slots), np.bool_)
        first[1:] = octets[1:] != octets[:-1]
        used = octets[first]
        self.width = 8 * len(used)  # bits in these octets
        self.places = (first.cumsum() - 1) * 8 + (slots & 7)  # of each slot among them
        taken = np.zeros(self.width, np.bool_)
        taken[self.places] = True
        self._kept = ~_packed(taken)
        start, stop = int(used[0]), int(used[-1]) + 1
        self._where: slice | Ints = slice(start, stop) if stop - start == len(used) else used

    def spread(self, values: Ints) -> Cells:
        """The slots' values, small numbers, at their places."""
        spread = np.zeros(self.width, np.uint8)
        spread[self.places] = values
        return spread

    def write(self, cells: Cells, bits: npt.NDArray[np.bool_]) -> None:
        """Into all rows of `cells`; of `bits` only those of the slots."""
        cells[:, self._where] = cells[:, self._where] & self._kept | _packed(bits) & ~self._kept


def _packed(bits: npt.NDArray[np.bool_]) -> Cells:
    return np.packbits(bits, axis=-1, bitorder="little")
