"""Where staged rows are kept until they are committed: a file per stage on a daemon's disk, a list in a test.

A spool only stores. What is in it, and who may go, is decided by who holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class StageKey(NamedTuple):
    query: str
    batch: int
    partition: int
    attempt: int


class Held(NamedTuple):
    """What a spool has of one stage."""

    pieces: int
    rows: int


class SpoolError(Exception):
    """The disk is full or broken; the text says which."""


class Spool(Protocol):
    @property
    def size(self) -> int:
        """Bytes of all stages."""

    def stages(self) -> list[StageKey]: ...
    def held(self, key: StageKey) -> Held | None: ...
    def append(self, key: StageKey, rows: int, content: bytes) -> None:
        """One more piece, or SpoolError and nothing."""

    def keep(self, key: StageKey) -> None:
        """Everything of this stage is on disk when this returns."""

    def read(self, key: StageKey) -> Iterator[bytes]:
        """Its pieces; SpoolError where they cannot be read any more."""

    def drop(self, key: StageKey) -> None: ...


class MemorySpool:
    """Survives nothing."""

    def __init__(self) -> None:
        self._stages: dict[StageKey, list[tuple[int, bytes]]] = {}
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def stages(self) -> list[StageKey]:
        return list(self._stages)

    def held(self, key: StageKey) -> Held | None:
        pieces = self._stages.get(key)
        return None if pieces is None else Held(len(pieces), sum(rows for rows, _ in pieces))

    def append(self, key: StageKey, rows: int, content: bytes) -> None:
        self._stages.setdefault(key, []).append((rows, content))
        self._size += len(content)

    def keep(self, key: StageKey) -> None:
        self._stages.setdefault(key, [])

    def read(self, key: StageKey) -> Iterator[bytes]:
        return (content for _, content in list(self._stages[key]))

    def drop(self, key: StageKey) -> None:
        self._size -= sum(len(content) for _, content in self._stages.pop(key, ()))
