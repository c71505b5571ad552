"""Which publications this client has had before; the last place where a duplicate is dropped.

Known by publisher, incarnation and sequence. In an ordered overlay a publisher's sequence numbers only
rise, so the last one is enough. Without the promise of order a window of the latest WINDOW numbers is
kept, and what is older than the window counts as had: at most once is promised, late is not. Where order
holds for each topic of a publisher, the last one of each is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from grapevine.filters.topics import Refusal, Term, Unusable, terms_of, topic_of
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.messages import Attached, Publication

WINDOW = 4_096
PUBLISHERS = 65_536  # incarnations remembered; the longest known go first
_MASK = (1 << WINDOW) - 1


def order_terms(by: Sequence[str]) -> tuple[Term, ...]:
    """As the broker says; what makes no sense is left aside."""
    try:
        return terms_of(by) if by else ()
    except Unusable:
        return ()


class Duplicates:
    __slots__ = ("_last", "_last_of_topic", "_seen", "_topics", "ordered", "terms")

    def __init__(self) -> None:
        self.ordered = True
        self.terms: tuple[Term, ...] = ()  # of topics, if each is ordered by itself
        self._topics: dict[bytes, str] = {}  # by attributes
        self._last_of_topic: dict[tuple[int, int, str], int] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._seen: dict[tuple[int, int], int] = {}  # bit n: last - n was had

    def agree(self, attached: Attached) -> None:
        """What order a broker promises."""
        self.ordered = attached.ordered
        self.terms = order_terms(attached.ordered_by)

    def among(self, publications: list[Publication]) -> list[int]:
        """Indexes of those had before; from now on all of them have been."""
        if self.terms:
            return self._by_topic(publications)
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

    def _by_topic(self, publications: list[Publication]) -> list[int]:
        found: list[int] = []
        last = self._last_of_topic
        for index, p in enumerate(publications):
            key = p.publisher, p.incarnation, self._topic(p.attributes)
            if p.sequence > last.get(key, -1):
                last[key] = p.sequence
            else:
                found.append(index)
        if len(last) > PUBLISHERS:
            for old in list(last)[: PUBLISHERS // 4]:
                del last[old]
        return found

    def _topic(self, attributes: bytes) -> str:
        topic = self._topics.get(attributes)
        if topic is None:
            try:
                found = topic_of(decode_attributes(attributes), self.terms)
            except WireError:
                found = ""
            topic = "" if isinstance(found, Refusal) else found
            if len(self._topics) >= PUBLISHERS:
                self._topics.clear()
            self._topics[attributes] = topic
        return topic

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
