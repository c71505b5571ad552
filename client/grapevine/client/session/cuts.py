"""Publications that the broker's mark passed although they did not reach everybody.

The broker numbers its cuts within the epoch, from 0, and repeats them until it hears how many were seen.
The application is told of each once, by an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from grapevine.errors import Error, NotAllowed, Undelivered
from grapevine.wire.messages import CUT_NO_RESPONDERS, CUT_NOT_ALLOWED, Cut

ALONE_MOST = 1_024  # remembered: whoever asked has looked by then


class Cuts:
    __slots__ = ("_entries", "acknowledged", "may_publish", "seen", "unanswerable")

    def __init__(self) -> None:
        self.may_publish = ""  # the filter that the broker names as this client's limit
        self._entries: list[Cut] = []
        self.unanswerable: list[Cut] = []  # requests that nobody is there to answer: told to who asked
        self.seen = 0  # of this epoch
        self.acknowledged = 0  # how many the broker knows to be seen

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Cut]:
        return iter(self._entries)

    def clear(self) -> None:
        """They have been told."""
        self._entries.clear()

    def take(self, cuts: tuple[Cut, ...], first: int) -> None:
        fresh = cuts[max(self.seen - first, 0) :]
        if fresh and first <= self.seen:
            self._entries += [cut for cut in fresh if cut.reason != CUT_NO_RESPONDERS]
            self.unanswerable += [cut for cut in fresh if cut.reason == CUT_NO_RESPONDERS]
            del self.unanswerable[:-ALONE_MOST]
            self.seen += len(fresh)

    def acknowledge(self) -> int:
        """How many were seen, for marks that leave now."""
        self.acknowledged = self.seen
        return self.seen

    def alone(self, sequence: int) -> bool:
        """Whether nobody was there to answer this request."""
        return any(cut.first <= sequence <= cut.last for cut in self.unanswerable)

    def add(self, cut: Cut) -> None:
        """One that the broker never saw."""
        self._entries.append(cut)

    def restart(self) -> None:
        self.seen = self.acknowledged = 0

    def error(self, up_to: int | None = None) -> Error | None:
        """The error for everything cut (up to a sequence number), which is then forgotten."""
        told = [cut for cut in self._entries if up_to is None or cut.first <= up_to]
        if not told:
            return None
        self._entries = [cut for cut in self._entries if up_to is not None and cut.first > up_to]
        ranges = _joined(told)
        if all(cut.reason == CUT_NOT_ALLOWED for cut in told):
            spans = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
            limit = f": this client's key may publish {self.may_publish} only" if self.may_publish else ""
            return NotAllowed(f"refused on their way: publications {spans}{limit}")
        return Undelivered(ranges)


def _joined(cuts: list[Cut]) -> list[tuple[int, int]]:
    """The ranges of sequence numbers, sorted, touching ones as one."""
    ranges: list[tuple[int, int]] = []
    for first, last in sorted((cut.first, cut.last) for cut in cuts):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
        else:
            ranges.append((first, last))
    return ranges
