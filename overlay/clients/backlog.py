"""Deliveries that wait for a slow subscriber's credit, in the lists they came in.

Work is per drain, not per message: a hundred stopped readers must cost the others next to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from grapevine.wire.messages import Publication

Piece = tuple[list[Publication], list[bytes]]  # publications and the ids beside them


class Backlog:
    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Publication]:
        return (publication for publications, _ in self._pieces for publication in publications)

    def append(self, publications: list[Publication], ids: list[bytes]) -> None:
        if publications:
            self._pieces.append((publications, ids))
            self._length += len(publications)

    def take(self, count: int) -> Piece:
        """The oldest `count`, or all there are."""
        publications: list[Publication] = []
        ids: list[bytes] = []
        while self._pieces and len(publications) < count:
            first, beside = self._pieces.popleft()
            wanted = count - len(publications)
            if len(first) > wanted:
                self._pieces.appendleft((first[wanted:], beside[wanted:]))
            publications += first[:wanted]
            ids += beside[:wanted]
        self._length -= len(publications)
        return publications, ids

    def drop_oldest(self, count: int) -> None:
        self._length -= count
        while count:
            first, beside = self._pieces.popleft()
            if len(first) > count:
                self._pieces.appendleft((first[count:], beside[count:]))
                return
            count -= len(first)

    def drop_newest(self, count: int) -> None:
        self._length -= count
        while count:
            last, beside = self._pieces.pop()
            if len(last) > count:
                self._pieces.append((last[:-count], beside[:-count]))
                return
            count -= len(last)

    def clear(self) -> None:
        self._pieces.clear()
        self._length = 0
