"""Rows that publications have fed, on disk: segment files of one dataset, named by their first position.

A record is its length, its checksum and the row. A torn tail is cut off when the log is opened. Where each
record begins is in memory, eight bytes a row.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from shutil import rmtree
from struct import Struct
from struct import error as StructError
from zlib import crc32

import msgspec

from daemon.errors import Failure, next_step
from grapevine.wire.driving import FedRow
from overlay.channels.dataset_log import DatasetLogError, Read

_HEAD = Struct(">II")  # bytes, checksum
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FedRow).decode
SEGMENT_BYTES = 32 << 20


class Segment:
    __slots__ = ("path", "first", "offsets", "size", "file")

    def __init__(self, path: Path, first: int) -> None:
        self.path = path
        self.first = first
        self.offsets = array("Q")
        self.size = 0
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._scan()

    def _scan(self) -> None:
        content = self.path.read_bytes()
        at = 0
        while at + _HEAD.size <= len(content):
            length, checksum = _HEAD.unpack_from(content, at)
            end = at + _HEAD.size + length
            if end > len(content) or crc32(content[at + _HEAD.size : end]) != checksum:
                break
            self.offsets.append(at)
            at = end
        os.ftruncate(self.file, at)
        self.size = at

    @property
    def end(self) -> int:
        return self.first + len(self.offsets) - 1

    def append(self, rows: list[bytes]) -> None:
        content = bytearray()
        starts = []
        for row in rows:
            starts.append(self.size + len(content))
            content += _HEAD.pack(len(row), crc32(row)) + row
        if os.pwrite(self.file, content, self.size) != len(content):
            os.ftruncate(self.file, self.size)
            raise DatasetLogError(f"{self.path}: the disk is full")
        self.offsets.extend(starts)
        self.size += len(content)

    def rows(self, position: int, last: int, most_bytes: int) -> tuple[list[Read], int]:
        """Those from a position on that are so many bytes together, and how many that is."""
        first = position - self.first

        def size_to(index: int) -> int:
            end = self.offsets[index + 1] if index + 1 < len(self.offsets) else self.size
            return end - self.offsets[first] - (index + 1 - first) * _HEAD.size

        indexes = range(first, min(last, self.end) - self.first + 1)
        count = bisect_right(indexes, most_bytes, key=size_to)
        if not count:
            return [], 0
        size = size_to(first + count - 1)
        content = os.pread(self.file, size + count * _HEAD.size, self.offsets[first])
        found, at = [], 0
        for number in range(position, position + count):
            row, at = self._row(content, at, first)
            found.append(Read(number, row))
        return found, size

    def _row(self, content: bytes, at: int, first: int) -> tuple[FedRow, int]:
        """The record at a place of what was read from the `first` one on, and where the next begins."""
        try:
            length, checksum = _HEAD.unpack_from(content, at)
            end = at + _HEAD.size + length
            body = content[at + _HEAD.size : end]
            if crc32(body) != checksum:
                raise ValueError
            return _decode(body), end
        except (ValueError, StructError, msgspec.MsgspecError):
            place = self.offsets[first] + at
            raise DatasetLogError(f"{self.path} is damaged at byte {place}") from None


class DiskDatasetLog:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._segments: dict[str, list[Segment]] = {}
        self._unsynced: set[Segment] = set()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in directory.iterdir():
                paths = sorted(folder.glob("*.log"), key=lambda path: int(path.stem))
                self._segments[folder.name] = [Segment(path, int(path.stem)) for path in paths]
        except OSError as error:
            raise Failure(f"datasets in {directory} cannot be read: {next_step(error)}") from None

    def append(self, dataset: str, rows: Iterable[FedRow]) -> int:
        try:
            segments = self._segments.setdefault(dataset, [])
            if not segments or segments[-1].size >= SEGMENT_BYTES:
                folder = self.directory / dataset
                folder.mkdir(mode=0o700, exist_ok=True)
                segments.append(Segment(folder / f"{self.end(dataset) + 1}.log", self.end(dataset) + 1))
                _sync_directory(folder)
                _sync_directory(self.directory)
            segments[-1].append([_encode(row) for row in rows])
            self._unsynced.add(segments[-1])
        except OSError as error:
            raise DatasetLogError(f"{self.directory}: {next_step(error)}") from None
        return self.end(dataset)

    def sync(self) -> None:
        try:
            for segment in self._unsynced:
                os.fdatasync(segment.file)
        except OSError as error:
            raise DatasetLogError(f"{self.directory}: {next_step(error)}") from None
        self._unsynced.clear()

    def end(self, dataset: str) -> int:
        segments = self._segments.get(dataset)
        return segments[-1].end if segments else 0

    def start(self, dataset: str) -> int:
        segments = self._segments.get(dataset)
        return segments[0].first if segments else 1

    def read(self, dataset: str, after: int, up_to: int, most_bytes: int) -> list[Read]:
        segments = self._segments.get(dataset, [])
        found: list[Read] = []
        left = most_bytes
        position, last = max(after + 1, self.start(dataset)), min(up_to, self.end(dataset))
        while position <= last:
            segment = segments[bisect_right(segments, position, key=lambda each: each.first) - 1]
            rows, size = segment.rows(position, last, left)
            if not rows and not found:  # one at least, however long it is
                rows, size = segment.rows(position, position, segment.size)
            if not rows:
                break
            found += rows
            left -= size
            position += len(rows)
        return found

    def trim(self, dataset: str, before: int) -> None:
        """By whole segments; the last one stays, for its number."""
        segments = self._segments.get(dataset, [])
        while len(segments) > 1 and segments[0].end < before:
            gone = segments.pop(0)
            os.close(gone.file)
            self._unsynced.discard(gone)
            gone.path.unlink(missing_ok=True)

    def drop(self, dataset: str) -> None:
        for segment in self._segments.pop(dataset, []):
            os.close(segment.file)
            self._unsynced.discard(segment)
        rmtree(self.directory / dataset, ignore_errors=True)

    def close(self) -> None:
        for segments in self._segments.values():
            for segment in segments:
                os.close(segment.file)


def _sync_directory(path: Path) -> None:
    place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(place)
    finally:
        os.close(place)
