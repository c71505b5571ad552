"""SPEC T5: a publication is a duplicate only at a local delivery (DECISIONS 6 to 8).

In ordered mode a broker sees each publisher in order, whatever path the publications take, so the
last sequence number decides. Otherwise a window of bits below it does. What is known of a publisher is
forgotten with its last advertisement, and nothing is kept of one that has none: what was on its way when a
link was lost comes after the advertisement has gone.

Where a publisher's side may be lost and come back as another, that is not the end: what it published may
have been cut on the way, with nobody left to hear of it, and newer ones be here before it is sent again. Then
it is too late for it, and it is no duplicate. So it is known which numbers were never here (skipped.py): what
is dropped of those was missed, and is cut. A publisher that has gone is remembered for a while. Who has
subscribed since newer ones came is owed nothing older.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.messages import Publication
from overlay.data.skipped import Skipped, numbers_of
from overlay.data.skipped import Source as Source

WINDOW = 4096  # how far a publication may arrive behind its publisher's newest, unordered
GONE = 4096  # publishers remembered


class LastSeen:
    """Ordered: `last` is the newest sequence number delivered here."""

    __slots__ = ("gone", "last", "now", "remembers", "skipped")

    def __init__(self) -> None:
        self.last: dict[Source, int] = {}
        self.remembers = False
        self.gone: dict[Source, int] = {}  # the same of publishers that are not known any more, or not again
        self.skipped = Skipped()
        self.now: Callable[[], int] = lambda: 1  # above the numbers of all subscriptions made so far

    def first(self, source: Source, sequence: int) -> bool:
        """Whether this is its first delivery here; it counts as delivered from now on."""
        last = self.last.get(source) or self.returned(source, sequence)
        if sequence <= last:
            return False
        if sequence > last + 1 and self.remembers:
            if last:
                self.skipped.add(source, last, (sequence,), sequence, self.now())
            else:
                self.skipped.meet(source, sequence, self.now())
        self.last[source] = sequence
        return True

    def skip(self, source: Source, last: int, run: list[Publication]) -> None:
        """These come next after `last`, and not all of them in a row."""
        if self.remembers:
            numbers = numbers_of(run)
            if not last:
                last = numbers[0] - 1
                self.skipped.meet(source, numbers[0], self.now())
            self.skipped.add(source, last, numbers, numbers[-1], self.now())

    def returned(self, source: Source, sequence: int) -> int:
        """The last number of one that had gone. If this one is newer, it is back."""
        last = self.gone.get(source, 0)
        if last and sequence > last:
            del self.gone[source]
        return last

    def begin(self, source: Source, sequence: int, known: bool) -> None:
        """Its publisher attaches here and begins with this number: it sends again whatever is not settled, so
        what is older is, or was told as cut. That comes once more only from custody whose end a crash has
        unwritten. `known`: something is kept of it."""
        if known and sequence > 1 and self.remembers and source not in self.gone:
            self.last.setdefault(source, sequence - 1)
        for numbers in (self.last, self.gone):
            if source in numbers:
                numbers[source] = max(numbers[source], sequence - 1)
        self.skipped.forget_before(source, sequence)

    def missed(self, source: Source, sequence: int) -> int:
        """If this was never here, although newer ones were: when these came. Else 0."""
        return self.skipped.when(source, sequence) if self.skipped else 0

    def forget(self, source: Source) -> None:
        last = self.last.pop(source, None)
        if last is not None and self.remembers:
            self.gone[source] = last
            if len(self.gone) > GONE:
                oldest = next(iter(self.gone))
                del self.gone[oldest]
                self.skipped.forget(oldest)

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

    def begin(self, source: Source, sequence: int, known: bool) -> None: ...

    def has(self, source: Source, sequence: int) -> bool:
        """Whether it was delivered here; what is older than the window was."""
        behind = self.last.get(source, 0) - sequence
        return behind >= WINDOW or (behind >= 0 and bool(self._bits.get(source, 0) >> behind & 1))

    def forget(self, source: Source) -> None:
        self.last.pop(source, None)
        self._bits.pop(source, None)


class OrderedWindow(SeenWindow):
    """Ordered, and one that newer ones have overtaken is told from one that was delivered: where a dispatcher
    has cut an older one and sent newer ones, and the publisher sends all of them again elsewhere, the older
    one is neither a duplicate nor can it be delivered any more."""

    __slots__ = ()

    def first(self, source: Source, sequence: int) -> bool:
        return sequence > self.last.get(source, 0) and super().first(source, sequence)
