"""Whom a durable publication did not reach: nothing newer of its publisher and topic may come there first.

A duplicate is recognised by the last number that came of a publisher and topic: 6 before 5 would make 5 one,
and a stream would miss it for good. Its first broker keeps what was cut, holds newer ones back and sends all
of it again, the oldest first (journal/stranded.py). What it had sent before it heard of the cut is still on
its way: every broker that cuts a durable publication, or that such a cut comes back through, ends those as
cut too, until the first of a replay comes by. On the way down only for those whom the lost one was for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from grapevine.wire.messages import CUT_LINK_LOST, DURABLE, OLDEST, Publication
from overlay.chord.away import FOREVER
from overlay.chord.ways import Targets
from overlay.core import Core
from overlay.links.settling import Settling, cuts_of

EVERYBODY = frozenset[int]()  # on the way up nobody knows yet whom it is for
NOBODY = (frozenset((-1,)), 0.0)
MOST = 10_000  # keys; more are looked through for those that nobody has named for long
Key = tuple[int, int, int]  # publisher, incarnation, topic


def key_of(publication: Publication, topic: int) -> Key:
    return (publication.publisher, publication.incarnation, topic)


def oldest_first(replayed: Iterable[tuple[Publication, int]]) -> Iterator[tuple[Publication, int]]:
    """Of each topic the first is marked: nothing older of it is owed by who sends them."""
    begun: set[int] = set()
    for publication, topic in replayed:
        if topic not in begun:
            begun.add(topic)
            publication.flags |= OLDEST
        yield publication, topic


class Behind:
    def __init__(self, topic: Callable[[bytes], int | None]) -> None:
        self._topic = topic  # by attributes
        self._known: dict[Key, tuple[frozenset[int], float]] = {}  # positions, when they were last named

    def attach(self, core: Core) -> None:
        self.core = core

    def __bool__(self) -> bool:
        return bool(self._known)

    # --- who is -------------------------------------------------------------------------------------------

    def heard(self, publication: Publication, positions: Iterable[int], reason: int) -> None:
        """It was cut, here or further on, and did not reach these; none: nobody knows whom."""
        topic = self._topic(publication.attributes)
        if reason == CUT_LINK_LOST and publication.flags & DURABLE and topic is not None:
            self._miss(key_of(publication, topic), frozenset(positions), self.core.now)

    def _miss(self, key: Key, missed: frozenset[int], now: float) -> None:
        before, _ = self._known.pop(key, (missed, now))
        self._known[key] = (missed | before if missed and before else EVERYBODY, now)
        if len(self._known) > MOST:  # a replay comes sooner, if there is one
            since = now - FOREVER * self.core.settings.links.lost_after_s
            self._known = {key: known for key, known in self._known.items() if known[1] > since}

    def take_over(self, before: Behind) -> None:
        """Of a plane that is gone: what was on its way there enters ours."""
        for key, (_, at) in before._known.items():
            self._known[key] = (EVERYBODY, at)

    # --- what comes ---------------------------------------------------------------------------------------

    def come_by(self, publications: Iterable[Publication]) -> None:
        """Nobody is behind with a publisher and topic whose replay begins with one of these."""
        for publication in publications:
            if publication.flags & OLDEST and (topic := self._topic(publication.attributes)) is not None:
                self._known.pop(key_of(publication, topic), None)

    def goes_on(
        self, run: list[Publication], topic: int, record: Settling, now: float, leaves: bool
    ) -> list[Publication]:
        """Up: those that nothing older is owed before. The others end as cut, and come again after it. What
        `leaves` goes to a root that does not know whom we have missed, as what waited for a new one does."""
        kept: list[Publication] = []
        for publication in run:
            key = key_of(publication, topic)
            if (leaves and key in self._known) or self._known.get(key, NOBODY)[0] == EVERYBODY:
                self._cut(publication, key, EVERYBODY, record, now)
            else:
                kept.append(publication)
        return kept

    def split(
        self, run: list[Publication], targets: Targets, record: Settling, now: float
    ) -> Iterator[tuple[Publication, Targets]]:
        """Down: each with those who lack nothing older."""
        for publication in run:
            key = key_of(publication, self._topic(publication.attributes) or 0)
            positions, _ = self._known.get(key, NOBODY)
            without = frozenset(one for one in targets if positions == EVERYBODY or one in positions)
            if without:
                self._cut(publication, key, without, record, now)
            yield publication, tuple(one for one in targets if one not in without)

    def _cut(
        self, publication: Publication, key: Key, missed: frozenset[int], record: Settling, now: float
    ) -> None:
        record.cuts += cuts_of([publication], CUT_LINK_LOST)
        if publication.flags & DURABLE:
            self._miss(key, missed, now)
