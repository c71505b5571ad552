"""The index that is right because it is obvious: every filter is asked about every publication.

It is the oracle of the tests, what `index.Index` must agree with, and quick enough for a handful of
subscriptions.
"""

from __future__ import annotations

from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter
from matching.interface import Attributes
from matching.labels import LABEL_MASK, by_group
from matching.relations import covers, overlaps


class Scan:
    def __init__(self) -> None:
        self._filters: dict[int, Filter] = {}
        self._places: dict[int, tuple[int, int]] = {}  # sid -> (group, label)

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, sid: int, filter: Filter, group: int, label: int | None = None) -> None:
        assert sid not in self._filters, f"subscription {sid} is already in this index"
        self._filters[sid] = filter
        self._places[sid] = (group, sid & LABEL_MASK if label is None else label)

    def remove(self, sid: int) -> None:
        del self._filters[sid]
        del self._places[sid]

    def match(self, attributes: Attributes) -> list[int]:
        return sorted(sid for sid, filter in self._filters.items() if matches(filter, attributes))

    def groups(self, attributes: Attributes) -> list[int]:
        return sorted({self._places[sid][0] for sid in self.match(attributes)})

    def deliveries(self, attributes: Attributes) -> list[tuple[int, bytes]]:
        return by_group(self._places[sid] for sid in self.match(attributes))

    def covering(self, filter: Filter) -> list[int]:
        return sorted(sid for sid, other in self._filters.items() if covers(other, filter))

    def covered(self, filter: Filter) -> list[int]:
        return sorted(sid for sid, other in self._filters.items() if covers(filter, other))

    def overlapping(self, filter: Filter) -> list[int]:
        return sorted(sid for sid, other in self._filters.items() if overlaps(other, filter))

    def work(self, budget: int) -> bool:
        return False
