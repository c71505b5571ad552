"""Small durable state of the back end by keys: rows among the broker's records, on disk before any answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from overlay.core import Core
from overlay.outbox import Kept, Record

TABLE = "channels"


class Records(Protocol):
    def put(self, key: str, value: bytes) -> None: ...
    def delete(self, key: str) -> None: ...
    def items(self) -> Iterator[tuple[str, bytes]]: ...


class JournalRecords:
    def __init__(self, core: Core, kept: Kept) -> None:
        self._journal = core.out.journal
        self._kept = dict(kept.get(TABLE, {}))

    def put(self, key: str, value: bytes) -> None:
        self._journal.append(Record(TABLE, key, value))

    def delete(self, key: str) -> None:
        self._journal.append(Record(TABLE, key, None))

    def items(self) -> Iterator[tuple[str, bytes]]:
        """As they were at the start."""
        return iter(self._kept.items())
