"""SPEC A3: where results of executions are kept: a file per execution on a daemon's disk, a dict in a test.

An execution's results are put in pieces, sorted by back-end subscription, and are there from `commit` on, all
at once and for good; a second commit of the same execution changes nothing. What was put and not committed is
gone after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from grapevine.wire.driving import Run, rows_of

Runs: TypeAlias = list[Run]


class ResultsError(Exception):
    """The disk is full or broken; the text says which."""


class Extent(NamedTuple):
    rows: int
    size: int  # bytes


_of_set = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw]).decode
_rows = msgspec.msgpack.Decoder(list[bytes]).decode


def whole_result(state: list[bytes], be: int, at: float) -> list[bytes]:
    """The result of one set, of what an execution left for the next one (`STATE`), as rows that are
    delivered; nothing of what is no such state."""
    try:
        mine = [row for each, part in map(_of_set, state) if each == be for row in _rows(part)]
    except msgspec.MsgspecError:
        return []
    return [msgspec.msgpack.encode((at, msgspec.Raw(row))) for row in mine]


class Results(Protocol):
    """`channel` is a name with its version."""

    def put(self, channel: str, execution: int, attempt: int, piece: int, runs: Runs) -> None:
        """Pieces count from 0; the first one begins the attempt anew. ResultsError if it cannot be kept."""

    def commit(self, channel: str, execution: int, attempt: int, pieces: int) -> bool:
        """On disk when this returns; False if not all the pieces are here."""

    def executions(self, channel: str) -> list[int]:
        """Those that are kept, rising."""

    def index(self, channel: str, execution: int) -> Mapping[int, Extent]: ...
    def read(self, channel: str, execution: int, be: int) -> list[bytes]: ...
    def drop(self, channel: str, up_to: int, after: int = 0) -> None: ...
    def channels(self) -> list[str]: ...


class MemoryResults:
    """Keeps over a crash what was committed, as the simulator's disk does."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[int, dict[int, list[bytes]]]] = {}
        self._put: dict[tuple[str, int, int], list[Runs]] = {}

    def crash(self) -> None:
        self._put.clear()

    def put(self, channel: str, execution: int, attempt: int, piece: int, runs: Runs) -> None:
        pieces = self._put.setdefault((channel, execution, attempt), [])
        if piece == 0:
            pieces.clear()
        if piece == len(pieces):
            pieces.append(runs)

    def commit(self, channel: str, execution: int, attempt: int, pieces: int) -> bool:
        kept = self._kept.setdefault(channel, {})
        if execution in kept:
            return True
        put = self._put.pop((channel, execution, attempt), [])
        if len(put) != pieces:
            return False
        found: dict[int, list[bytes]] = {}
        for runs in put:
            for run in runs:
                found.setdefault(run.be, []).extend(rows_of(run))
        kept[execution] = found
        return True

    def executions(self, channel: str) -> list[int]:
        return sorted(self._kept.get(channel, ()))

    def index(self, channel: str, execution: int) -> Mapping[int, Extent]:
        found = self._kept.get(channel, {}).get(execution, {})
        return {be: Extent(len(rows), sum(map(len, rows))) for be, rows in found.items()}

    def read(self, channel: str, execution: int, be: int) -> list[bytes]:
        return self._kept.get(channel, {}).get(execution, {}).get(be, [])

    def drop(self, channel: str, up_to: int, after: int = 0) -> None:
        kept = self._kept.get(channel, {})
        for execution in [each for each in kept if after < each <= up_to]:
            del kept[execution]
        if not kept:
            self._kept.pop(channel, None)

    def channels(self) -> list[str]:
        return list(self._kept)
