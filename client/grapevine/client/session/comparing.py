"""Results of a channel without `new`: the whole query runs every period, and changes are delivered.

What an execution gave, set by set, is kept with its results under `STATE`, in one commit with what is
delivered: whoever runs the next execution, or the same one again, compares with the same rows. A row that is
there twice is two rows. A set that is new has everything as added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from grapevine.wire.driving import STATE, Run, rows_of, run_of

Runs: TypeAlias = list[Run]
Before: TypeAlias = dict[int, list[bytes]]  # back-end subscription -> its rows, without the time

PART_BYTES = 1 << 20
_row = msgspec.msgpack.Decoder(tuple[float, msgspec.Raw]).decode
_kept = msgspec.msgpack.Decoder(tuple[int, list[bytes]]).decode
_encode = msgspec.msgpack.encode


def read_state(rows: Iterable[bytes]) -> Before:
    found: Before = {}
    for be, part in map(_kept, rows):
        found.setdefault(be, []).extend(part)
    return found


def compared(before: Before, runs: Runs, sets: Iterable[int], at: float) -> Runs:
    """What is delivered: rows that were not there before, in the result's order, then those that are gone;
    and the state of all sets."""
    results = {run.be: [bytes(_row(row)[1]) for row in rows_of(run)] for run in runs}
    delivered: Runs = []
    state: list[bytes] = []
    for be in sorted(sets):
        now, then = results.get(be, []), before.get(be, [])
        state += [_encode((be, part)) for part in parts(now)]
        found = [_encode((at, msgspec.Raw(row))) for row in surplus(now, then)]
        found += [_encode((at, msgspec.Raw(row), True)) for row in surplus(then, now)]
        if found:
            delivered.append(run_of(be, found))
    return [run_of(STATE, state), *delivered] if state else delivered


def parts(rows: list[bytes]) -> list[list[bytes]]:
    """So that none is too much for a message."""
    found: list[list[bytes]] = []
    size = 0
    for row in rows:
        if not found or size + len(row) > PART_BYTES:
            found.append([])
            size = 0
        found[-1].append(row)
        size += len(row)
    return found


def surplus(rows: list[bytes], others: list[bytes]) -> list[bytes]:
    """Rows beyond those that the others have too; of equal ones the last are more."""
    left = Counter(others)
    found = []
    for row in rows:
        if left[row] > 0:
            left[row] -= 1
        else:
            found.append(row)
    return found
