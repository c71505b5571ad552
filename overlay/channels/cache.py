"""Results that a broker holds for its subscribers: of each back-end subscription the rows from some position
on, without a gap. Over its limit the least recently used back-end subscription is emptied: who is behind
pulls for itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

from grapevine.wire.channels import ResultRows

ROWS_IN_ONE = 16_384  # of a message


class Held:
    """Rows after `begin` and up to `through`."""

    __slots__ = ("begin", "through", "positions", "rows", "size")

    def __init__(self, begin: int) -> None:
        self.begin = self.through = begin
        self.positions: list[int] = []
        self.rows: list[bytes] = []
        self.size = 0

    def after(self, position: int, most: int) -> tuple[list[tuple[int, bytes]], int]:
        """Rows after a position, at most so many bytes but one row at least, and what they are complete up
        to."""
        first = bisect_right(self.positions, position)
        found: list[tuple[int, bytes]] = []
        size = 0
        for at in range(first, len(self.rows)):
            row = self.rows[at]
            if found and (size + len(row) > most or len(found) >= ROWS_IN_ONE):
                return found, found[-1][0]
            found.append((self.positions[at], row))
            size += len(row)
        return found, self.through


class Cache:
    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.size = 0
        self.held: OrderedDict[int, Held] = OrderedDict()

    def begin(self, be: int, position: int) -> Held:
        held = self.held.get(be)
        if held is None:
            held = self.held[be] = Held(position)
        return held

    def add(self, be: int, after: int, rows: ResultRows, through: int) -> None:
        """What a pull from `after` on gave; a repetition or a gap changes nothing."""
        held = self.held.get(be)
        if held is None or after > held.through:
            return
        for position, row in rows:
            if position > held.through:
                held.positions.append(position)
                held.rows.append(row)
                held.size += len(row)
                self.size += len(row)
        held.through = max(held.through, through)
        self.held.move_to_end(be)
        self._shrink()

    def _shrink(self) -> None:
        for held in self.held.values():
            if self.size <= self.limit_bytes:
                return
            self._empty(held)

    def _empty(self, held: Held) -> None:
        self.size -= held.size
        held.begin, held.size = held.through, 0
        held.positions.clear()
        held.rows.clear()

    def skip(self, be: int, position: int) -> None:
        """Go on from a later position: nobody here needs what lies between."""
        held = self.held[be]
        self._empty(held)
        held.begin = held.through = position

    def drop(self, be: int) -> None:
        if (held := self.held.pop(be, None)) is not None:
            self.size -= held.size
