"""SPEC T3: anchors. A subscription carries the last Delta brokers of its path; the farthest of them is
its anchor at the receiver. With Delta 1 that is the neighbour it came from.

Index groups are pairs (path, side): forwarding asks which groups match, and a group names the anchor, the
brokers on the primary path to it, and the neighbour that is the next hop on primary links. `hop` is where
publications for the group go, and `queue` what they are appended to there; without soft links that is the
side's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grapevine.wire.messages import Subscription
from overlay.data.routes import Queue
from overlay.links.session import Remote
from overlay.tree.peer import Peer


def onward(path: tuple[int, ...], broker: int, delta: int) -> tuple[int, ...]:
    """The path that a subscription carries when `broker` passes it on; its home is on it once."""
    return (*path, broker)[-delta:] if path != (broker,) else path


class Group:
    __slots__ = ("anchor", "count", "hop", "number", "path", "place", "queue", "side")

    def __init__(self, number: int, path: tuple[int, ...], side: Peer) -> None:
        self.number = number
        self.path = path  # the anchor first, the side last
        self.anchor = path[0]
        self.side = side
        self.hop: Remote = side
        self.queue: Queue = side.out.queue
        self.place = 0  # of its working anchor on the map of soft links
        self.count = 0


class Groups:
    """Interns (path, side) while a subscription uses the pair. `entered` is told of new groups."""

    def __init__(self) -> None:
        self.by_number: list[Group | None] = []
        self._by_pair: dict[tuple[tuple[int, ...], Peer], Group] = {}
        self.entered: Callable[[Group], None] = lambda group: None
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._by_pair)

    def enter(self, subscription: Subscription, side: Peer) -> int:
        pair = (subscription.path, side)
        group = self._by_pair.get(pair)
        if group is None:
            number = self._free.pop() if self._free else len(self.by_number)
            group = self._by_pair[pair] = Group(number, pair[0], side)
            if number == len(self.by_number):
                self.by_number.append(group)
            else:
                self.by_number[number] = group
            self.entered(group)
        group.count += 1
        return group.number

    def leave(self, number: int) -> None:
        group = self[number]
        group.count -= 1
        if not group.count:
            del self._by_pair[(group.path, group.side)]
            self.by_number[number] = None
            self._free.append(number)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_pair.values())

    def __getitem__(self, number: int) -> Group:
        group = self.by_number[number]
        assert group is not None
        return group
