"""The delivery log: one JSON line per event at this broker, written by a thread of its own.

The loop hands over whole lists and never waits: when the writer cannot follow, or the disk is full, lines
are left out and counted, since a log is no reason to hold publications back. A segment is written under a
name that ends in `.open` and renamed when it is full, so that what ends in `.jsonl` never changes again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

import msgspec

from daemon.errors import Failure, next_step
from daemon.logs import log
from overlay.outbox import Event

WAITING_EVENTS = 500_000
FLUSH_S = 0.2


class Line(msgspec.Struct, gc=False):
    """One event (INTERFACES: delivery log)."""

    t_ns: int
    broker: str
    event: str
    publisher: str
    seq: int
    to: str
    subscriptions: tuple[int, ...]
    hops: int
    delay_us: int
    pure: bool
    reason: str


class DeliveryLog(threading.Thread):
    def __init__(self, directory: Path, broker: str, segment_bytes: int) -> None:
        super().__init__(name="delivery-log", daemon=True)
        self.directory = directory
        self.broker = broker
        self.segment_bytes = segment_bytes
        self.left_out = 0
        self.written = 0
        self._queue: SimpleQueue[list[Event] | None] = SimpleQueue()
        self._waiting = 0
        self._encoder = msgspec.json.Encoder()
        self._failed = False
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in directory.glob("*.open"):  # of a daemon that was killed
                left.rename(left.with_suffix(".jsonl"))
            self._number = self._last_number() + 1
            self._file = self._begin()
        except OSError as error:
            raise Failure(f"delivery log {directory} cannot be written: {next_step(error)}") from None

    # --- called by the loop ----------------------------------------------------------------------

    def put(self, events: list[Event]) -> None:
        if self._waiting + len(events) > WAITING_EVENTS:
            self.left_out += len(events)
            return
        self._waiting += len(events)
        self._queue.put(events)

    def close(self) -> None:
        """Write what is waiting and close the segment."""
        self._queue.put(None)
        self.join(10)

    # --- the writer ------------------------------------------------------------------------------

    def run(self) -> None:
        while (events := self._queue.get()) is not None:
            self._waiting -= len(events)
            self._write(events)
            if self._queue.empty():
                self._attempt(self._file.flush)
        self._attempt(self._end)

    def _write(self, events: list[Event]) -> None:
        lines = self._encoder.encode_lines([self._line(event) for event in events])
        if self._attempt(lambda: self._file.write(lines)):
            self.written += len(events)
        else:
            self.left_out += len(events)
        if self._file.tell() >= self.segment_bytes:
            self._attempt(self._rotate)

    def _line(self, event: Event) -> Line:
        return Line(
            int(event.at * 1e9),
            self.broker,
            event.event,
            event.publisher,
            event.sequence,
            event.to,
            event.subscriptions,
            event.hops,
            event.delay_us,
            event.pure,
            event.reason,
        )

    def _attempt(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except OSError as error:
            if not self._failed:
                log.error(
                    "delivery log %s: %s; events are left out until then", self.directory, next_step(error)
                )
            self._failed = True
            return False
        if self._failed:
            log.info(
                "delivery log %s is written again, %d events were left out", self.directory, self.left_out
            )
        self._failed = False
        return True

    # --- segments --------------------------------------------------------------------------------

    def _last_number(self) -> int:
        numbers = [path.stem.rpartition("-")[2] for path in self.directory.glob("*.jsonl")]
        return max((int(number) for number in numbers if number.isdigit()), default=0)

    def _begin(self) -> BinaryIO:
        return open(self.directory / f"{self.broker}-{self._number:08d}.open", "ab")

    def _end(self) -> None:
        path = Path(self._file.name)
        self._file.close()
        if path.stat().st_size:
            path.rename(path.with_suffix(".jsonl"))
        else:
            path.unlink()

    def _rotate(self) -> None:
        self._end()
        self._number += 1
        self._file = self._begin()
