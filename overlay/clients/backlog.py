"""Deliveries that wait for a slow subscriber's credit, in the lists they came in.

Work is per drain, not per message: a hundred stopped readers must cost the others next to nothing. So a
list is never copied or cut here, only the part of it that is still wanted moves; several backlogs may
share one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from grapevine.wire.messages import Publication

OWN = -1


class Piece(NamedTuple):
    """publications[low:high] and what is beside them in `ids`: the client's own, or of routes that list it
    at `place`."""

    publications: list[Publication]
    ids: list[Any]  # bytes if `place` is OWN, else tuples of them
    place: int
    low: int
    high: int

    def part(self, low: int, high: int) -> Piece:
        return Piece(self.publications, self.ids, self.place, low, high)

    def listed(self, high: int) -> list[bytes]:
        """The client's ids from `low` to `high`."""
        ids = self.ids[self.low : high]
        return ids if self.place == OWN else [each[self.place] for each in ids]


class Backlog:
    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Publication]:
        return (p for piece in self._pieces for p in islice(piece.publications, piece.low, piece.high))

    def append(self, publications: list[Publication], ids: list[bytes]) -> None:
        """Lists that nobody changes from now on."""
        self.share(publications, ids, OWN)

    def share(self, publications: list[Publication], ids: list[Any], place: int) -> None:
        """The same, with the ids of routes that list the client at `place`."""
        if count := len(publications):
            self._pieces.append(Piece(publications, ids, place, 0, count))
            self._length += count

    def take(self, count: int) -> tuple[list[Publication], list[bytes]]:
        """The oldest `count`, or all there are, and the ids beside them."""
        publications: list[Publication] = []
        ids: list[bytes] = []
        pieces = self._pieces
        while pieces and len(publications) < count:
            first = pieces.popleft()
            end = min(first.high, first.low + count - len(publications))
            publications += first.publications[first.low : end]
            ids += first.listed(end)
            if end < first.high:
                pieces.appendleft(first.part(end, first.high))
        self._length -= len(publications)
        return publications, ids

    def drop_oldest(self, count: int) -> None:
        self._length -= count
        while count:
            first = self._pieces.popleft()
            size = first.high - first.low
            if size > count:
                self._pieces.appendleft(first.part(first.low + count, first.high))
                return
            count -= size

    def drop_newest(self, count: int) -> None:
        self._length -= count
        while count:
            last = self._pieces.pop()
            size = last.high - last.low
            if size > count:
                self._pieces.append(last.part(last.low, last.high - count))
                return
            count -= size

    def clear(self) -> None:
        self._pieces.clear()
        self._length = 0
