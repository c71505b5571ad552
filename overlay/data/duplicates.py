"""SPEC T5: a publication is a duplicate only at a local delivery (DECISIONS 6 to 8).

In ordered mode a broker sees each publisher in order, whatever path the publications take, so the
last sequence number decides. Otherwise a window of bits below it does. What is known of a publisher is
forgotten with its last advertisement, and nothing is kept of one that has none: what was on its way when a
link was lost comes after the advertisement has gone.
"""

from __future__ import annotations

Source = tuple[int, int]  # (publisher, incarnation)

WINDOW = 4096  # how far a publication may arrive behind its publisher's newest, unordered


class LastSeen:
    """Ordered: `last` is the newest sequence number delivered here."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: dict[Source, int] = {}

    def first(self, source: Source, sequence: int) -> bool:
        """Whether this is its first delivery here; it counts as delivered from now on."""
        if sequence <= self.last.get(source, 0):
            return False
        self.last[source] = sequence
        return True

    def forget(self, source: Source) -> None:
        self.last.pop(source, None)

    def __len__(self) -> int:
        return len(self.last)


class SeenWindow(LastSeen):
    """Unordered: also which of the WINDOW numbers below the newest were delivered."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        super().__init__()
        self._bits: dict[Source, int] = {}

    def first(self, source: Source, sequence: int) -> bool:
        last = self.last.get(source, 0)
        bits = self._bits.get(source, 0)
        if sequence > last:
            shift = sequence - last
            self._bits[source] = ((bits << shift) | 1) & ((1 << WINDOW) - 1) if shift < WINDOW else 1
            self.last[source] = sequence
            return True
        bit = 1 << (last - sequence)
        if last - sequence >= WINDOW or bits & bit:
            return False
        self._bits[source] = bits | bit
        return True

    def forget(self, source: Source) -> None:
        super().forget(source)
        self._bits.pop(source, None)
