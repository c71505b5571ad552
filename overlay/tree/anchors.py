"""SPEC T3: anchors. A subscription carries the last Delta brokers of its path; the farthest of them is
its anchor at the receiver. With Delta 1 that is the neighbour it came from.

Index groups are pairs (anchor, side): forwarding asks which groups match, and a group names both the
anchor and the next hop on primary links.
"""

from __future__ import annotations

from grapevine.wire.messages import Subscription
from overlay.links.session import Peer


def onward(path: tuple[int, ...], broker: int, delta: int) -> tuple[int, ...]:
    """The path that a subscription carries when `broker` passes it on; its home is on it once."""
    return (*path, broker)[-delta:] if path != (broker,) else path


class Group:
    __slots__ = ("anchor", "count", "number", "side")

    def __init__(self, number: int, anchor: int, side: Peer) -> None:
        self.number = number
        self.anchor = anchor
        self.side = side
        self.count = 0


class Groups:
    """Interns (anchor, side) while a subscription uses the pair."""

    def __init__(self) -> None:
        self.by_number: list[Group | None] = []
        self._by_pair: dict[tuple[int, Peer], Group] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._by_pair)

    def enter(self, subscription: Subscription, side: Peer) -> int:
        pair = (subscription.path[0], side)
        group = self._by_pair.get(pair)
        if group is None:
            number = self._free.pop() if self._free else len(self.by_number)
            group = self._by_pair[pair] = Group(number, pair[0], side)
            if number == len(self.by_number):
                self.by_number.append(group)
            else:
                self.by_number[number] = group
        group.count += 1
        return group.number

    def leave(self, number: int) -> None:
        group = self[number]
        group.count -= 1
        if not group.count:
            del self._by_pair[(group.anchor, group.side)]
            self.by_number[number] = None
            self._free.append(number)

    def __getitem__(self, number: int) -> Group:
        group = self.by_number[number]
        assert group is not None
        return group
