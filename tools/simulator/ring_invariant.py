"""What must hold of a whole ring after every step: Zave's invariant, and that no topic has two roots.

A member is a broker on the ring that runs; an entry of a list is live if that node is one. Zave's proof keeps
these, and from them that the members are one ring in the order of their positions with everybody else on a
way into it; both are looked at, because a ring of few brokers cannot have as many principals as the proof
asks for:

* every member's list has a live entry, and no list passes its own node or names one twice;
* the first live entries of all lists lead into one cycle, which goes round once;
* at least r + 1 members are principals: no list passes over them. (Looked at by `principals`; the faults
  count when they leave fewer.)

A broker that is the root of a key has all that is known of its members. If two were, publications of one
would miss who is known to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from grapevine.wire.chord import RingNode
from overlay.chord.membership import Membership
from overlay.chord.ring import SIZE, between, distance
from overlay.chord.roots import Roots

Lists = Mapping[RingNode, Sequence[RingNode]]  # of the members


def broken(lists: Lists, live: frozenset[RingNode] | set[RingNode]) -> Iterator[str]:
    """What does not hold. `live` may hold more than the members: who is about to be one."""
    following: dict[RingNode, RingNode] = {}
    for node, successors in lists.items():
        steps = [distance(node.position, one.position) for one in successors]
        if 0 in steps or any(one >= other for one, other in pairwise(steps)):
            yield f"{node.name}'s list is out of order: {names(successors)}"
        first = next((one for one in successors if one in live), None)
        if first is not None:
            following[node] = first
        elif len(lists) > 1:
            yield f"{node.name} has no live successor: {names(successors)}"
    if len(following) == len(lists) and all(one in following for one in following.values()):
        yield from cycles(following)


def cycles(following: Mapping[RingNode, RingNode]) -> Iterator[str]:
    """Whether all ways lead into one cycle that goes round once."""
    seen: dict[RingNode, int] = {}
    rings = 0
    for place, start in enumerate(following):
        node = start
        while node not in seen:
            seen[node] = place
            node = following[node]
        if seen[node] == place:
            rings += 1
            ring = [node]
            while (node := following[node]) != ring[0]:
                ring.append(node)
            turns = sum(distance(a.position, b.position) for a, b in pairwise([*ring, ring[0]]))
            if len(ring) > 1 and turns != SIZE:
                yield f"the ring goes round {turns // SIZE} times: {names(ring)}"
    if rings > 1:
        yield f"{rings} rings"


def principals(lists: Lists) -> set[RingNode]:
    """Members that no member's list, begun with itself, passes over."""
    found = set(lists)
    for node, successors in lists.items():
        for one, other in pairwise((node, *successors)):
            if one.position != other.position:
                found -= {n for n in found if between(one.position, n.position, other.position)}
    return found


def two_roots(arcs: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """Of brokers by name, each from `begin` (not included) to its own position."""
    spans = sorted((end, distance(begin, end) or SIZE, name) for name, begin, end in arcs)
    for (end, _, name), (after, length, other) in pairwise([*spans, *spans[:1]]):
        if name != other and length > (distance(end, after) or SIZE):
            yield f"{other} is the root of what {name} is the root of"


def emitting(ring: Membership, roots: Roots) -> tuple[str, int, int] | None:
    """The arc that a broker sends from as a root: what it is giving away waits."""
    begin = roots.begin if roots.giving is None else roots.giving.end
    if begin is None or (roots.giving is not None and begin == ring.me.position):
        return None
    return ring.me.name, begin, ring.me.position


def names(nodes: Iterable[RingNode]) -> str:
    return ", ".join(node.name for node in nodes)


class RingWatch:
    """Follows the pointers and arcs of all brokers; what it finds broken is told once."""

    def __init__(self, every: int = 1) -> None:
        self.every = every  # of so many changes one is looked at
        self.checked = self.changes = 0
        self._known: dict[tuple[int, int], object] = {}  # by broker and plane
        self._told: set[str] = set()

    def look(self, broker: tuple[int, int], ring: Membership, roots: Roots) -> bool:
        """Whether something of this one has changed since the last step, and it is its turn."""
        state = (ring.me, ring.member, ring.successors, roots.begin, roots.giving)
        if self._known.get(broker) == state:
            return False
        self._known[broker] = state
        self.changes += 1
        return not self.changes % self.every

    def check(self, parts: Sequence[tuple[Membership, Roots]]) -> Iterator[str]:
        """Of all that run."""
        self.checked += 1
        members = {ring.me: ring.successors for ring, _ in parts if ring.member}
        live = {ring.me for ring, _ in parts if not ring.leaving}
        arcs = [arc for ring, roots in parts if (arc := emitting(ring, roots)) is not None]
        for text in (*broken(members, live), *two_roots(arcs)):
            if text not in self._told:
                self._told.add(text)
                yield text
