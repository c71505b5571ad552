"""How much of the uplink is used, as the machine tells it: what SH goes by where `uplink_msgs_s` is not set.

Interfaces that are up and know their speed count, the fullest decides. The loopback has no speed, nor have
some virtual cards; where no interface has one nothing is known, and the use is 0.

A unit that sees nothing of /proc but processes (`ProcSubset=pid`) has the same tables under its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

MBIT = 1_000_000 / 8  # bytes


def fullest(sent: Mapping[str, float], mbits: Mapping[str, float], seconds: float) -> float:
    """Of bytes sent in so many seconds, by interface, and what each can carry."""
    shares = [sent[name] / (mbits[name] * MBIT * seconds) for name in sent if mbits.get(name, 0) > 0]
    return min(1.0, max(shares, default=0.0))


class Uplink:
    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def use(self, seconds: float) -> float:
        """Since it was asked last, so many seconds ago."""
        import psutil

        try:
            with _own_tables():
                totals = {name: io.bytes_sent for name, io in psutil.net_io_counters(pernic=True).items()}
                mbits = {name: card.speed for name, card in psutil.net_if_stats().items() if card.isup}
        except OSError:  # the machine tells nothing
            return 0.0
        sent = {name: max(0, totals[name] - self._before[name]) for name in totals if name in self._before}
        self._before = totals
        return fullest(sent, mbits, seconds)


@contextmanager
def _own_tables() -> Iterator[None]:
    import psutil

    before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, "/proc/self"
    try:
        yield
    finally:
        psutil.PROCFS_PATH = before
