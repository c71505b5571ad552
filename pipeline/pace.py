"""Rows let through at a rate, or as their own time says, sped up. By one task, a slice at a time.

A rate is kept on average: what was late is made up for. By their own time, rows wait from the first one on;
one that is earlier than a row before it does not wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SLICES_S = 50  # of a rate
LONGEST_SLICE = 2_000

Batches = Iterator["pa.RecordBatch"]
Pace = Callable[[Batches], Batches]


def slice_rows(rate: float) -> int:
    return max(1, min(LONGEST_SLICE, int(rate / SLICES_S)))


def by_rate(rate: float) -> Pace:
    rows = slice_rows(rate)

    def work(batches: Batches) -> Batches:
        began, sent = time.monotonic(), 0
        for batch in batches:
            for at in range(0, batch.num_rows, rows):
                wait_until(began + sent / rate)
                part = batch.slice(at, rows)
                yield part
                sent += part.num_rows

    return work


def by_time(column: int, speed: float) -> Pace:
    """Rows of one moment go together; the column with this number is in seconds."""

    def work(batches: Batches) -> Batches:
        began, first = time.monotonic(), None
        for batch in batches:
            at = 0
            moments = batch.column(column).to_pylist()
            for end in ends(moments):
                if first is None:
                    first = moments[at]
                wait_until(began + (moments[at] - first) / speed)
                yield batch.slice(at, end - at)
                at = end

    return work


def ends(moments: list[float]) -> Iterator[int]:
    """Where runs of one moment end, none longer than a slice."""
    start = 0
    for at in range(1, len(moments) + 1):
        if at == len(moments) or moments[at] != moments[start] or at - start >= LONGEST_SLICE:
            yield at
            start = at


def wait_until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
