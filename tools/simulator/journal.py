"""A broker's journal in the simulator: the product's writer and recovery on sectors, in virtual time.

What the core appends is written when the disk has done with the group before; a sync takes its time. A crash
in between leaves what was written and not synced to chance, if the power goes, or all of it, if only the
process does. Faults of the disk are armed here; what a recovery reports is kept, because that excuses.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from overlay.journal.files import DiskFailed, DiskFull
from overlay.journal.journal import Opened
from overlay.journal.names import segments
from overlay.journal.opening import open_journal
from overlay.journal.writing import Append, Writer, Written
from tools.simulator.sectors import SectorDisk

MARK = 0.3  # chance that the mark is written after a group
RESERVE_BYTES = 4_096


class SimulatedJournal:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = SectorDisk(random)
        self.writer: Writer | None = None
        self.reported = 0  # positions lost and torn ends, as told by recoveries
        self.lied = False  # a sync that said done and was not
        self.failed = False
        self.was_full = False  # something was refused for want of room
        self._todo: list[Append] = []
        self._writing: list[Append] = []

    def open(self, incarnation: int) -> Opened:
        self.disk.fail_syncs = 0
        self.disk.capacity = 1 << 40  # a broker does not start on a full disk
        self.writer, opened = open_journal(self.disk, incarnation)
        self.writer.reserve = RESERVE_BYTES
        self.reported += opened.holes + bool(opened.torn)
        self.failed = False
        return opened

    def put(self, appends: list[Append]) -> None:
        self._todo += appends

    @property
    def idle(self) -> bool:
        return not self._writing and not self._todo

    def begin(self) -> bool:
        """Whether there is a group to write now."""
        if self._writing or not self._todo:
            return False
        self._writing, self._todo = self._todo, []
        return True

    def finish(self) -> Written | None:
        """The disk is done; None: it has failed, and the broker with it."""
        assert self.writer is not None
        group, self._writing = self._writing, []
        try:
            written = self.writer.commit(group)
        except (DiskFailed, DiskFull):
            self.failed = True
            return None
        self.was_full |= bool(written.refused)
        if self.random.random() < MARK:
            self.writer.note()
        return written

    def crash(self) -> None:
        """What was being written is in the page cache, by chance; without power that counts for little."""
        power = self.random.random() < 0.5
        records = [append for append in self._writing if append.kind < 240]
        if self.writer is not None and records and not self.failed and self.random.random() < 0.7:
            try:
                self.writer._write(records)
            except DiskFailed:
                power = True
        self._todo, self._writing = [], []
        self.lied |= power and any(file.lying for file in self.disk.files.values())
        self.disk.crash(power)

    # --- faults -----------------------------------------------------------------------------------

    def rot(self, tail: bool = False) -> None:
        """Somewhere in what is on disk a bit changes; in the `tail`: where the last records are."""
        there = segments(self.disk.names())[-1 if tail else 0 :]
        if there:
            name = self.random.choice(there).name
            size = len(self.disk.files[name].disk)
            if size:
                self.disk.rot(name, self.random.randrange(size), self.random.randrange(8))

    def faults(self) -> dict[str, Callable[[], None]]:
        return {
            "rot": self.rot,
            "misdirected write": lambda: setattr(self.disk, "misdirects", 1),
            "lost sync": lambda: setattr(self.disk, "lose_syncs", 1),
            "failed sync": lambda: setattr(self.disk, "fail_syncs", 1),
            "full disk": lambda: setattr(self.disk, "capacity", self.disk.used() + RESERVE_BYTES + 600),
        }
