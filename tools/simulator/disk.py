"""A broker's state directory: what is there after a crash.

A write is durable when its sync is done, and nothing that follows from it is sent before. A crash before that
leaves the old value or the new one (a torn record is recognised and counts as the old). The incarnation
counter is written at start, before the broker says a word.
"""

from __future__ import annotations

from random import Random

from overlay.outbox import Record


class Disk:
    __slots__ = ("_random", "_unsynced", "counter", "fails", "kept", "slow", "sync_s", "torn")

    def __init__(self, random: Random, sync_s: float) -> None:
        self._random = random
        self.sync_s = sync_s
        self.slow = 1.0  # factor of a fault
        self.fails = False  # the next sync: it is not tried again, the broker stops
        self.kept: dict[str, dict[str, bytes]] = {}  # by table and key
        self.counter = 0
        self.torn = 0
        self._unsynced: list[Record] = []

    def append(self, record: Record) -> None:
        self._unsynced.append(record)

    def _keep(self, records: list[Record]) -> None:
        for table, key, value in records:
            if value is None:
                self.kept.get(table, {}).pop(key, None)
            else:
                self.kept.setdefault(table, {})[key] = value

    def sync_time_s(self) -> float:
        return self.sync_s * self.slow * self._random.uniform(0.5, 1.5)

    def synced(self) -> None:
        self._keep(self._unsynced)
        self._unsynced.clear()

    def crash(self) -> None:
        """Of what was not synced a prefix is there, and the record after it may be torn."""
        arrived = self._random.randint(0, len(self._unsynced))
        self.torn += arrived < len(self._unsynced)
        self._keep(self._unsynced[:arrived])
        self._unsynced.clear()

    def start(self, wall_s: float) -> int:
        """The next incarnation (DECISIONS 14), durable before it is used."""
        self.counter = max(self.counter + 1, int(wall_s))
        return self.counter
