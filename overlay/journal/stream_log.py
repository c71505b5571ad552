"""A stream's offsets and where their publications lie in the journal.

Offsets are dense, from 1, and never given twice. What follows each other in both is one run, so a stream that
keeps everything costs nothing a message, and one that keeps little two numbers. An offset whose publication
is lost or past the limits belongs to a gap: it is told, never skipped.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

LOST = 0  # no position: the run is a gap


class Piece(NamedTuple):
    """Offsets from `offset` on at positions from `position` on; LOST: a gap."""

    offset: int
    position: int
    items: int

    @property
    def last(self) -> int:
        return self.offset + self.items - 1


class StreamLog:
    __slots__ = ("_offsets", "_positions", "first", "next")

    def __init__(self, first: int = 1, next: int = 1) -> None:
        self._offsets = array("Q")
        self._positions = array("Q")
        self.first = first  # the oldest that is kept
        self.next = first
        if next > first:
            self.lose_to(next)

    def __len__(self) -> int:
        return self.next - self.first

    def append(self, position: int, items: int = 1) -> int:
        """The first of the offsets that these positions get."""
        offset = self.next
        if not self._positions or self._following() != position:
            self._offsets.append(offset)
            self._positions.append(position)
        self.next += items
        return offset

    def _following(self) -> int:
        """The position that would continue the last run."""
        last = self._positions[-1]
        return last + self.next - self._offsets[-1] if last != LOST else -1

    def lose_to(self, next: int) -> None:
        """The offsets before `next` that are not here yet cannot be read."""
        if next > self.next:
            if not self._positions or self._positions[-1] != LOST:
                self._offsets.append(self.next)
                self._positions.append(LOST)
            self.next = next

    def pieces(self, first: int, last: int) -> Iterator[Piece]:
        """What the offsets from `first` to `last` are, in order; only those there are."""
        first, last = max(first, self.first), min(last, self.next - 1)
        run = bisect_right(self._offsets, first) - 1
        while first <= last:
            start, position = self._offsets[run], self._positions[run]
            run += 1
            end = min(last, (self._offsets[run] if run < len(self._offsets) else self.next) - 1)
            yield Piece(first, position + first - start if position != LOST else LOST, end - first + 1)
            first = end + 1

    def lose(self, first: int, last: int) -> list[tuple[int, int]]:
        """These positions cannot be read; the ranges of offsets that become gaps."""
        gaps = []
        rest = StreamLog(self.first, self.first)
        for piece in self.pieces(self.first, self.next - 1):
            low, high = max(piece.position, first), min(piece.position + piece.items - 1, last)
            if piece.position == LOST:
                rest.lose_to(piece.last + 1)
            elif low > high:
                rest.append(piece.position, piece.items)
            else:
                if low > piece.position:
                    rest.append(piece.position, low - piece.position)
                gaps.append((rest.next, rest.next + high - low))
                rest.lose_to(rest.next + high - low + 1)
                if rest.next <= piece.last:
                    rest.append(high + 1, piece.last + 1 - rest.next)
        self._offsets, self._positions = rest._offsets, rest._positions
        return gaps

    def trim(self, first: int) -> None:
        """Everything before this offset goes."""
        first = min(first, self.next)
        if first <= self.first:
            return
        run = bisect_right(self._offsets, first) - 1
        if run >= 0:
            start, position = self._offsets[run], self._positions[run]
            del self._offsets[:run], self._positions[:run]
            if first < self.next:
                self._offsets[0] = first
                self._positions[0] = position + first - start if position != LOST else LOST
            else:
                del self._offsets[:], self._positions[:]
        self.first = first

    def position(self, offset: int) -> int:
        """LOST if it is not there."""
        return next((piece.position for piece in self.pieces(offset, offset)), LOST)

    def oldest(self) -> int | None:
        """The first position that is needed."""
        return next((position for position in self._positions if position != LOST), None)

    def trim_before(self, position: int) -> None:
        """Everything at earlier positions goes."""
        keep = self.next
        for piece in self.pieces(self.first, self.next - 1):
            if piece.position != LOST and piece.position + piece.items > position:
                keep = piece.offset + max(position - piece.position, 0)
                break
        self.trim(keep)
