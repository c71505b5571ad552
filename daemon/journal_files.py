"""The journal's directory on a real disk (overlay.journal.files).

One append is one pwritev, or a few for a large group; a write may be short without an exception when the disk
is full, so what it took is counted, and taken back when it is not all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from daemon.errors import Failure, next_step
from overlay.journal.files import DiskFailed, DiskFull
from overlay.journal.record import Buffer

PIECES_MOST = 1024  # of one writev
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFiles:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._open: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"journal {directory} cannot be used: {next_step(error)} (journal.dir)") from None

    def names(self) -> list[str]:
        return sorted(os.listdir(self.directory))

    def size(self, name: str) -> int:
        return os.stat(self.directory / name).st_size

    def read(self, name: str, at: int = 0, length: int = -1) -> bytes:
        try:
            with open(self.directory / name, "rb", buffering=0) as file:
                wanted = max(os.fstat(file.fileno()).st_size - at, 0) if length < 0 else length
                parts = []
                while wanted > 0 and (part := os.pread(file.fileno(), wanted, at)):
                    parts.append(part)
                    at += len(part)
                    wanted -= len(part)
                return b"".join(parts)
        except OSError as error:
            raise DiskFailed(f"{self.directory / name} cannot be read: {next_step(error)}") from None

    def append(self, name: str, pieces: Sequence[Buffer]) -> None:
        file = self._file(name)
        before = self._sizes[name]
        size = before
        try:
            for start in range(0, len(pieces), PIECES_MOST):
                part = pieces[start : start + PIECES_MOST]
                wanted = sum(map(len, part))
                written = os.pwritev(file, part, size)
                if written != wanted:
                    self._rest(file, b"".join(part)[written:], size + written)
                size += wanted
        except OSError as error:
            self._take_back(name, file, before)
            if error.errno in NO_ROOM:
                raise DiskFull from None
            raise DiskFailed(f"{self.directory / name} cannot be written: {next_step(error)}") from None
        self._sizes[name] = size

    def _rest(self, file: int, data: bytes, at: int) -> None:
        """A short write: on a full disk the next one says so."""
        while data:
            written = os.pwrite(file, data, at)
            if not written:
                raise OSError(errno.ENOSPC, "no room")
            data, at = data[written:], at + written

    def _take_back(self, name: str, file: int, size: int) -> None:
        try:
            os.ftruncate(file, size)
        except OSError as error:
            raise DiskFailed(f"{self.directory / name} cannot be cut back: {next_step(error)}") from None

    def write(self, name: str, at: int, data: bytes) -> None:
        try:
            os.pwrite(self._file(name), data, at)
        except OSError:
            return  # the mark: without it a few more cases cannot be decided

    def sync(self, name: str) -> None:
        try:
            os.fdatasync(self._file(name))
        except OSError as error:
            raise DiskFailed(f"{self.directory / name} cannot be synced: {next_step(error)}") from None

    def sync_names(self) -> None:
        try:
            place = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(place)
            finally:
                os.close(place)
        except OSError as error:
            raise DiskFailed(f"{self.directory} cannot be synced: {next_step(error)}") from None

    def rename(self, name: str, to: str) -> None:
        self._close(name)
        self._close(to)
        os.rename(self.directory / name, self.directory / to)

    def remove(self, name: str) -> None:
        self._close(name)
        try:
            os.unlink(self.directory / name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise DiskFailed(f"{self.directory / name} cannot be removed: {next_step(error)}") from None

    def free_bytes(self) -> int:
        disk = os.statvfs(self.directory)
        return disk.f_bavail * disk.f_frsize

    def _file(self, name: str) -> int:
        file = self._open.get(name)
        if file is None:
            # Not O_APPEND: the mark is written at its place.
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            try:
                file = os.open(self.directory / name, flags, 0o600)
            except OSError as error:
                if error.errno in NO_ROOM:
                    raise DiskFull from None
                raise DiskFailed(f"{self.directory / name} cannot be opened: {next_step(error)}") from None
            self._open[name] = file
            self._sizes[name] = os.lseek(file, 0, os.SEEK_END)
        return file

    def _close(self, name: str) -> None:
        if (file := self._open.pop(name, None)) is not None:
            os.close(file)
            del self._sizes[name]

    def close(self) -> None:
        for name in list(self._open):
            self._close(name)
