"""Blocks in a row, so that an index grows by another block and never copies more than one.

A block that has become three quarters empty is left: each removal, one addition in four and each unit of
`work` move a row of it into another one, until it is gone. The columns that the blocks take over from are
left the same way. To move a row costs as much as to add one, so additions leave most of it to `work`, which
is done while nobody waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from matching.block import Block
from matching.cutting import cut, distinct
from matching.group import Narrow
from matching.interface import Attributes
from matching.profile import Profile
from matching.row import Row, Split

_SHIFT = 20  # a row's slot is (number of its block, slot in it)
_MASK = (1 << _SHIFT) - 1
_ADDED = 4  # rows for which one is moved
_SMALL = 256  # slots; such a block is not worth leaving


class Blocks:
    sorted = narrow = False
    cut, distinct = staticmethod(cut), staticmethod(distinct)

    def __init__(self, key_attribute: str | None, former: Narrow | None) -> None:
        self._key_attribute = key_attribute
        first = Block(key_attribute)
        self._parts: list[Block | Narrow | None] = [former, first]
        self._only: Block | Narrow | None = (
            first if former is None else None
        )  # the only part, if there is one
        self._current = 1  # the block being filled
        self._leaving = -1 if former is None else 0
        self._live = 0 if former is None else len(former)
        self._restless = False  # rows have come since `work` found nothing to do

    def __len__(self) -> int:
        return self._live

    def __iter__(self) -> Iterator[Row]:
        for block in self.parts():
            yield from block

    def parts(self) -> Iterator[Block | Narrow]:
        return (part for part in self._parts if part is not None)

    def add(self, row: Row) -> None:
        self._live += 1
        self._put(row)
        self._restless = True
        if self._leaving >= 0 and not self._live % _ADDED:
            self._leave(1)

    def _put(self, row: Row) -> None:
        if not (self._try(self._current, row, False) or self._put_elsewhere(row)):
            self._current = self._parts.index(None) if None in self._parts else len(self._parts)
            self._parts[self._current : self._current + 1] = [Block(self._key_attribute)]
            self._only = None
            self._try(self._current, row, True)

    def _put_elsewhere(self, row: Row) -> bool:
        """Into a block with many free slots, else by growing one; it is then the one to fill."""
        numbers = range(len(self._parts))
        airy = [number for number in numbers if self._fill(number) < 0.9]
        for number, grow in (
            [(n, False) for n in airy] + [(self._current, True)] + [(n, True) for n in numbers]
        ):
            if self._try(number, row, grow):
                self._current = number
                return True
        return False

    def _fill(self, number: int) -> float:
        part = self._parts[number]
        return len(part) / part.capacity if isinstance(part, Block) else 1

    def _try(self, number: int, row: Row, grow: bool) -> bool:
        block = self._parts[number]
        if number == self._leaving or not isinstance(block, Block) or not block.add(row, grow):
            return False
        row.slot |= number << _SHIFT
        return True

    def remove(self, row: Row) -> None:
        self._live -= 1
        number = self._take(row)
        if self._leaving < 0 and self._fill(number) < 0.25 and self._worth_leaving(number):
            self._leaving = number
        if self._leaving >= 0:
            self._leave(1)

    def _worth_leaving(self, number: int) -> bool:
        part = self._parts[number]
        return isinstance(part, Block) and part.capacity > _SMALL

    def _take(self, row: Row) -> int:
        number = row.slot >> _SHIFT
        block = self._parts[number]
        assert block is not None, f"row of subscription {row.sid} is in no block"
        row.slot &= _MASK
        block.remove(row)
        return number

    @property
    def pending(self) -> bool:
        return self._leaving >= 0 or self._restless

    def work(self, budget: int) -> bool:
        """Move up to `budget` rows out of the block that is being left, or place rows and cut on in one."""
        if self._leaving >= 0:
            self._leave(budget)
        else:
            block = next((part for part in self._parts if isinstance(part, Block) and part.pending), None)
            if block is not None:
                block.place()
            self._restless = block is not None
        return self.pending

    def _leave(self, budget: int) -> None:
        block = self._parts[self._leaving]
        assert block is not None
        for row in block.last(budget):
            self._take(row)
            self._put(row)
        if not len(block):
            self._parts[self._leaving] = None
            self._leaving = -1
            parts = [part for part in self._parts if part is not None]
            self._only = parts[0] if len(parts) == 1 else None

    def sids(self, attributes: Attributes) -> list[int]:
        if self._only is not None:
            return self._only.sids(attributes)
        found: list[int] = []
        for part in self._parts:
            if part is not None:
                found += part.sids(attributes)
        return found

    def anchors(self, attributes: Attributes, found: set[int]) -> None:
        for block in self.parts():
            block.anchors(attributes, found)

    def labels(self, attributes: Attributes) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.uint32]]:
        found = [block.labels(attributes) for block in self.parts()]
        if len(found) == 1:
            return found[0]
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])

    def covering(self, profile: Profile) -> Split:
        return _joined(part.covering(profile) for part in self.parts())

    def covered(self, profile: Profile) -> Split:
        return _joined(part.covered(profile) for part in self.parts())

    def overlapping(self, profile: Profile) -> Split:
        return _joined(part.overlapping(profile) for part in self.parts())

    def explain(self, attributes: Attributes) -> tuple[int, int]:
        seen = [block.explain(attributes) for block in self.parts()]
        return sum(one[0] for one in seen), sum(one[1] for one in seen)

    def bytes(self) -> int:
        return sum(block.bytes() for block in self.parts())


def _joined(splits: Iterable[Split]) -> Split:
    decided: list[Row] = []
    undecided: list[Row] = []
    for one, other in splits:
        decided += one
        undecided += other
    return decided, undecided
