"""Publications that the broker's mark passed although they did not reach everybody.

The broker numbers its cuts within the epoch, from 0, and repeats them until it hears how many were seen.
The application is told of each once, by an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from grapevine.client.session.duplicates import order_terms
from grapevine.client.session.outgoing import Outgoing
from grapevine.errors import Error, NotAllowed, Undelivered
from grapevine.filters.topics import Refusal, Term, topic_of
from grapevine.wire import decode_attributes
from grapevine.wire.messages import CUT_NO_RESPONDERS, CUT_NOT_ALLOWED, Attached, Cut

ALONE_MOST = 1_024  # remembered: whoever asked has looked by then


class Cuts:
    __slots__ = (
        "_entries",
        "_outgoing",
        "_without_topic",
        "acknowledged",
        "may_publish",
        "seen",
        "terms",
        "unanswerable",
    )

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._without_topic = ""  # why one of them has no topic
        self.terms: tuple[Term, ...] = ()  # of topics, if the broker routes by them
        self.may_publish = ""  # the filter that the broker names as this client's limit
        self._entries: list[Cut] = []
        self.unanswerable: list[Cut] = []  # requests that nobody is there to answer: told to who asked
        self.seen = 0  # of this epoch
        self.acknowledged = 0  # how many the broker knows to be seen

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Cut]:
        return iter(self._entries)

    def agree(self, attached: Attached) -> None:
        """What a broker takes."""
        self.may_publish = attached.may_publish
        self.terms = order_terms(attached.ordered_by)

    def clear(self) -> None:
        """They have been told."""
        self._entries.clear()
        self._without_topic = ""

    def take(self, cuts: tuple[Cut, ...], first: int) -> None:
        fresh = cuts[max(self.seen - first, 0) :]
        if fresh and first <= self.seen:
            self._look_for_topics(fresh)
            self._entries += [cut for cut in fresh if cut.reason != CUT_NO_RESPONDERS]
            self.unanswerable += [cut for cut in fresh if cut.reason == CUT_NO_RESPONDERS]
            del self.unanswerable[:-ALONE_MOST]
            self.seen += len(fresh)

    def _look_for_topics(self, cuts: tuple[Cut, ...]) -> None:
        """A broker says that it refused, not why; before their mark is taken they are still here."""
        for cut in cuts if self.terms and not self._without_topic else ():
            packed = self._outgoing.attributes_of(cut.first) if cut.reason == CUT_NOT_ALLOWED else None
            topic = "" if packed is None else topic_of(decode_attributes(packed), self.terms)
            if isinstance(topic, Refusal):
                self._without_topic = topic.text
                return

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
        without_topic = self._without_topic
        if not self._entries:
            self._without_topic = ""
        ranges = _joined(told)
        if all(cut.reason == CUT_NOT_ALLOWED for cut in told):
            spans = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
            why = without_topic
            if not why and self.may_publish:
                why = f"this client's key may publish {self.may_publish} only"
            return NotAllowed(f"refused on their way: publications {spans}{why and ': '}{why}")
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
