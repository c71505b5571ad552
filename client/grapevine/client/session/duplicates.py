"""Which publications this client has had before; the last place where a duplicate is dropped.

Known by publisher, incarnation and sequence. In an ordered overlay a publisher's sequence numbers only
rise, so the last one is enough. Without the promise of order a window of the latest WINDOW numbers is
kept, and what is older than the window counts as had: at most once is promised, late is not.
"""

from __future__ import annotations

from grapevine.wire.messages import Publication

WINDOW = 4_096
PUBLISHERS = 65_536  # incarnations remembered; the longest known go first
_MASK = (1 << WINDOW) - 1


class Duplicates:
    __slots__ = ("_last", "_seen", "ordered")

    def __init__(self) -> None:
        self.ordered = True
        self._last: dict[tuple[int, int], int] = {}
        self._seen: dict[tuple[int, int], int] = {}  # bit n: last - n was had

    def among(self, publications: list[Publication]) -> list[int]:
        """Indexes of those had before; from now on all of them have been."""
        found = self._ordered(publications) if self.ordered else self._unordered(publications)
        if len(self._last) > PUBLISHERS:
            self._forget()
        return found

    def _ordered(self, publications: list[Publication]) -> list[int]:
        if not publications or self._rises(publications):
            return []
        found: list[int] = []
        publisher = incarnation = last = -1
        for index, p in enumerate(publications):
            if p.publisher != publisher or p.incarnation != incarnation:
                if publisher >= 0:
                    self._last[publisher, incarnation] = last
                publisher, incarnation = p.publisher, p.incarnation
                last = self._last.get((publisher, incarnation), -1)
            if p.sequence > last:
                last = p.sequence
            else:
                found.append(index)
        if publisher >= 0:
            self._last[publisher, incarnation] = last
        return found

    def _rises(self, publications: list[Publication]) -> bool:
        """Whether all are one publisher's and new; if not, nothing is noted."""
        publisher, incarnation = source = publications[0].publisher, publications[0].incarnation
        last = self._last.get(source, -1)
        for p in publications:
            if p.sequence <= last or p.publisher != publisher or p.incarnation != incarnation:
                return False
            last = p.sequence
        self._last[source] = last
        return True

    def _unordered(self, publications: list[Publication]) -> list[int]:
        return [index for index, p in enumerate(publications) if self._had(p)]

    def _had(self, p: Publication) -> bool:
        key = p.publisher, p.incarnation
        last = self._last.get(key, -1)
        ahead = p.sequence - last
        if ahead > 0:
            seen = self._seen.get(key, 0)
            self._seen[key] = (((seen << ahead) & _MASK) if ahead < WINDOW else 0) | 1
            self._last[key] = p.sequence
            return False
        if -ahead >= WINDOW:
            return True
        seen = self._seen.get(key, _MASK)  # known from an ordered time: all of it was had
        self._seen[key] = seen | 1 << -ahead
        return bool(seen >> -ahead & 1)

    def _forget(self) -> None:
        for key in list(self._last)[: PUBLISHERS // 4]:
            del self._last[key]
            self._seen.pop(key, None)
