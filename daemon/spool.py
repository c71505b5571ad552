"""Staged rows on disk: a file per (query, batch, partition, attempt) under `staged` in the state directory.

A file is a row of pieces, each with its length and its number of rows before it. A daemon that was killed
leaves at most a torn last piece, which is cut off when the file is met again. Nothing in a name comes from
outside as it is: the query's is a digest, and stands in a file of its own beside the rows. The last of the
disk is not for rows: the broker's own records must still find room when jobs have filled the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from daemon.errors import Failure, next_step
from daemon.logs import log
from daemon.state import replace_file
from grapevine.wire.digest import blake2b
from overlay.feeding.spool import Held, SpoolError, StageKey

OPEN_FILES = 256
LEFT_FREE = 64 << 20  # bytes of the disk
QUERY = "query"
_HEAD = Struct(">II")  # bytes, rows
_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.rows")


class DiskSpool:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._held: dict[StageKey, Held] = {}
        self._bytes: dict[StageKey, int] = {}
        self._files: dict[StageKey, BinaryIO] = {}
        self._named: set[str] = set()  # queries whose folder says so
        self._size = 0
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._recover()
        except OSError as error:
            raise Failure(f"staged rows in {directory} cannot be read: {next_step(error)}") from None

    @property
    def size(self) -> int:
        return self._size

    def stages(self) -> list[StageKey]:
        return list(self._held)

    def held(self, key: StageKey) -> Held | None:
        return self._held.get(key)

    # --- writing -----------------------------------------------------------------------------------

    def append(self, key: StageKey, rows: int, content: bytes) -> None:
        record = _HEAD.pack(len(content), rows) + content
        try:
            disk = os.statvfs(self.directory)
            if disk.f_bavail * disk.f_frsize < LEFT_FREE + len(record):
                raise SpoolError(f"the disk of {self.directory} is full")
            file = self._open(key)
            before = self._bytes[key]
            if file.write(record) != len(record):  # a full disk writes less and says nothing
                os.ftruncate(file.fileno(), before)
                file.seek(before)
                raise SpoolError(f"the disk of {self.directory} is full")
        except OSError as error:
            raise SpoolError(f"{self.directory}: {next_step(error)}") from None
        held = self._held[key]
        self._held[key] = Held(held.pieces + 1, held.rows + rows)
        self._bytes[key] = before + len(record)
        self._size += len(record)

    def keep(self, key: StageKey) -> None:
        try:
            file = self._open(key)
            os.fdatasync(file.fileno())
            _sync_directory(self._folder(key.query))
        except OSError as error:
            raise SpoolError(f"{self.directory}: {next_step(error)}") from None
        self._close(key)

    def _open(self, key: StageKey) -> BinaryIO:
        file = self._files.pop(key, None)
        if file is None:
            if len(self._files) >= OPEN_FILES:
                self._close(next(iter(self._files)))
            folder = self._folder(key.query)
            if key.query not in self._named:  # whatever a daemon has left there that was killed just here
                folder.mkdir(mode=0o700, exist_ok=True)
                replace_file(folder / QUERY, key.query.encode())
                _sync_directory(self.directory)
                self._named.add(key.query)
            file = open(self._path(key), "ab", buffering=0)  # noqa: SIM115 (it stays open)
            self._held.setdefault(key, Held(0, 0))
            self._bytes.setdefault(key, 0)
        self._files[key] = file
        return file

    def _close(self, key: StageKey) -> None:
        if (file := self._files.pop(key, None)) is not None:
            file.close()

    # --- reading and going -------------------------------------------------------------------------

    def read(self, key: StageKey) -> Iterator[bytes]:
        try:
            with open(self._path(key), "rb") as file:
                while len(head := file.read(_HEAD.size)) == _HEAD.size:
                    yield file.read(_HEAD.unpack(head)[0])
        except OSError as error:
            raise SpoolError(f"{self.directory}: {next_step(error)}") from None

    def drop(self, key: StageKey) -> None:
        if key not in self._held:
            return
        self._close(key)
        del self._held[key]
        self._size -= self._bytes.pop(key)
        folder = self._folder(key.query)
        try:
            self._path(key).unlink(missing_ok=True)
            if not any(other.query == key.query for other in self._held):
                self._named.discard(key.query)
                (folder / QUERY).unlink(missing_ok=True)
                folder.rmdir()
        except OSError as error:
            log.warning("staged rows: %s: %s", folder, next_step(error))

    def close(self) -> None:
        for key in list(self._files):
            self._close(key)

    # --- places ------------------------------------------------------------------------------------

    def _folder(self, query: str) -> Path:
        return self.directory / blake2b(query.encode(), digest_size=12).hexdigest()

    def _path(self, key: StageKey) -> Path:
        return self._folder(key.query) / f"{key.batch}-{key.partition}-{key.attempt}.rows"

    def _recover(self) -> None:
        for half in self.directory.glob(f"*/.{QUERY}.*"):
            half.unlink(missing_ok=True)
        for folder in self.directory.iterdir():
            try:
                query = (folder / QUERY).read_bytes().decode()
            except (OSError, ValueError):
                continue  # not one of ours, or made by a daemon that was killed at once: nothing is in it
            if folder != self._folder(query):
                continue
            self._named.add(query)
            for path in folder.glob("*.rows"):
                if (match := _NAME.fullmatch(path.name)) is not None:
                    self._measure(StageKey(query, *map(int, match.groups())), path)

    def _measure(self, key: StageKey, path: Path) -> None:
        """Count what is whole, cut off what is torn."""
        end = path.stat().st_size
        pieces = rows = position = 0
        with open(path, "r+b") as file:
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, count = _HEAD.unpack(head)
                if position + _HEAD.size + length > end:
                    break
                position = file.seek(position + _HEAD.size + length)
                pieces, rows = pieces + 1, rows + count
            file.truncate(position)
        self._held[key] = Held(pieces, rows)
        self._bytes[key] = position
        self._size += position


def _sync_directory(path: Path) -> None:
    place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(place)
    finally:
        os.close(place)
