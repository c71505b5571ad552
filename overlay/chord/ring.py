"""Decisions of a broker on the ring, by Zave's corrected rules (2017), not by the text of 2001.

A node is (position, broker, incarnation): a broker that restarts, or that changes its position, is another
node, because the proof forbids that an identity is used again. All arcs are clockwise and modulo 2**64; an
arc from a node to itself is the whole ring.

A routing hop goes to the farthest pointer at or before the target, the target itself included: the text of
2001 stops before it, which gives figure 2b of the DYNATOPS paper a hop too many (docs/papers/dynatops.md,
D-1). With fixed pointers the ways from one node form a tree, and what lies behind a node is an arc that
begins there.

Join: the joiner looks up the node p whose first successor lies behind it, asks p for its list and adopts
list and predecessor at one stroke, if they still hold. Stabilise: take the first successor's list behind
it; if its predecessor lies between, that one's list behind it instead. Rectify: a node that tells of itself
becomes the predecessor if it lies nearer or the present one is dead. Fingers are hints and never needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

BITS = 64
SIZE = 1 << BITS


class Placed(Protocol):
    """Somebody on the ring."""

    @property
    def position(self) -> int: ...
    @property
    def broker(self) -> int: ...
    @property
    def incarnation(self) -> int: ...


class Node(NamedTuple):
    position: int
    broker: int
    incarnation: int


N = TypeVar("N", bound=Placed)


def distance(start: int, end: int) -> int:
    """Clockwise."""
    return (end - start) % SIZE


def between(start: int, x: int, end: int) -> bool:
    """Whether x lies on the open arc; the arc from a position to itself is everything else."""
    return 0 < distance(start, x) < (distance(start, end) or SIZE)


def owns(predecessor: int, here: int, key: int) -> bool:
    """Whether `here` is the first node at or after the key."""
    return key == here or between(predecessor, key, here)


def next_hop(here: int, pointers: Iterable[N], target: int) -> N | None:
    """The farthest pointer on (here, target]; None: no pointer lies nearer to the target."""
    reach, best, found = distance(here, target), 0, None
    for node in pointers:
        step = distance(here, node.position)
        if best < step <= reach:
            best, found = step, node
    return found


def next_hop_to_key(
    here: int, predecessor: int | None, successor: N | None, pointers: Iterable[N], key: int
) -> N | None:
    """None: the key is rooted here. Without a predecessor known a node roots its own position alone."""
    if successor is None or key == here or (predecessor is not None and owns(predecessor, here, key)):
        return None
    if owns(here, successor.position, key):
        return successor
    return next_hop(here, pointers, key) or successor


def merge(head: N, its_list: Sequence[N], length: int, here: int) -> tuple[N, ...]:
    """A list that begins with `head` and goes on with its own; it ends where it would pass `here`."""
    found = [head]
    for node in its_list:
        if not between(found[-1].position, node.position, here):
            break
        found.append(node)
    return tuple(found[:length])


def together(here: Placed, own: Iterable[N], others: Iterable[N], length: int) -> tuple[N, ...]:
    """One list of two, nearest first; of two lives of one broker the later."""
    latest: dict[int, N] = {}
    for node in (*own, *others):
        known = latest.get(node.broker)
        if node.broker != here.broker and (known is None or known.incarnation < node.incarnation):
            latest[node.broker] = node
    ordered = sorted(latest.values(), key=lambda node: distance(here.position, node.position))
    return tuple(ordered[:length])


def may_join(position: int, predecessor: Placed, its_list: Sequence[Placed]) -> bool:
    """Whether the answer of `predecessor` still puts a newcomer's position behind it."""
    first = its_list[0].position if its_list else predecessor.position
    return between(predecessor.position, position, first)


def adopted(joiner: Placed, predecessor: N, its_list: Sequence[N], length: int) -> tuple[N, ...]:
    """The newcomer's list: its predecessor's. On a ring of one that is the predecessor itself."""
    rest = [node for node in its_list if node.broker != joiner.broker]
    return merge(rest[0], rest[1:], length, joiner.position) if rest else (predecessor,)


def nearer(here: int, successor: Placed, its_predecessor: N | None) -> N | None:
    """A node between us and our successor, by the successor's word; it is asked before it is believed."""
    if its_predecessor is None or not between(here, its_predecessor.position, successor.position):
        return None
    return its_predecessor


def rectified(here: Placed, predecessor: N | None, notifier: N, dead: Callable[[N], bool]) -> N | None:
    """The predecessor after `notifier` said that we are its first successor."""
    if notifier.broker == here.broker:
        return predecessor
    if predecessor is None or dead(predecessor) or predecessor.broker == notifier.broker:
        return notifier
    return notifier if between(predecessor.position, notifier.position, here.position) else predecessor


def without(nodes: Sequence[N], gone: Callable[[N], bool]) -> tuple[N, ...]:
    return tuple(node for node in nodes if not gone(node))


def finger_starts(here: int, base: int = 2) -> list[int]:
    """Where fingers point at, nearest first: here + j * base**i, j = 1 .. base - 1."""
    bits = base.bit_length() - 1
    assert base == 1 << bits, "a power of two"
    shifts = range(0, BITS, bits)
    return [(here + (j << shift)) % SIZE for shift in shifts for j in range(1, base) if j << shift < SIZE]


def owner(nodes: Sequence[N], key: int) -> N:
    """The first node at or after the key; `nodes` in the order of their positions."""
    return nodes[bisect_left(nodes, key, key=lambda node: node.position) % len(nodes)]


class Pointers(NamedTuple, Generic[N]):
    """What a node knows on a ring that has come to rest."""

    predecessor: N
    successors: tuple[N, ...]
    fingers: tuple[N, ...]


def ideal(nodes: Sequence[N], rank: int, length: int, base: int = 2) -> Pointers[N]:
    """What the node of this rank must know; `nodes` in the order of their positions."""
    size = len(nodes)
    successors = tuple(nodes[(rank + i) % size] for i in range(1, min(length, size - 1) + 1))
    starts = finger_starts(nodes[rank].position, base)
    fingers = dict.fromkeys(owner(nodes, start) for start in starts)
    fingers.pop(nodes[rank], None)
    return Pointers(nodes[rank - 1], successors, tuple(fingers))
