"""Durable publications that lie in this broker's journal and are not settled.

A publisher's are settled in the order of its numbers, so one number frees all up to it. A piece is freed as
a whole: what is replayed of it though settled is recognised as a duplicate where it was delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from overlay.journal.bodies import Source


class Held(NamedTuple):
    position: int
    items: int
    first: int  # sequence numbers
    last: int


class Custody:
    def __init__(self) -> None:
        self.held: dict[Source, deque[Held]] = {}
        self.settled: dict[Source, int] = {}  # of those who have something here
        self.items = 0
        self._returned: set[Source] = set()  # some of theirs lie behind newer ones

    def take(self, source: Source, held: Held) -> None:
        if held.last <= self.settled.get(source, 0):
            return  # came again after it was settled
        pieces = self.held.setdefault(source, deque())
        if pieces and pieces[-1].last >= held.first:
            if not _insert(pieces, held):
                return
            self._returned.add(source)
        else:
            pieces.append(held)
        self.items += held.items

    def settle(self, source: Source, sequence: int) -> bool:
        """Everything up to this number is settled; whether that was news."""
        pieces = self.held.get(source)
        if pieces is None or sequence <= self.settled.get(source, 0):
            return False
        while pieces and pieces[0].last <= sequence:
            self.items -= pieces.popleft().items
        if pieces:
            self.settled[source] = sequence
        else:
            self.forget(source)
        return True

    def has(self, source: Source, sequence: int) -> bool:
        """Whether it is here, or settled as far as is known here."""
        if sequence <= self.settled.get(source, 0):
            return True
        pieces = self.held.get(source)
        if not pieces or sequence > pieces[-1].last:
            return False
        return any(held.first <= sequence <= held.last for held in pieces)

    def note(self, source: Source, sequence: int) -> None:
        """The same while records are read: what it settles may be read later."""
        pieces = self.held.get(source)
        while pieces and pieces[0].last <= sequence:
            self.items -= pieces.popleft().items
        self.settled[source] = max(sequence, self.settled.get(source, 0))

    def finish(self) -> None:
        """Everything has been read."""
        self.held = {source: pieces for source, pieces in self.held.items() if pieces}
        self.settled = {source: mark for source, mark in self.settled.items() if source in self.held}

    def forget(self, source: Source) -> list[Held]:
        """It is given up; what was there."""
        self.settled.pop(source, None)
        self._returned.discard(source)
        pieces = list(self.held.pop(source, ()))
        self.items -= sum(held.items for held in pieces)
        return pieces

    def lose(self, first: int, last: int) -> list[tuple[Source, Held]]:
        """These positions cannot be read any more; what was among them."""
        lost = [
            (source, held)
            for source, pieces in self.held.items()
            for held in pieces
            if held.position <= last and held.position + held.items > first
        ]
        for source, held in lost:
            self.held[source].remove(held)
            self.items -= held.items
            if not self.held[source]:
                self.forget(source)
        return lost

    def marks(self) -> list[tuple[int, int, int]]:
        return [(*source, sequence) for source, sequence in sorted(self.settled.items())]

    def oldest(self) -> int | None:
        """The first position that is needed."""
        firsts = [pieces[0].position for pieces in self.held.values() if pieces]
        firsts += [held.position for source in self._returned for held in self.held.get(source, ())]
        return min(firsts, default=None)

    def __iter__(self) -> Iterator[Source]:
        return iter(list(self.held))


def _insert(pieces: deque[Held], held: Held) -> bool:
    """Where it belongs; False if others have what it has."""
    place = next(index for index, piece in enumerate(pieces) if piece.last >= held.first)
    if pieces[place].first <= held.last:
        return False
    pieces.insert(place, held)
    return True
