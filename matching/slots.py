"""Which slot of a block a row gets, so that the slots of one group lie in bytes of their own.

A byte belongs to one group, or to all the small ones together (the shared pool, owner 0): a group moves
to bytes of its own with its ninth row. Then "which groups have a match" is a look at whole bytes.
"""

from __future__ import annotations

import numpy as np

SHARED = 0
_OWN_FROM = 8


class Slots:
    __slots__ = ("_count", "_names", "_numbers", "_open", "_spare", "_top", "capacity", "owners")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.owners = np.zeros(capacity // 8, np.int64)  # byte -> owner, a small number
        self._numbers: dict[int, int] = {}  # group -> owner
        self._names: list[int] = [-1]  # owner -> group
        self._count: dict[int, int] = {}  # group -> rows
        self._open: dict[int, list[int]] = {SHARED: []}  # owner -> its free slots
        self._spare: list[int] = []  # bytes given back
        self._top = 0  # first byte never used

    def resize(self, capacity: int) -> None:
        owners = np.zeros(capacity // 8, np.int64)
        owners[: len(self.owners)] = self.owners
        self.owners, self.capacity = owners, capacity

    def group(self, owner: int) -> int:
        return self._names[owner]

    @property
    def used(self) -> int:
        """No slot from here on was ever taken."""
        return self._top * 8

    def take(self, group: int) -> int:
        """A free slot for a row of this group, -1 if the block must grow first."""
        count = self._count.get(group, 0)
        owner = SHARED if count < _OWN_FROM else self._owner(group)
        free = self._open.setdefault(owner, [])
        if not free and not self._claim(owner, free):
            return -1
        self._count[group] = count + 1
        return free.pop()

    def _owner(self, group: int) -> int:
        owner = self._numbers.get(group)
        if owner is None:
            owner = self._numbers[group] = len(self._names)
            self._names.append(group)
        return owner

    def _claim(self, owner: int, free: list[int]) -> bool:
        if self._spare:
            byte = self._spare.pop()
        elif self._top * 8 < self.capacity:
            byte = self._top
            self._top += 1
        else:
            return False
        self.owners[byte] = owner
        free.extend(range(byte * 8 + 7, byte * 8 - 1, -1))
        return True

    def give(self, slot: int, group: int) -> None:
        owner = int(self.owners[slot >> 3])
        self._open[owner].append(slot)
        self._count[group] -= 1
        if self._count[group] == 0:
            del self._count[group]
            self._forget(group)

    def _forget(self, group: int) -> None:
        """A group without rows keeps no bytes; its number stays for when it comes back."""
        owner = self._numbers.get(group)
        if owner is None:
            return
        bytes_ = sorted({slot >> 3 for slot in self._open.pop(owner, ())})
        self.owners[bytes_] = SHARED
        self._spare.extend(bytes_)
