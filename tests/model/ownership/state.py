"""What the brokers of the model know: one publisher with one advertisement, subscriptions at some brokers.

An item is what one broker tells another: an advertisement by its version, a subscription by its broker, a
tombstone by its key. A tombstone's key is the subscription's, or one of `nobody_knows` (whoever is there) and
`adopted_only` (whoever is there, for publications that were sent again).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

LOCAL = -1
Item = tuple[str, int]
ADVERTISEMENT, SUBSCRIPTION, TOMBSTONE = "advertisement", "subscription", "tombstone"

UNKNOWN_KEYS, ADOPTED_KEYS = 100, 200


def nobody_knows(broker: int, side: int) -> int:
    return UNKNOWN_KEYS + 10 * broker + side


def adopted_only(broker: int, side: int) -> int:
    return ADOPTED_KEYS + 10 * broker + side


class Word(NamedTuple):
    """One version of the advertisement: where its publisher is, and from which side it came."""

    home: int
    side: int


class Tombstone(NamedTuple):
    side: int
    own: bool  # made here, not told by that side
    mark: int  # everything published up to here may have been on its way


class Retained(NamedTuple):
    position: int
    sequence: int
    record: int
    sent: bool
    adopted: bool


@dataclass(slots=True)
class Settle:
    """A publication that was taken: from a link at a position, or from the client under a version."""

    source: int  # LOCAL, a neighbour, or GONE
    place: int  # position, or version
    sequence: int
    pending: int = 1
    cut: bool = False


GONE = -2  # the link's session ended: nobody waits for it


@dataclass(slots=True)
class Link:
    state: str = "suspended"  # up, suspended, lost
    session: int = 0
    tables_in: bool = False
    tables_ever: bool = False
    sync_said: bool = False
    sync_heard: bool = False
    sync_ever: bool = False
    retained: list[Retained] = field(default_factory=list)
    next: int = 1
    received: int = 0
    done: dict[int, bool] = field(default_factory=dict)  # position -> cut
    announced: dict[Item, int] = field(default_factory=dict)  # its stamp; 0: confirmed
    stamp: int = 0
    unconfirmed: dict[Item, int] = field(default_factory=dict)  # told to us: the stamp to confirm
    stale: set[Item] = field(default_factory=set)  # told before the link came up, and not since
    fence_said: int = 0
    asked: set[int] = field(default_factory=set)  # versions that this side has confirmed

    def break_off(self) -> None:
        self.tables_in = self.sync_said = self.sync_heard = False
        self.announced, self.unconfirmed = {}, {}


@dataclass(slots=True)
class Broker:
    names: set[int]  # neighbours, on disk
    links: dict[int, Link]
    up: bool = True
    incarnation: int = 1
    ready: bool = False
    words: dict[int, Word] = field(default_factory=dict)
    fence: int = 0
    subscriptions: dict[int, int] = field(default_factory=dict)  # whose -> side
    tombstones: dict[int, Tombstone] = field(default_factory=dict)
    settles: dict[int, Settle] = field(default_factory=dict)
    settle_count: int = 0
    last: int = 0  # sequence delivered here
    delivered: set[int] = field(default_factory=set)

    def sides(self) -> set[int]:
        """Where the advertisement comes from, in any version."""
        return {word.side for word in self.words.values()}


@dataclass(slots=True)
class Publisher:
    start: int
    home: int | None = None
    version: int = 0
    confirmed: bool = False
    target: int | None = None  # of a relocation
    target_version: int = 0
    target_confirmed: bool = False
    sequence: int = 0
    unsettled: list[int] = field(default_factory=list)
    settled: dict[int, bool] = field(default_factory=dict)  # -> cut

    def next_version(self) -> int:
        return max(self.version, self.target_version) + 1


@dataclass(slots=True)
class Subscriber:
    """At a broker of its own."""

    confirmed: bool = False
    got: list[int] = field(default_factory=list)
    behind: set[tuple[int, int]] = field(default_factory=set)  # (broker, side) given up on the way to it
