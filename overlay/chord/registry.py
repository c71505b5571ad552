"""What a root knows of its topics, what it was told of others', and an arc on its way to another root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from grapevine.wire.chord import Member, RingNode, TopicEntry
from overlay.chord.ring import between, owns

CHUNK = 500  # topics of one message
SILENT = 2.5  # times refresh_s
PINGS = 3  # unanswered, and a link counts as broken (links/liveness.py)
Topics = dict[int, dict[int, Member]]  # key -> position -> member


class Copy:
    """What another root has told us of its topics."""

    __slots__ = ("begin", "complete", "dead_since", "given", "node", "topics")

    def __init__(self, node: RingNode, begin: int) -> None:
        self.node = node
        self.begin = begin
        self.given: RingNode | None = None  # the topics up to it may be its own by now
        self.topics: Topics = {}
        self.complete = False
        self.dead_since: float | None = None


def founding_copies(nodes: tuple[RingNode, ...], me: RingNode, copies: int) -> dict[RingNode, Copy]:
    """What a founder knows of those before it without being told: they are roots, of no topics."""
    found: dict[RingNode, Copy] = {}
    for step in range(1, min(copies, len(nodes) - 1) + 1):
        rank = nodes.index(me) - step
        copy = found[nodes[rank]] = Copy(nodes[rank], nodes[rank - 1].position)
        copy.complete = True
    return found


class Rest:
    """Of a dead root: topics that it was giving to `node`, who alone knows whether it has them."""

    __slots__ = ("begin", "node", "topics")

    def __init__(self, copy: Copy, node: RingNode) -> None:
        self.node = node
        self.begin = copy.begin
        self.topics = {key: m for key, m in copy.topics.items() if owns(copy.begin, node.position, key)}


def divided(copy: Copy) -> tuple[int, Rest | None]:
    """Where its arc begins, and what it was giving away before that."""
    given = copy.given
    if given is not None and between(copy.begin, given.position, copy.node.position):
        return given.position, Rest(copy, given)
    return copy.begin, None


class Pending:
    """Something that waits until our successors know."""

    __slots__ = ("call", "waits")

    def __init__(self, call: Callable[[float], None]) -> None:
        self.call = call
        self.waits: dict[RingNode, int] = {}


class Giving:
    __slots__ = ("begin", "end", "node", "number", "ready", "topics")

    def __init__(self, node: RingNode, begin: int, end: int, number: int) -> None:
        self.node = node
        self.begin, self.end = begin, end
        self.number = number
        self.topics: Topics = {}
        self.ready = False  # nothing is under way, and those who would follow us know

    def holds(self, key: int) -> bool:
        return owns(self.begin, self.end, key)


def take(topics: Topics, entries: Iterable[TopicEntry]) -> None:
    for entry in entries:
        if entry.members:
            topics[entry.topic] = {member.position: member for member in entry.members}
        else:
            topics.pop(entry.topic, None)


def entries(topics: Topics, keys: Iterable[int]) -> Iterator[tuple[TopicEntry, ...]]:
    """In messages of a bounded size; a topic without members is one that has ended."""
    each = iter([TopicEntry(key, tuple(topics.get(key, {}).values())) for key in keys])
    while chunk := tuple(islice(each, CHUNK)):
        yield chunk


def silent_s(refresh_s: float, ping_s: float, lost_after_s: float) -> float:
    """So long a member may say nothing. A way that is broken or slow is given up first, and the next one
    too: who cannot be heard is not gone, and what is published meanwhile is owed to it."""
    return SILENT * refresh_s + 2 * (PINGS * ping_s + lost_after_s)


def silent(
    topics: Topics, heard: dict[tuple[int, int], float], now: float, since: float
) -> tuple[list[tuple[int, Member]], dict[tuple[int, int], float]]:
    """Members that have said nothing `since`, and when the others last did; who is new counts from now."""
    gone: list[tuple[int, Member]] = []
    kept: dict[tuple[int, int], float] = {}
    for key, members in topics.items():
        for position, member in members.items():
            at = heard.get((key, position), now)
            if at < since:
                gone.append((key, member))
            else:
                kept[key, position] = at
    return gone, kept
