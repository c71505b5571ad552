"""SPEC A1: what publications have fed into a dataset: an append-only log with positions, counted from 1.

A position is given once and for all, a row can be read again by range until it is trimmed. What `sync` has
returned for is on disk. The journal's streams will take this place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from grapevine.wire.driving import FedRow


class DatasetLogError(Exception):
    """The disk is full or broken; the text says which."""


class Read(NamedTuple):
    position: int
    row: FedRow


class DatasetLog(Protocol):
    def append(self, dataset: str, rows: Iterable[FedRow]) -> int:
        """The position of the last one. DatasetLogError and nothing if they cannot be kept."""

    def sync(self) -> None: ...
    def end(self, dataset: str) -> int:
        """The last position given."""

    def start(self, dataset: str) -> int:
        """The first one that is still here; end + 1 if none is."""

    def read(self, dataset: str, after: int, up_to: int, most_bytes: int) -> list[Read]: ...
    def trim(self, dataset: str, before: int) -> None:
        """Rows before this position may go."""

    def drop(self, dataset: str) -> None: ...


class MemoryDatasetLog:
    """Keeps over a crash what was synced, as the simulator's disk does."""

    def __init__(self) -> None:
        self._rows: dict[str, list[FedRow]] = {}
        self._first: dict[str, int] = {}
        self._synced: dict[str, int] = {}

    def crash(self) -> None:
        for dataset, rows in self._rows.items():
            del rows[max(self._synced.get(dataset, 0) - self._first[dataset] + 1, 0) :]

    def append(self, dataset: str, rows: Iterable[FedRow]) -> int:
        self._first.setdefault(dataset, 1)
        self._rows.setdefault(dataset, []).extend(rows)
        return self.end(dataset)

    def sync(self) -> None:
        self._synced = {dataset: self.end(dataset) for dataset in self._rows}

    def end(self, dataset: str) -> int:
        return self._first.get(dataset, 1) + len(self._rows.get(dataset, ())) - 1

    def start(self, dataset: str) -> int:
        return self._first.get(dataset, 1)

    def read(self, dataset: str, after: int, up_to: int, most_bytes: int) -> list[Read]:
        first = self.start(dataset)
        found: list[Read] = []
        size = 0
        for position in range(max(after + 1, first), min(up_to, self.end(dataset)) + 1):
            row = self._rows[dataset][position - first]
            size += len(row.attributes) + len(row.payload) + 64
            if found and size > most_bytes:
                break
            found.append(Read(position, row))
        return found

    def trim(self, dataset: str, before: int) -> None:
        gone = min(before, self.end(dataset) + 1) - self.start(dataset)
        if gone > 0:
            del self._rows[dataset][:gone]
            self._first[dataset] += gone

    def drop(self, dataset: str) -> None:
        self._rows.pop(dataset, None)
        self._first.pop(dataset, None)
        self._synced.pop(dataset, None)
