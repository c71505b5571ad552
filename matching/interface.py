"""What the broker core asks of an index. `scan.Scan` answers by brute force and is the oracle;
`index.Index` answers fast. Both are filled with small ints: `sid` names a subscription, `group` (a u32) its
anchor (an index over links) or its client (an index over local subscriptions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from grapevine.filters.normal import Filter, Value

Attributes = Mapping[str, Value]


class Matcher(Protocol):
    def __len__(self) -> int: ...

    def add(self, sid: int, filter: Filter, group: int, label: int | None = None) -> None:
        """`sid` must be new to this index. `label` is a u32 for `deliveries`, unique within its group: the
        number its client knows the subscription by (the low bits of `sid` if none is given)."""

    def remove(self, sid: int) -> None:
        """`sid` must be in this index."""

    def match(self, attributes: Attributes) -> list[int]:
        """The sids whose filter matches, each once, in any order."""

    def groups(self, attributes: Attributes) -> list[int]:
        """The groups with at least one match, ascending."""

    def deliveries(self, attributes: Attributes) -> list[tuple[int, bytes]]:
        """For each group with a match, ascending: the labels of its matches, each once, as packed
        little-endian u32 in an order that depends on this index's history alone."""

    def covering(self, filter: Filter) -> Iterable[int]:
        """Sids known to match whatever `filter` matches (ascending); undecided ones are left out."""

    def covered(self, filter: Filter) -> Iterable[int]:
        """Sids known to match nothing that `filter` does not (ascending); undecided ones are left out."""

    def overlapping(self, filter: Filter) -> Iterable[int]:
        """Sids that may match something `filter` matches (ascending); undecided ones are included."""

    def work(self, budget: int) -> bool:
        """Do at most about `budget` units of deferred upkeep; True while some is left."""
