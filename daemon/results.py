"""Results of executions on disk: one file each, rows by back-end subscription and an index behind them.

A file grows under another name and gets its own with the commit: written, synced, renamed, directory synced.
So a file that is there is whole. Its last 16 bytes say where its index begins. Indexes are read when they are
asked for, and the latest stay in memory.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from struct import Struct
from struct import error as StructError

import msgspec

from daemon.errors import Failure, next_step
from overlay.channels.results import Extent, ResultsError, Runs

_TAIL = Struct(">Q8s")  # where the index begins, what this is
MARK = b"gvresult"
Index = dict[int, list[tuple[int, int, int, int]]]  # be -> (offset, bytes in the file, rows, bytes of rows)
_encode = msgspec.msgpack.Encoder().encode
_index = msgspec.msgpack.Decoder(Index).decode
_rows = msgspec.msgpack.Decoder(list[bytes]).decode
INDEXES = 64
LEFT_FREE = 64 << 20


class Growing:
    __slots__ = ("file", "path", "index", "size", "pieces")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.index: Index = {}
        self.size = 0
        self.pieces = 0

    def add(self, runs: Runs) -> None:
        content = bytearray()
        for run in runs:
            entry = (self.size + len(content), len(run.body), run.rows, run.size)
            self.index.setdefault(run.be, []).append(entry)
            content += run.body
        self.write(bytes(content))
        self.pieces += 1

    def write(self, content: bytes) -> None:
        if os.pwrite(self.file, content, self.size) != len(content):
            raise ResultsError(f"{self.path}: the disk is full")
        self.size += len(content)


class DiskResults:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._kept: dict[str, list[int]] = {}
        self._growing: dict[tuple[str, int, int], Growing] = {}
        self._indexes: OrderedDict[tuple[str, int], Index] = OrderedDict()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in directory.iterdir():
                for half in folder.glob("*.part"):
                    half.unlink()
                found = sorted(int(path.stem) for path in folder.glob("*.rows"))
                if found:
                    self._kept[folder.name] = found
        except OSError as error:
            raise Failure(f"results in {directory} cannot be read: {next_step(error)}") from None

    def channels(self) -> list[str]:
        return list(self._kept)

    def executions(self, channel: str) -> list[int]:
        return self._kept.get(channel, [])

    def _has(self, channel: str, execution: int) -> bool:
        kept = self._kept.get(channel, [])
        at = bisect_left(kept, execution)
        return at < len(kept) and kept[at] == execution

    def _path(self, channel: str, execution: int) -> Path:
        return self.directory / channel / f"{execution}.rows"

    # --- writing ------------------------------------------------------------------------------------------

    def put(self, channel: str, execution: int, attempt: int, piece: int, runs: Runs) -> None:
        key = (channel, execution, attempt)
        try:
            disk = os.statvfs(self.directory)
            if disk.f_bavail * disk.f_frsize < LEFT_FREE:
                raise ResultsError(f"the disk of {self.directory} is full")
            growing = self._growing.get(key)
            if piece == 0:
                self._give_up(key)
                folder = self.directory / channel
                folder.mkdir(mode=0o700, exist_ok=True)
                growing = self._growing[key] = Growing(folder / f"{execution}-{attempt}.part")
            if growing is not None and growing.pieces == piece:
                growing.add(runs)
        except OSError as error:
            raise ResultsError(f"{self.directory}: {next_step(error)}") from None

    def _give_up(self, key: tuple[str, int, int]) -> None:
        if (growing := self._growing.pop(key, None)) is not None:
            os.close(growing.file)
            growing.path.unlink(missing_ok=True)

    def commit(self, channel: str, execution: int, attempt: int, pieces: int) -> bool:
        if self._has(channel, execution):
            return True
        key = (channel, execution, attempt)
        if pieces == 0:
            self.put(channel, execution, attempt, 0, [])
            pieces = 1
        growing = self._growing.get(key)
        if growing is None or growing.pieces != pieces:
            return False
        try:
            begin = growing.size
            growing.write(_encode(growing.index) + _TAIL.pack(begin, MARK))
            os.fdatasync(growing.file)
            os.replace(growing.path, self._path(channel, execution))
            for place in (self.directory / channel, self.directory):
                _sync_directory(place)
        except OSError as error:
            raise ResultsError(f"{self.directory}: {next_step(error)}") from None
        os.close(growing.file)
        del self._growing[key]
        for other in [each for each in self._growing if each[:2] == key[:2]]:
            self._give_up(other)
        self._remember(channel, execution, growing.index)
        insort(self._kept.setdefault(channel, []), execution)
        return True

    # --- reading ------------------------------------------------------------------------------------------

    def _remember(self, channel: str, execution: int, index: Index) -> None:
        self._indexes[channel, execution] = index
        self._indexes.move_to_end((channel, execution))
        while len(self._indexes) > INDEXES:
            self._indexes.popitem(last=False)

    def _load(self, channel: str, execution: int) -> Index:
        found = self._indexes.get((channel, execution))
        if found is None:
            path = self._path(channel, execution)
            try:
                found = _read_index(path)
            except (ValueError, StructError, msgspec.MsgspecError):
                raise ResultsError(f"{path} is damaged: remove it, its execution is lost") from None
            except OSError as error:
                raise ResultsError(f"{path}: {next_step(error)}") from None
            self._remember(channel, execution, found)
        return found

    def index(self, channel: str, execution: int) -> Mapping[int, Extent]:
        if not self._has(channel, execution):
            return {}
        found = self._load(channel, execution)
        return {be: Extent(sum(e[2] for e in runs), sum(e[3] for e in runs)) for be, runs in found.items()}

    def read(self, channel: str, execution: int, be: int) -> list[bytes]:
        if not self._has(channel, execution):
            return []
        runs = self._load(channel, execution).get(be)
        if runs is None:
            return []
        rows: list[bytes] = []
        try:
            file = os.open(self._path(channel, execution), os.O_RDONLY | os.O_CLOEXEC)
            try:
                for offset, length, _, _ in runs:
                    rows += _rows(os.pread(file, length, offset))
            finally:
                os.close(file)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            path = self._path(channel, execution)
            raise ResultsError(f"{path} is damaged: remove it, its execution is lost") from None
        except OSError as error:
            raise ResultsError(f"{self.directory}: {next_step(error)}") from None
        return rows

    def drop(self, channel: str, up_to: int, after: int = 0) -> None:
        kept = self._kept.get(channel, [])
        for execution in [each for each in kept if after < each <= up_to]:
            kept.remove(execution)
            self._indexes.pop((channel, execution), None)
            self._path(channel, execution).unlink(missing_ok=True)
        for key in [each for each in self._growing if each[0] == channel and after < each[1] <= up_to]:
            self._give_up(key)
        if not kept:
            self._kept.pop(channel, None)
            if not any(name == channel for name, _, _ in self._growing):  # of the next execution
                rmtree(self.directory / channel, ignore_errors=True)

    def close(self) -> None:
        for key in list(self._growing):
            self._give_up(key)


def _read_index(path: Path) -> Index:
    """Without the rows. ValueError or what decoding raises if the file is not whole."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.fstat(file).st_size - _TAIL.size
        begin, mark = _TAIL.unpack(os.pread(file, _TAIL.size, max(end, 0)))
        if mark != MARK or not 0 <= begin <= end:
            raise ValueError
        return _index(os.pread(file, end - begin, begin))
    finally:
        os.close(file)


def _sync_directory(path: Path) -> None:
    place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(place)
    finally:
        os.close(place)
