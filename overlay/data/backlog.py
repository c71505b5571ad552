"""Deliveries that wait for a slow subscriber's credit, in the lists they came in.

Work is per drain, not per message: a hundred stopped readers must cost the others next to nothing. So a
list is never copied or cut here, only the part of it that is still wanted moves; several backlogs may
share one. A list is weighed once for all who share it. Only who drops by bytes copies what is left, so that
the memory goes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import ref

from grapevine.wire.messages import Publication

OWN = -1
OBJECT_BYTES = 256  # of a publication in memory, beside its payload and its attributes
_payload, _attributes = attrgetter("payload"), attrgetter("attributes")


def weigh(publications: Sequence[Publication]) -> int:
    """Their bytes in memory, about."""
    contents = sum(map(len, map(_payload, publications))) + sum(map(len, map(_attributes, publications)))
    return contents + OBJECT_BYTES * len(publications)


class Weighed:
    """A list that nobody changes any more, of `size` bytes; sums of its parts are made when asked."""

    __slots__ = ("__weakref__", "_sums", "publications", "size")

    def __init__(self, publications: list[Publication], size: int) -> None:
        self.publications = publications
        self.size = size
        self._sums: list[int] = []

    @property
    def sums(self) -> list[int]:
        """Of the bytes before each index."""
        if not self._sums:
            sizes = (OBJECT_BYTES + len(p.payload) + len(p.attributes) for p in self.publications)
            self._sums = list(accumulate(sizes, initial=0))
        return self._sums


class Weigher:
    """Weighs the lists of one drain. Slow subscribers of the same content come one after the other with equal
    lists: to see that two are the same objects takes a tenth of weighing one."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Callable[[], Weighed | None] = lambda: None

    def __call__(self, publications: list[Publication]) -> Weighed:
        last = self._last()
        if last is None or last.publications != publications:
            last = Weighed(publications, weigh(publications))
            self._last = ref(last)  # weak: memory goes with the last backlog that has it
        return last


_weighed = Weigher()


class Piece(NamedTuple):
    """The publications low:high of a list, `size` bytes of it, with the `ids` beside them: the client's own,
    or of routes that list it at `place`."""

    whole: Weighed
    ids: list[Any]  # bytes if `place` is OWN, else tuples of them
    place: int
    low: int
    high: int
    size: int

    def split(self, at: int) -> tuple[Piece, Piece]:
        """Those below the index `at`, and the others."""
        sums = self.whole.sums
        below = sums[at] - sums[self.low]
        return self._replace(high=at, size=below), self._replace(low=at, size=self.size - below)

    def alone(self) -> Piece:
        """The same in a list of its own: the rest of the other may go."""
        whole = Weighed(self.publications(), self.size)
        return Piece(whole, self.ids[self.low : self.high], self.place, 0, self.high - self.low, self.size)

    def fitting(self, size: int) -> int:
        """The index behind the first publications that have so many bytes together, or behind all."""
        sums = self.whole.sums
        return bisect_left(sums, sums[self.low] + size, self.low, self.high)

    def leaving(self, size: int) -> int:
        """The index before the last publications that have so many bytes together, or before all."""
        sums = self.whole.sums
        return max(self.low, bisect_right(sums, sums[self.high] - size, self.low, self.high + 1) - 1)

    def publications(self) -> list[Publication]:
        return self.whole.publications[self.low : self.high]

    def listed(self) -> list[bytes]:
        """The client's ids."""
        ids = self.ids[self.low : self.high]
        return ids if self.place == OWN else [each[self.place] for each in ids]


class Backlog:
    __slots__ = ("_pieces", "length", "size")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self.length = 0  # asked after each drain of each client
        self.size = 0  # bytes

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Publication]:
        return (p for piece in self._pieces for p in islice(piece.whole.publications, piece.low, piece.high))

    def append(self, publications: list[Publication], ids: list[bytes]) -> None:
        """Lists that nobody changes from now on."""
        self.share(_weighed(publications), ids, OWN)

    def share(self, whole: Weighed, ids: list[Any], place: int) -> None:
        """The same, with the ids of routes that list the client at `place`."""
        if count := len(whole.publications):
            self._pieces.append(Piece(whole, ids, place, 0, count, whole.size))
            self.length += count
            self.size += whole.size

    def take(self, count: int, size: int) -> tuple[list[Publication], list[bytes]]:
        """The oldest `count` at most, or as many as have `size` bytes, but one; and the ids beside them."""
        publications: list[Publication] = []
        ids: list[bytes] = []
        while self._pieces and len(publications) < count and size > 0:
            first = self._pieces[0]
            end = min(first.high, first.low + count - len(publications))
            if first.size > size:
                end = min(end, first.fitting(size))
            piece = self._remove(end)
            publications += piece.publications()
            ids += piece.listed()
            size -= piece.size
        return publications, ids

    def latest_ids(self, count: int) -> list[bytes]:
        """The ids beside the newest deliveries, about `count` of them."""
        found: list[bytes] = []
        for piece in reversed(self._pieces):
            low = max(piece.low, piece.high - (count - len(found)))
            found += piece._replace(low=low).listed()
            if len(found) >= count:
                break
        return found

    def drop(self, count: int, newest: bool) -> None:
        """So many, the oldest or the newest."""
        while count:
            piece = self._pieces[-1 if newest else 0]
            if newest:
                gone = self._remove_last(max(piece.low, piece.high - count))
            else:
                gone = self._remove(min(piece.high, piece.low + count))
            count -= gone.high - gone.low

    def drop_bytes(self, size: int, newest: bool) -> int:
        """So many bytes of the oldest or the newest; how many deliveries these were."""
        before = self.length
        while size > 0 and self._pieces:
            piece = self._pieces[-1 if newest else 0]
            if newest:
                gone = self._remove_last(piece.leaving(size))
            else:
                gone = self._remove(piece.fitting(size))
            size -= gone.size
        if self._pieces:
            place = -1 if newest else 0
            self._pieces[place] = self._pieces[place].alone()
        return before - self.length

    def _remove(self, end: int) -> Piece:
        """The oldest piece, up to this index of its list."""
        piece = self._pieces.popleft()
        if end < piece.high:
            piece, rest = piece.split(end)
            self._pieces.appendleft(rest)
        return self._gone(piece)

    def _remove_last(self, begin: int) -> Piece:
        """The newest piece, from this index of its list on."""
        piece = self._pieces.pop()
        if begin > piece.low:
            rest, piece = piece.split(begin)
            self._pieces.append(rest)
        return self._gone(piece)

    def _gone(self, piece: Piece) -> Piece:
        self.length -= piece.high - piece.low
        self.size -= piece.size
        return piece

    def clear(self) -> None:
        self._pieces.clear()
        self.length = self.size = 0
