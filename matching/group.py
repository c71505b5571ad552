"""Everything filed under one key: a list while it is short, then a store made for many.

Under an equality the next step are `columns`, beyond a few thousand rows bit vectors in `blocks`; rows that
share no equality go to bit vectors at once. A store that has become almost empty is a list again. numpy is
imported with the first store, so that thousands of small indexes do without it; `warm_up` imports it now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeGuard

from matching.check import satisfied
from matching.interface import Attributes
from matching.profile import Profile
from matching.row import Key, Row, Split

SHORT = 24  # rows that a list is good for
COLUMNS = 2048  # rows that columns are good for


class Store(Protocol):
    sorted: bool  # `labels` come in the order of their groups
    narrow: bool  # made for some thousand rows at most

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Row]: ...
    def add(self, row: Row) -> None: ...
    def remove(self, row: Row) -> None: ...
    def sids(self, attributes: Attributes) -> list[int]: ...
    def anchors(self, attributes: Attributes, found: set[int]) -> None: ...
    def labels(self, attributes: Attributes) -> tuple[Any, Any]: ...
    def covering(self, profile: Profile) -> Split: ...
    def covered(self, profile: Profile) -> Split: ...
    def overlapping(self, profile: Profile) -> Split: ...
    def explain(self, attributes: Attributes) -> tuple[int, int]: ...
    def cut(
        self, parts: list[tuple[Any, Any]], rows: list[Row], ordered: bool
    ) -> list[tuple[int, bytes]]: ...
    def distinct(self, parts: list[tuple[Any, Any]], rows: list[Row]) -> tuple[Any, Any]: ...
    @property
    def pending(self) -> bool: ...
    def work(self, budget: int) -> bool: ...
    def bytes(self) -> int: ...


class Narrow(Store, Protocol):
    """A store that blocks take over from, row by row."""

    def last(self, count: int) -> list[Row]: ...


def _is_narrow(store: Store) -> TypeGuard[Narrow]:
    return store.narrow


class Group:
    __slots__ = ("key", "rows", "store", "wanted")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.wanted = 0  # conjunctions with this equality, wherever they are filed
        self.rows: list[Row] | None = None
        self.store: Store | None = None

    def __len__(self) -> int:
        return len(self.store) if self.store is not None else len(self.rows or ())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.store if self.store is not None else self.rows or ())

    def add(self, row: Row) -> None:
        if self.store is not None:
            self.store.add(row)
            if len(self.store) >= COLUMNS and _is_narrow(self.store):
                self.store = _blocks(self.key, self.store)
        elif self.rows is None:
            self.rows = [row]
        else:
            self.rows.append(row)

    def sids(self, attributes: Attributes) -> list[int]:
        if self.store is not None:
            return self.store.sids(attributes)
        return [row.sid for row in self.rows or () if satisfied(row.rest, attributes)]

    @property
    def crowded(self) -> bool:
        """Too many rows for a list."""
        return self.rows is not None and len(self.rows) > SHORT

    def promote(self) -> None:
        rows, self.rows = self.rows or [], None
        self.store = _columns(self.key) if len(self.key) == 2 else _blocks(self.key, None)
        for row in rows:
            self.store.add(row)

    def remove(self, row: Row) -> None:
        if self.store is None:
            assert self.rows is not None, f"no rows under {self.key}"
            self.rows.remove(row)
            return
        self.store.remove(row)
        if len(self.store) <= SHORT // 2:
            self.rows, self.store = list(self.store), None


def warm_up() -> None:
    """Import what stores need, for a process that must not pause for it later."""
    _columns(())
    _blocks((), None)


def settled(key: Key) -> str | None:
    """The attribute about which the key says all, so that rows under it need not.

    Not for 0 and 1, which as keys are False and True as well.
    """
    return key[0] if len(key) == 2 and key[1] != 0 and key[1] != 1 else None


def _columns(key: Key) -> Store:
    from matching.columns import Columns

    return Columns(settled(key))


def _blocks(key: Key, former: Narrow | None) -> Store:
    from matching.blocks import Blocks

    return Blocks(settled(key), former)
