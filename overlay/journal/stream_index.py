"""Which stream has this name, and which keeps what durable subscriptions with this filter want.

Every request of a reader asks; ten thousand streams would be looked through ten thousand times. Filters are
told apart by their text: as Python values those of `x = 1` and of `x = true` are equal, and are not.
"""

from __future__ import annotations

from grapevine.filters.normal import Filter
from grapevine.filters.printing import to_text
from overlay.journal.bodies import StreamBody

SHARED = "acked"  # the retention of streams that durable subscriptions with equal filters share


class StreamIndex:
    def __init__(self) -> None:
        self._named: dict[str, dict[int, None]] = {}  # numbers, the first made first
        self._wanting: dict[str, dict[int, None]] = {}

    def add(self, body: StreamBody) -> None:
        self._named.setdefault(body.name, {})[body.number] = None
        if body.retention == SHARED:
            self._wanting.setdefault(to_text(body.filter), {})[body.number] = None

    def remove(self, body: StreamBody) -> None:
        _remove(self._named, body.name, body.number)
        if body.retention == SHARED:
            _remove(self._wanting, to_text(body.filter), body.number)

    def named(self, name: str) -> int | None:
        return next(iter(self._named.get(name, ())), None)

    def wanting(self, filter: Filter) -> int | None:
        return next(iter(self._wanting.get(to_text(filter), ())), None)


def _remove(table: dict[str, dict[int, None]], key: str, number: int) -> None:
    numbers = table[key]
    del numbers[number]
    if not numbers:
        del table[key]
