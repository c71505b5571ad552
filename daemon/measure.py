"""What the driver knows and the core cannot: processor, memory, uplink, delays of the queue and of matching.

The queue's delay is estimated from the loop: a frame waits on average half a turn before it is read. All
rates are over the interval since the last report.
"""

from __future__ import annotations

from typing import Any

from daemon.loop import Loop
from daemon.memory import give_back
from daemon.uplink import Uplink

INTERVAL_S = 2.0


class Measures:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._process: Any = None
        self._uplink = Uplink()
        self._at = 0.0
        self._before: dict[str, float] = {}

    def __call__(self, now: float) -> float:
        if self._process is None:
            import psutil  # 10 ms and 3 MB that nobody should wait for at the start

            self._process = psutil.Process()
            give_back()
            self._process.cpu_percent()
        totals = self._totals()
        if self._before and now > self._at:
            self._loop.core.measured(self._report(totals, now - self._at), now)
        self._at, self._before = now, totals
        return now + INTERVAL_S

    def _totals(self) -> dict[str, float]:
        loop = self._loop
        sender, receiver = loop.sender, loop.receiver
        return {
            "publications_in": receiver.publications,
            "publications_out": sender.publications,
            "bytes_in": receiver.bytes,
            "bytes_out": sender.bytes,
            "matching_s": receiver.matching_s,
            "busy_s": loop.busy_s,
            "turns": loop.turns,
        }

    def _report(self, totals: dict[str, float], seconds: float) -> dict[str, float]:
        grown = {key: value - self._before[key] for key, value in totals.items()}
        with self._process.oneshot():
            cpu, memory = self._process.cpu_percent() / 100, self._process.memory_info().rss
        slowest, self._loop.slowest_turn_s = self._loop.slowest_turn_s, 0.0
        return {
            "cpu": cpu,
            "memory_bytes": float(memory),
            "uplink_use": self._uplink.use(seconds),
            "busy": min(1.0, grown["busy_s"] / seconds),
            "queue_delay_s": grown["busy_s"] / max(1.0, grown["turns"]) / 2,
            "slowest_turn_s": slowest,
            "matching_delay_s": grown["matching_s"] / max(1.0, grown["publications_in"]),
            "publications_in_s": grown["publications_in"] / seconds,
            "publications_out_s": grown["publications_out"] / seconds,
            "bytes_in_s": grown["bytes_in"] / seconds,
            "bytes_out_s": grown["bytes_out"] / seconds,
        }
