"""What is to be kept of one drain, each publication once, each publisher's in order.

Streams say one after the other what they want of a batch: what only a later one wants comes behind what an
earlier one does. So everything is put into its publishers' order before it is written; between publishers
there is none to keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from grapevine.wire.messages import Publication
from overlay.journal.bodies import Run

RECORD_ITEMS = 4_096
RECORD_BYTES = 4 << 20
HELD, WANTED = 1, 2


class Part(NamedTuple):
    """For one record: by stream the indexes that it wants."""

    publications: list[Publication]
    runs: list[Run]
    wanted: dict[int, list[int]]


class Pool:
    __slots__ = ("_places", "held", "publications", "wanted")

    def __init__(self) -> None:
        self.publications: list[Publication] = []
        self.held: list[bool] = []
        self.wanted: dict[int, list[int]] = {}
        # Who is where, once a stream asks; the pool holds them, so nobody else has their ids.
        self._places: dict[int, int] = {}

    def hold(self, publications: list[Publication]) -> None:
        self.publications += publications
        self.held += [True] * len(publications)

    def want(self, stream: int, publications: list[Publication]) -> None:
        places, known = self._places, self.publications
        for index in range(len(places), len(known)):
            places[id(known[index])] = index
        wanted = self.wanted.setdefault(stream, [])
        for publication in publications:
            place = places.get(id(publication))
            if place is None:
                place = places[id(publication)] = len(known)
                known.append(publication)
                self.held.append(False)
            wanted.append(place)

    def _sort(self) -> None:
        known = self.publications
        order = sorted(
            range(len(known)),
            key=lambda place: (known[place].publisher, known[place].incarnation, known[place].sequence),
        )
        moved = {old: new for new, old in enumerate(order)}
        self.publications = [known[place] for place in order]
        self.held = [self.held[place] for place in order]
        self.wanted = {
            stream: sorted([moved[place] for place in places]) for stream, places in self.wanted.items()
        }

    def parts(self) -> Iterator[Part]:
        """Records of bounded size."""
        if len(self.wanted) > 1 or (self.wanted and any(self.held)):
            self._sort()
        start = 0
        for end in self._ends():
            wanted = {
                stream: [place - start for place in places if start <= place < end]
                for stream, places in self.wanted.items()
            }
            publications = self.publications[start:end]
            runs = _runs(publications, _states(self.held[start:end], wanted.values()))
            yield Part(publications, runs, {stream: places for stream, places in wanted.items() if places})
            start = end

    def _ends(self) -> Iterator[int]:
        start = size = 0
        for index, publication in enumerate(self.publications):
            if size >= RECORD_BYTES or index - start >= RECORD_ITEMS:
                yield index
                start, size = index, 0
            size += len(publication.payload) + len(publication.attributes)
        yield len(self.publications)


def _states(held: list[bool], wanted: Iterable[list[int]]) -> list[int]:
    """Of each whether it is taken into custody, and whether a stream wants it. A run is alike in both: its
    last number is the last that streams have of it. Where routes are asked for first, custody is ahead of
    them."""
    states = [HELD if one else 0 for one in held]
    for places in wanted if any(held) else ():
        for place in places:
            states[place] |= WANTED
    return states


def runs_of(publications: list[Publication]) -> list[Run]:
    """Of publications that are in custody, in any order."""
    return _runs(publications, [HELD] * len(publications))


def _runs(publications: list[Publication], states: list[int]) -> list[Run]:
    runs: list[Run] = []
    publisher = incarnation = first = last = start = 0
    state = 0
    for index, publication in enumerate(publications):
        sequence = publication.sequence
        if (
            index
            and publication.publisher == publisher
            and publication.incarnation == incarnation
            and states[index] == state
            and sequence > last
        ):
            last = sequence
            continue
        if index:
            runs.append(Run(publisher, incarnation, first, last, start, index - start, bool(state & HELD)))
        publisher, incarnation = publication.publisher, publication.incarnation
        first = last = sequence
        start, state = index, states[index]
    if publications:
        items = len(publications) - start
        runs.append(Run(publisher, incarnation, first, last, start, items, bool(state & HELD)))
    return runs
