"""What the journal asks of a disk. The daemon has the real one, the simulator one whose sectors can be lost.

Nothing here retries: who calls decides, and a sync that failed is never tried again (the kernel may have
dropped the pages, and would say that all is well the next time).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from overlay.journal.record import Buffer


class DiskFull(Exception):
    """Nothing of this write counts: it has been taken back, and may be tried again."""


class DiskFailed(Exception):
    """The disk no longer keeps what it is given; the text says why. Nothing more is acknowledged."""


class Files(Protocol):
    def names(self) -> list[str]: ...
    def size(self, name: str) -> int: ...
    def read(self, name: str, at: int = 0, length: int = -1) -> bytes:
        """What is there, less if it ends earlier; DiskFailed."""

    def append(self, name: str, pieces: Sequence[Buffer]) -> None:
        """At the file's end, which is made if it is not there. DiskFull: the file is as it was."""

    def write(self, name: str, at: int, data: bytes) -> None:
        """Over what is there, without a sync; errors are passed over: only the mark is written so."""

    def sync(self, name: str) -> None:
        """Everything appended to it is on disk when this returns; DiskFailed."""

    def sync_names(self) -> None:
        """So are the names of files that were made, renamed or removed."""

    def rename(self, name: str, to: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def free_bytes(self) -> int: ...
