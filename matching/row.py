"""A row: one conjunction of one subscription, filed in one place of the index.

A filter with several conjunctions has several rows, and a conjunction filed under the values of an `in`
has one row for each value. Rows refer to no part of the index, so that they need no garbage collector.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from grapevine.filters.normal import Conjunction, Filter, Predicate, Value

# What a row is filed under: (attribute, value) for an equality, (attribute,) for an attribute that must be
# there, () for neither.
Key: TypeAlias = tuple[()] | tuple[str] | tuple[str, Value]


# What a store answers about a filter: rows that are decided, rows that `relations` must look at.
Split: TypeAlias = "tuple[list[Row], list[Row]]"
SOLE = -1  # as an index it names the only conjunction as well


class Row(msgspec.Struct, gc=False):
    sid: int
    group: int
    label: int
    filter: Filter
    which: int  # the conjunction's place in the filter; SOLE if the filter has no other row
    key: Key
    rest: tuple[Predicate, ...]  # what the key does not settle
    slot: int = 0  # where its store keeps it

    @property
    def conjunction(self) -> Conjunction:
        return self.filter.conjunctions[self.which]
