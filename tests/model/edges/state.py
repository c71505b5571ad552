"""What the brokers of the model know: edges, links, what is told, retained and asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

LOCAL = -1


class Edge(NamedTuple):
    """A broker's way to its parent; only the broker itself raises the number. Done: known everywhere."""

    number: int
    parent: int | None
    done: bool


View = dict[int, Edge]
Stamp = tuple[int, ...]  # the number of each broker's edge, as its sender knew them


class Retained(NamedTuple):
    position: int
    sequence: int
    record: int
    sent: bool
    stamp: Stamp


class Held(NamedTuple):
    """A publication for somebody to whom there is no way just now."""

    sequence: int
    key: int
    record: int


class Change(NamedTuple):
    """A side that an entry had before this edge changed."""

    side: int | None
    child: int
    number: int
    count: int  # of all changes, for stamps that count


class Question(NamedTuple):
    """May I be your child? From whom, and where it is now, or who has granted it."""

    target: int
    at: int
    granted: bool = False


@dataclass(slots=True)
class Settle:
    source: int  # LOCAL or a neighbour
    position: int | None  # None: the link is gone, nobody waits
    sequence: int
    pending: int = 1


@dataclass(slots=True)
class Link:
    up: bool = True
    gone: bool = False  # no edge any more
    session: int = 0
    tables_in: bool = False
    sync_said: bool = False
    sync_heard: bool = False
    sync_ever: bool = False
    asked: bool = False  # it knows the advertisement from our side
    heard: set[int] = field(default_factory=set)
    stale: set[int] = field(default_factory=set)
    announced: set[int] = field(default_factory=set)
    retained: list[Retained] = field(default_factory=list)
    next: int = 1
    received: int = 0
    done: set[int] = field(default_factory=set)

    def break_off(self) -> None:
        self.up = self.tables_in = self.sync_said = self.sync_heard = False


@dataclass(slots=True)
class Broker:
    view: View
    links: dict[int, Link] = field(default_factory=dict)
    up: bool = True
    ready: bool = True
    subscribed: bool = False
    settles: dict[int, Settle] = field(default_factory=dict)
    settle_count: int = 0
    last: int = 0
    delivered: set[int] = field(default_factory=set)
    held: list[Held] = field(default_factory=list)
    changes: dict[int, tuple[Change, ...]] = field(default_factory=dict)  # by whose entries moved
    kept: set[int] = field(default_factory=set)  # told by links that ended
    confirmed: set[tuple[int, int, int]] = field(default_factory=set)  # (side, child, number)
    owes: set[tuple[int, int, int]] = field(default_factory=set)
    awaited: set[int] = field(default_factory=set)  # neighbours from before our crash, elsewhere by now
    question: Question | None = None
    grant: tuple[int, int] | None = None  # to whom, and the number that its edge had


def way_up(view: View, one: int) -> list[int]:
    """To the root, as far as it is known; on a cycle, which edges out of date may close, once round."""
    path = [one]
    while (edge := view.get(path[-1])) is not None and edge.parent is not None and edge.parent not in path:
        path.append(edge.parent)
    return path


def cycle_above(view: View, way: list[int]) -> list[int]:
    edge = view.get(way[-1])
    return way[way.index(edge.parent) :] if edge is not None and edge.parent in way else []


def path(view: View, one: int, other: int) -> list[int] | None:
    """None if there is none, or if one of two is out of date and nobody can say which."""
    mine, others = way_up(view, one), way_up(view, other)
    cycle = cycle_above(view, mine)
    for place, broker in enumerate(mine):
        if broker in others:
            there = others.index(broker)
            if broker in cycle and len(set(others[: there + 1]).intersection(cycle)) > 1:
                return None
            return mine[: place + 1] + others[:there][::-1]
    return None


def side(view: View, one: int, other: int) -> int | None:
    """The first hop; None if there is no way."""
    if one == other:
        return LOCAL
    way = path(view, one, other)
    return way[1] if way is not None else None


def sides(view: View, one: int, count: int) -> list[int | None]:
    return [side(view, one, other) for other in range(count)]


def adjacent(view: View, one: int, other: int) -> bool:
    """Also if nothing is known of the other one yet."""
    if other not in view or one not in view:
        return True
    return view[one].parent == other or view[other].parent == one
