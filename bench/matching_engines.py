"""The engines of the matching bench behind one interface: ours (with the compiled kernel if it was built, and
without), our scan, rtree and sqlite's R*Tree.

The trees know boxes of numbers only, so a workload is translated: an attribute is a dimension, an equality of
texts is a point on it (texts are numbered), no predicate is the whole line. sqlite keeps 32-bit floats and at
most five dimensions; what it finds is checked once more, and the time for that is part of its result.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, nextafter
from typing import Protocol

from bench.matching_workloads import Attributes
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter, Op, Predicate, Value
from matching import kernel
from matching.group import warm_up
from matching.index import Index
from matching.scan import Scan

FAR = 1e30


class Engine(Protocol):
    def fill(self, filters: list[Filter]) -> None: ...
    def add(self, sid: int, filter: Filter) -> None: ...
    def remove(self, sid: int, filter: Filter) -> None: ...
    def match(self, attributes: Attributes) -> list[int]: ...


class Ours:
    def __init__(self, groups: int = 1) -> None:
        warm_up()
        self.index: Index | Scan = Index()
        self.groups = groups
        self.match = self.index.match

    def fill(self, filters: list[Filter]) -> None:
        for sid, filter in enumerate(filters):
            self.add(sid, filter)

    def add(self, sid: int, filter: Filter) -> None:
        self.index.add(sid, filter, sid % self.groups)

    def remove(self, sid: int, filter: Filter) -> None:
        self.index.remove(sid)


class OursInPython(Ours):
    """Without the compiled kernel, whether it was built or not: see `without_kernel`."""


@contextmanager
def without_kernel() -> Iterator[None]:
    compiled, kernel.module = kernel.module, None
    try:
        yield
    finally:
        kernel.module = compiled


class BruteForce(Ours):
    def __init__(self, groups: int = 1) -> None:
        self.index = Scan()
        self.groups = groups
        self.match = self.index.match


class Boxes:
    """Filters as boxes, publications as points."""

    def __init__(self, filters: list[Filter], limit: int) -> None:
        counts: dict[str, int] = {}
        for filter in filters:
            for predicate in filter.conjunctions[0]:
                counts[predicate.attribute] = counts.get(predicate.attribute, 0) + 1
        varied = [name for name in counts if not _constant(name, filters)]
        self.names = sorted(varied, key=lambda name: -counts[name])[:limit]
        self.names += [f"unused{i}" for i in range(2 - len(self.names))]  # a tree has two dimensions or more
        self.codes: dict[Value, float] = {}

    def box(self, filter: Filter) -> tuple[list[float], list[float]]:
        lows, highs = [-FAR] * len(self.names), [FAR] * len(self.names)
        for predicate in filter.conjunctions[0]:
            if predicate.attribute in self.names:
                place = self.names.index(predicate.attribute)
                lows[place], highs[place] = self._bounds(predicate)
        return lows, highs

    def _bounds(self, predicate: Predicate) -> tuple[float, float]:
        if predicate.op == Op.EQ:
            point = self._number(predicate.operand)  # type: ignore[arg-type]
            return point, point
        low, high, low_open, high_open = predicate.operand  # type: ignore[misc]
        low = -FAR if low is None else nextafter(low, inf) if low_open else low
        high = FAR if high is None else nextafter(high, -inf) if high_open else high
        return low, high

    def point(self, attributes: Attributes) -> list[float]:
        return [self._number(attributes[name]) if name in attributes else 0.0 for name in self.names]

    def _number(self, value: Value) -> float:
        if isinstance(value, str | bool):
            return self.codes.setdefault(value, float(len(self.codes)))
        return value


def _constant(name: str, filters: list[Filter]) -> bool:
    """An equality that all filters share tells nothing apart; a tree is better off without it."""
    shared = next((p for p in filters[0].conjunctions[0] if p.attribute == name and p.op == Op.EQ), None)
    return (
        len(filters) > 1
        and shared is not None
        and all(shared in filter.conjunctions[0] for filter in filters)
    )


class Rtree:
    def __init__(self) -> None:
        from rtree import index

        self._module = index

    def fill(self, filters: list[Filter]) -> None:
        self._boxes = Boxes(filters, 16)
        properties = self._module.Property()
        properties.dimension = len(self._boxes.names)
        rows = ((sid, self._box(filter), None) for sid, filter in enumerate(filters))
        self._tree = self._module.Index(rows, properties=properties, interleaved=True)

    def _box(self, filter: Filter) -> list[float]:
        lows, highs = self._boxes.box(filter)
        return lows + highs

    def add(self, sid: int, filter: Filter) -> None:
        self._tree.insert(sid, self._box(filter))

    def remove(self, sid: int, filter: Filter) -> None:
        self._tree.delete(sid, self._box(filter))

    def match(self, attributes: Attributes) -> list[int]:
        point = self._boxes.point(attributes)
        return list(self._tree.intersection(point + point))


class SqliteRtree:
    def fill(self, filters: list[Filter]) -> None:
        self._boxes = Boxes(filters, 5)
        self._filters = dict(enumerate(filters))
        self._base = sqlite3.connect(":memory:")
        columns = [f"{side}{i}" for i in range(len(self._boxes.names)) for side in ("low", "high")]
        self._base.execute(f"create virtual table boxes using rtree(id, {', '.join(columns)})")
        self._insert = f"insert into boxes values ({', '.join('?' * (1 + len(columns)))})"
        self._base.executemany(
            self._insert, (self._row(sid, filter) for sid, filter in self._filters.items())
        )
        places = range(len(self._boxes.names))
        self._query = "select id from boxes where " + " and ".join(
            f"low{i} <= ?{i + 1} and high{i} >= ?{i + 1}" for i in places
        )

    def _row(self, sid: int, filter: Filter) -> list[float]:
        lows, highs = self._boxes.box(filter)
        return [sid, *(bound for pair in zip(lows, highs) for bound in pair)]

    def add(self, sid: int, filter: Filter) -> None:
        self._filters[sid] = filter
        self._base.execute(self._insert, self._row(sid, filter))

    def remove(self, sid: int, filter: Filter) -> None:
        del self._filters[sid]
        self._base.execute("delete from boxes where id = ?", (sid,))

    def match(self, attributes: Attributes) -> list[int]:
        found = self._base.execute(self._query, self._boxes.point(attributes))
        return [sid for (sid,) in found if matches(self._filters[sid], attributes)]


ENGINES: dict[str, Callable[[], Engine]] = {
    "grapevine": Ours,
    "grapevine-python": OursInPython,
    "scan": BruteForce,
    "rtree": Rtree,
    "sqlite": SqliteRtree,
}
