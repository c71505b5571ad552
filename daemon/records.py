"""The broker's small durable state: rows by (table, key), one file, one sync for everything of a drain.

The file is a row of frames, each with its length and checksum before it; a frame is all that one drain
changed, so a daemon that was killed has all of a drain or nothing of it. A torn last frame is cut off when
the file is opened; a wrong one before others is damage, and said. When most of the file has been replaced by
later rows it is written anew beside and renamed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from zlib import crc32

import msgspec

from daemon.errors import Failure, next_step
from daemon.state import replace_file
from overlay.outbox import Record

FILE = "records"
MAGIC = b"grapevine records 1\n"
SMALL = 1 << 20  # bytes: not worth writing anew
SPARSE = 4  # times what its rows need
_HEAD = Struct(">II")  # bytes, checksum

Row = tuple[str, str, bytes | None]
Tables = dict[str, dict[str, bytes]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Row, ...]).decode


class Records:
    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        self.tables: Tables = {}
        self._live = 0  # bytes of the rows that count
        try:
            self._open()
        except OSError as error:
            raise Failure(f"{self.path} cannot be used: {next_step(error)}") from None

    def _open(self) -> None:
        if not self.path.exists():
            replace_file(self.path, MAGIC)
        content = self.path.read_bytes()
        end = self._read(content)
        self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        if end < len(content):
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        self._size = os.lseek(self._file, end, os.SEEK_SET)

    def _read(self, content: bytes) -> int:
        """Take every whole frame; where the last one ends."""
        if not content.startswith(MAGIC):
            raise self._damaged()
        position = len(MAGIC)
        while position + _HEAD.size <= len(content):
            length, checksum = _HEAD.unpack_from(content, position)
            end = position + _HEAD.size + length
            frame = content[position + _HEAD.size : end]
            if end > len(content):
                break
            if crc32(frame) != checksum:
                if end < len(content):
                    raise self._damaged()
                break
            self._take(self._rows(frame))
            position = end
        return position

    def _rows(self, frame: bytes) -> tuple[Row, ...]:
        try:
            return _decode(frame)
        except (msgspec.MsgspecError, ValueError):
            raise self._damaged() from None

    def _damaged(self) -> Failure:
        return Failure(f"{self.path} is damaged: restore it from a copy, or remove it to start anew")

    def _take(self, rows: Iterable[Row]) -> None:
        for table, key, value in rows:
            kept = self.tables.setdefault(table, {})
            before = kept.pop(key, None)
            self._live -= _cost(table, key, before)
            if value is not None:
                kept[key] = value  # the latest comes last, as who wrote it had it
            self._live += _cost(table, key, value)

    def write(self, records: Iterable[Record]) -> None:
        """All of it is on disk when this returns."""
        rows: list[Row] = [(record.table, record.key, record.value) for record in records]
        frame = _encode(rows)
        try:
            os.write(self._file, content := _HEAD.pack(len(frame), crc32(frame)) + frame)
            os.fdatasync(self._file)
        except OSError as error:
            raise Failure(f"{self.path} cannot be written: {next_step(error)}") from None
        self._size += len(content)
        self._take(rows)
        if self._size > SMALL and self._size > SPARSE * self._live:
            self._write_anew()

    def _write_anew(self) -> None:
        rows = [(table, key, value) for table, kept in self.tables.items() for key, value in kept.items()]
        frame = _encode(rows)
        try:
            replace_file(self.path, MAGIC + _HEAD.pack(len(frame), crc32(frame)) + frame)
            os.close(self._file)
            self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise Failure(f"{self.path} cannot be written: {next_step(error)}") from None
        self._size = os.lseek(self._file, 0, os.SEEK_END)

    def end(self, table: str) -> None:
        """Nothing of it counts any more."""
        if rows := self.tables.get(table):
            self.write([Record(table, key, None) for key in rows])

    def close(self) -> None:
        os.close(self._file)


def _cost(table: str, key: str, value: bytes | None) -> int:
    return 0 if value is None else len(table) + len(key) + len(value) + 8


# --- state directories of protocol 2 ----------------------------------------------------------------------

_WHOLE = {"neighbours": b"[]", "parent": b'""', "places": b"[]"}  # files, and what they hold for nothing
_RENAMED = {"places": "fallback"}
_KEYED = {"feeding": 1, "numbers": 2}  # so many of a row's first fields are its key


def adopt_files(records: Records) -> None:
    """Take over what a daemon of the last version has left: a file for each of its records."""
    rows, taken = [], []
    for name in (*_WHOLE, *_KEYED):
        path = records.path.with_name(f"{name}.json")
        try:
            content = path.read_bytes().strip()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Failure(f"{path} cannot be read: {next_step(error)}") from None
        taken.append(path)
        if name in _KEYED:
            rows += _keyed(path, name, content)
        elif content != _WHOLE[name]:
            rows.append(Record("tree", _RENAMED.get(name, name), content))
    if rows:
        records.write(rows)
    for path in taken:
        path.unlink()


def _keyed(path: Path, table: str, content: bytes) -> list[Record]:
    try:
        found = msgspec.json.decode(content, type=list[list[msgspec.Raw]])
    except (msgspec.MsgspecError, ValueError):
        raise Failure(f"{path} is damaged: restore it from a copy, or remove it to start anew") from None
    rows = []
    for fields in found:
        key = " ".join(str(msgspec.json.decode(field)) for field in fields[: _KEYED[table]])
        rows.append(Record(table, key, msgspec.json.encode(fields)))
    return rows
