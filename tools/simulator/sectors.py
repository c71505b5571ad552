"""A disk as it really is: sectors that are written or not, whatever a file seems to hold.

What is appended can be read at once (the page cache) and is kept only when synced. At a crash each unsynced
sector is there or not, independently of its neighbours; so are the names of files. Faults are armed by
whoever plays them, and counted:

rot            a bit of a sector that is on disk changes
misdirect      a write lands over another place of the file as well
lose_sync      a sync says done and is not: its sectors go with the next crash
fail_sync      a sync fails; the pages are dropped, and the next one succeeds
short, full    no room: nothing counts
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from overlay.journal.files import DiskFailed, DiskFull
from overlay.journal.record import Buffer

SECTOR = 512


class File:
    __slots__ = ("cache", "disk", "dirty", "named", "lying")

    def __init__(self) -> None:
        self.cache = bytearray()  # what a reader sees
        self.disk = bytearray()  # what a power cut leaves
        self.dirty: set[int] = set()  # sectors of the cache that the disk need not have
        self.lying: set[int] = set()  # that the disk said it has
        self.named = False  # its name is on disk

    def sectors(self, start: int, end: int) -> range:
        return range(start // SECTOR, -(-end // SECTOR))

    def keep(self, sectors: set[int]) -> None:
        """These sectors reach the disk."""
        for sector in sectors:
            start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(self.cache))
            if len(self.disk) < end:
                self.disk.extend(bytes(end - len(self.disk)))
            self.disk[start:end] = self.cache[start:end]

    def forget(self) -> None:
        self.cache = bytearray(self.disk)
        self.dirty.clear()
        self.lying.clear()


class SectorDisk:
    """overlay.journal.files.Files in memory."""

    def __init__(self, random: Random, capacity: int = 1 << 40) -> None:
        self.random = random
        self.capacity = capacity
        self.files: dict[str, File] = {}
        self._removed: dict[str, File] = {}  # whose removal is not on disk
        self.fail_syncs = self.lose_syncs = self.misdirects = 0  # armed
        self.faults: dict[str, int] = {}
        self.syncs = 0

    def names(self) -> list[str]:
        return sorted(self.files)

    def size(self, name: str) -> int:
        return len(self.files[name].cache)

    def read(self, name: str, at: int = 0, length: int = -1) -> bytes:
        cache = self.files[name].cache
        return bytes(cache[at:] if length < 0 else cache[at : at + length])

    def append(self, name: str, pieces: Sequence[Buffer]) -> None:
        file = self.files.setdefault(name, File())
        data = b"".join(pieces)
        if self.used() + len(data) > self.capacity:
            self.count("full")
            raise DiskFull
        start = len(file.cache)
        file.cache += data
        file.dirty.update(file.sectors(start, len(file.cache)))
        if self.misdirects and start > len(data):
            self.misdirects -= 1
            self._misdirect(file, data, start)

    def _misdirect(self, file: File, data: bytes, start: int) -> None:
        self.count("misdirected")
        at = self.random.randrange(0, start - len(data)) // 8 * 8
        for content in (file.cache, file.disk):
            if len(content) >= at + len(data):
                content[at : at + len(data)] = data

    def write(self, name: str, at: int, data: bytes) -> None:
        file = self.files.setdefault(name, File())
        if len(file.cache) < at + len(data):
            file.cache.extend(bytes(at + len(data) - len(file.cache)))
        file.cache[at : at + len(data)] = data
        file.dirty.update(file.sectors(at, at + len(data)))

    def sync(self, name: str) -> None:
        self.syncs += 1
        file = self.files[name]
        if self.fail_syncs:
            self.fail_syncs -= 1
            self.count("failed sync")
            kept = {sector for sector in sorted(file.dirty) if self.random.random() < 0.5}
            file.keep(kept)
            file.forget()  # the pages that could not be written are gone
            raise DiskFailed("a sync failed")
        if self.lose_syncs and file.dirty:
            self.lose_syncs -= 1
            self.count("lost sync")
            file.lying |= file.dirty
        else:
            file.keep(file.dirty - file.lying)
        file.dirty.clear()

    def sync_names(self) -> None:
        for file in self.files.values():
            file.named = True
        self._removed.clear()

    def rename(self, name: str, to: str) -> None:
        self.files[to] = self.files.pop(name)
        self.files[to].named = False

    def remove(self, name: str) -> None:
        if (file := self.files.pop(name, None)) is not None and file.named:
            self._removed[name] = file

    def free_bytes(self) -> int:
        return self.capacity - self.used()

    def used(self) -> int:
        return sum(len(file.cache) for file in self.files.values())

    # --- faults -----------------------------------------------------------------------------------

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def crash(self, power: bool = True) -> None:
        """The process is gone; with `power`, what was not synced as well, by chance."""
        if not power:
            return
        for name in sorted(self._removed):
            if self.random.random() < 0.5 and name not in self.files:
                self.files[name] = self._removed[name]
        self._removed.clear()
        for name, file in sorted(self.files.items()):
            if not file.named and self.random.random() < 0.5:
                del self.files[name]
                continue
            file.keep({sector for sector in sorted(file.dirty) if self.random.random() < 0.5})
            file.forget()
            file.named = True

    def rot(self, name: str, at: int, bit: int = 0) -> None:
        """A bit changes, on disk and for every reader."""
        self.count("rot")
        file = self.files[name]
        file.cache[at] ^= 1 << bit
        if at < len(file.disk):
            file.disk[at] ^= 1 << bit
