"""The match of a block in Python, as one function that has all it needs at hand.

It does what `Block._hits` does in small steps: the rows that a publication falls in, ANDed; the ones, listed
(`listing`); their cells, compared (`scratch`). At a few dozen candidates each step takes a microsecond at
most, so a call more, or looking up the parts of the block, is a hundredth of the whole. Whoever replaces one
of the arrays makes another function. The rows of the first attribute are kept without the slots that are not
`placed`, which spares one AND in five; whoever changes `placed` clears them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from bitarray import bitarray
from bitarray.util import sc_encode

from grapevine.filters.normal import Value
from matching.interface import Attributes
from matching.listing import BLOCK, FIRST, INT, MANY, POSITION, TWO_BYTES, unpacked
from matching.scratch import scratch

Fall = Callable[[Value | None], tuple[bitarray, float, float]]
Step = tuple[str, list[float], list[bitarray], Fall, int, int]  # attribute, cuts, rows, `fall`, columns
Find = Callable[[Attributes], list[int]]
_NOTHING: Any = (None, [], [], None, 0, 0)  # no publication has it
_frombuffer, _greater, _not = np.frombuffer, np.greater, np.logical_not


def finder(
    plan: list[Step],
    placed: bitarray,
    kept: dict[int, bitarray],
    cells: npt.NDArray[np.float64],
    sids: npt.NDArray[np.int64],
    vector: npt.NDArray[np.float64],
) -> Find:
    """The ids of the placed slots that match. `vector` is for the publication's numbers."""
    compare = scratch(cells.shape[1])
    places: Any = compare.places if compare.single and len(placed) <= BLOCK else ()
    at: memoryview[float] = memoryview(vector)  # type: ignore[arg-type]
    take, point, below = cells.take, vector.tobytes, compare.below
    (first, cuts_of_first, rows_of_first, _, low_of_first, high_of_first), *others = plan or [_NOTHING]
    kind = 1 + (len(placed).bit_length() + 7) // 8  # its place in what sc_encode writes

    def find(attributes: Attributes) -> list[int]:
        get = attributes.get
        value = get(first)
        if type(value) is float:
            place = bisect_right(cuts_of_first, value)
            row = kept.get(place)
            if row is None:
                row = kept[place] = placed & rows_of_first[place]
            left = row.copy()
            at[low_of_first] = value
            at[high_of_first] = -value
            steps = others
        else:
            left = placed.copy()
            steps = plan
        for attribute, cuts, numbers, fall, low, high in steps:
            value = get(attribute)
            if type(value) is float:
                left &= numbers[bisect_right(cuts, value)]
                at[low] = value
                at[high] = -value
            else:
                row, at[low], at[high] = fall(value)
                left &= row
        if left.count(1, 0, FIRST) < MANY:
            written = sc_encode(left)
            if not written[kind]:
                return []
            if written[kind] == TWO_BYTES and places:
                count = written[kind + 1]
                slots = _frombuffer(written, POSITION, count, kind + 2).astype(INT)
                laid, points, octets, above, words = places[count]
                take(slots, 0, laid, "clip")
                octets[:] = point() * count
                _greater(laid, points, above)
                return sids[slots][_not(words)].tolist()  # type: ignore[no-any-return]
        slots = unpacked(left)
        return sids[slots][below(cells, slots, point())].tolist()  # type: ignore[no-any-return]

    return find
