"""The journal's thread: it takes all that has come, writes and syncs it as one group, and tells the loop.

There is no timer: while one group is synced the next one gathers. The loop hands over lists and is woken
through an eventfd; it never waits for the disk. While nothing comes the thread writes the mark, and reads
sealed segments slowly to find what has rotted before it is needed (scrubbing).

A disk that fails ends the broker: nothing more is acknowledged, and nobody may think otherwise. So does one
that takes longer than `stuck_s` for one group, since a broker that cannot persist holds others' settling.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from time import monotonic

from daemon.logs import log
from overlay.journal.files import DiskFailed, DiskFull, Files
from overlay.journal.judging import Hole
from overlay.journal.names import Segment, segments
from overlay.journal.scrubbing import Scrub
from overlay.journal.writing import GROUP_BYTES, Append, Writer, Written

MARK_S = 1.0  # after this long without a group the mark is written
SCRUB_S = 0.25  # between two pieces of a sealed segment
SCRUB_BYTES = 1 << 20
SLOW_S = 1.0  # a group that takes longer is worth a warning


class JournalThread(threading.Thread):
    def __init__(self, files: Files, writer: Writer) -> None:
        super().__init__(name="journal", daemon=True)
        self.files = files
        self.writer = writer
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.failed = ""  # why nothing more can be kept
        self.slowest_s = 0.0
        self.slow = 0  # groups that took longer than SLOW_S
        self.holes: deque[Hole] = deque()  # found by scrubbing, for the loop
        self._began: float | None = None  # of the group being written
        self._todo: deque[Append] = deque()
        self._done: deque[Written] = deque()
        self._wake = threading.Event()
        self._ending = False
        self._full = False
        self._scrub = Scrub(files)

    # --- the loop's side --------------------------------------------------------------------------

    def put(self, appends: list[Append]) -> None:
        self._todo.extend(appends)
        self._wake.set()

    def take(self) -> list[Written]:
        """What has been written since the last call."""
        try:
            os.eventfd_read(self.eventfd)
        except BlockingIOError:
            pass
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def stuck_s(self) -> float:
        """For how long the disk has been at one group."""
        began = self._began
        return 0.0 if began is None else monotonic() - began

    def close(self, wait_s: float = 10.0) -> None:
        """Write what is there and end."""
        self._ending = True
        self._wake.set()
        if self.is_alive():
            self.join(wait_s)
        if self.eventfd >= 0:
            os.close(self.eventfd)
            self.eventfd = -1

    # --- the thread's -----------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not (self._ending and not self._todo):
                if not self._wake.wait(MARK_S if not self._scrub.busy else SCRUB_S):
                    self._idle()
                    continue
                self._wake.clear()
                self._write_all()
            self.writer.note()
        except DiskFailed as failure:
            self._fail(str(failure))
        except DiskFull:
            self._fail("the disk is full to the last byte: make room and start again")
        except Exception as mistake:
            log.exception("the journal's thread has ended")
            self._fail(f"the journal's thread has ended: {mistake!r}")

    def _fail(self, reason: str) -> None:
        self.failed = reason
        os.eventfd_write(self.eventfd, 1)

    def _write_all(self) -> None:
        while self._todo:
            for group in groups([self._todo.popleft() for _ in range(len(self._todo))]):
                self._began = monotonic()
                written = self.writer.commit(group)
                took = monotonic() - self._began
                self._began = None
                self._note_time(took)
                self._full = not written.room
                self._done.append(written)
                os.eventfd_write(self.eventfd, 1)

    def _note_time(self, took: float) -> None:
        self.slowest_s = max(self.slowest_s, took)
        if took > SLOW_S:
            self.slow += 1
            log.warning("the journal's disk took %.1f s for one group", took)

    def _idle(self) -> None:
        self.writer.note()
        if self._full and self.writer.room():
            self._full = False
            self._done.append(Written(self.writer.synced, [], True))
            os.eventfd_write(self.eventfd, 1)
        there = segments(self.files.names())
        sealed: list[Segment] = [one for one in there if one.number != self.writer.segment.number]
        for hole in self._scrub.step(sealed, SCRUB_BYTES):
            self.holes.append(hole)
            os.eventfd_write(self.eventfd, 1)


def groups(todo: list[Append]) -> list[list[Append]]:
    """Bounded, so that a large one does not delay the next."""
    found: list[list[Append]] = []
    size = GROUP_BYTES
    for append in todo:
        if size >= GROUP_BYTES:
            found.append([])
            size = 0
        found[-1].append(append)
        size += len(append.body)
    return found
