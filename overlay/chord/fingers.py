"""Fingers: pointers far round the ring that make ways short (DYNATOPS 3, Chord 4.3). They are hints: routing
needs successors only.

A finger points at the root of a place, here + j * base**i; `chord.base` 2 is Chord's, 4 and 16 give more of
them and shorter ways. One place is looked up at a time. Who answers for it answers for all places up to its
own position, so a round takes as many questions as there are different fingers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from grapevine.wire.chord import RingFound, RingLookup, RingNode
from grapevine.wire.limits import HOPS
from overlay.chord.ring import distance, finger_starts, owner, owns
from overlay.core import Core
from overlay.links.session import Session
from overlay.settings import ChordSettings

Found = Callable[[RingNode, float], None]
QUESTIONS = 1_024  # on their way at once; who is not answered asks again


class Place(Protocol):
    """Where we are on the ring, and whom we know there."""

    settings: ChordSettings
    member: bool
    me: RingNode
    predecessor: RingNode | None
    successors: tuple[RingNode, ...]

    def want(self, node: RingNode, now: float) -> None: ...
    def hop_to(self, position: int) -> RingNode | None: ...
    def hop_to_key(self, key: int) -> RingNode | None: ...
    def is_here(self, key: int) -> bool: ...


class Speech(Protocol):
    def tell(self, node: RingNode, message: RingLookup | RingFound) -> bool: ...
    def dead(self, node: RingNode) -> bool: ...


class Fingers:
    def __init__(self, place: Place, contacts: Speech, moved: Callable[[float], None]) -> None:
        self.place = place
        self.contacts = contacts
        self.moved = moved
        self.known: dict[int, RingNode] = {}  # by where they begin
        self._number = 0
        self._asked: dict[int, Found] = {}  # questions on their way, by number
        self._next = 0

    def attach(self, core: Core) -> None:
        core.on(RingLookup, self.on_lookup)
        core.on(RingFound, self.on_found)
        self.moved_to(self.place.me)

    def moved_to(self, me: RingNode) -> None:
        """We are somewhere else on the ring."""
        self.starts = finger_starts(me.position, self.place.settings.base)
        self.known.clear()

    def point(self, nodes: Iterable[RingNode]) -> None:
        """These are all whom they may point at."""
        ordered = sorted({self.place.me, *nodes}, key=lambda node: node.position)
        near = (self.place.me, *self.place.successors[:1])
        owners = ((start, owner(ordered, start)) for start in self.starts)
        self.known = {start: node for start, node in owners if node not in near}

    def forget(self, gone: Callable[[RingNode], bool]) -> None:
        self.known = {start: node for start, node in self.known.items() if not gone(node)}

    def nodes(self) -> Iterator[RingNode]:
        return iter(dict.fromkeys(self.known.values()))

    # --- asking -----------------------------------------------------------------------------------------

    def refresh(self, now: float) -> None:
        """Look up the next place that the first successor does not answer for."""
        place = self.place
        if not place.successors:
            return
        here, first = place.me.position, place.successors[0].position
        for _ in range(len(self.starts)):
            self._next = (self._next + 1) % len(self.starts)
            start = self.starts[self._next]
            if not owns(here, first, start) and not self._ours(start):
                self.find(start, partial(self._found, start), now)
                return
            self.known.pop(start, None)

    def find(self, key: int, found: Found, now: float) -> None:
        """Ask for the root of a key; there may be no answer."""
        self._number += 1
        if len(self._asked) >= QUESTIONS:
            del self._asked[next(iter(self._asked))]
        self._asked[self._number] = found
        self._look_up(RingLookup(self._number, key, self.place.me.position, 0), now)

    def _ours(self, key: int) -> bool:
        before = self.place.predecessor
        return before is not None and owns(before.position, self.place.me.position, key)

    def on_lookup(self, session: Session, lookup: RingLookup, now: float) -> None:
        self._look_up(lookup, now)

    def _look_up(self, lookup: RingLookup, now: float) -> None:
        if not self.place.member or lookup.hops >= HOPS:
            return
        hop = self.place.hop_to_key(lookup.key)
        if hop is not None:
            passed = RingLookup(lookup.number, lookup.key, lookup.asker, lookup.hops + 1)
            self.contacts.tell(hop, passed)
        elif self.place.is_here(lookup.key):
            self._find(RingFound(lookup.number, lookup.asker, self.place.me, 0), now)

    def on_found(self, session: Session, found: RingFound, now: float) -> None:
        self._find(found, now)

    def _find(self, found: RingFound, now: float) -> None:
        if found.asker == self.place.me.position:
            asked = self._asked.pop(found.number, None)
            if asked is not None and self.place.member and not self.contacts.dead(found.node):
                asked(found.node, now)
        elif found.hops < HOPS and (hop := self.place.hop_to(found.asker)) is not None:
            self.contacts.tell(hop, RingFound(found.number, found.asker, found.node, found.hops + 1))

    def _found(self, start: int, node: RingNode, now: float) -> None:
        if node.broker == self.place.me.broker:
            return
        here, reach = self.place.me.position, distance(self.place.me.position, node.position)
        changed = False
        for place, other in enumerate(self.starts):
            if distance(here, start) <= distance(here, other) <= reach:
                changed = changed or self.known.get(other) != node
                self.known[other] = node
                self._next = place
        if changed:
            self.place.want(node, now)
            self.moved(now)
