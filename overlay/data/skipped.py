"""Which numbers of a publisher have newer ones overtaken here, without having been here themselves.

Mostly nobody here wanted them. But on a way that has changed an older one may have been lost, and the newer
ones have come: when it is sent again it is no duplicate, and it is too late for it. One bit a number, for as
many as a publisher may have unsettled by default; a publisher of which all is wanted here costs nothing.

So it is with what is older than the first one of a publisher that was here, if that was not its first one: on
a way that has changed, or to a broker that has restarted, a newer one may be the first to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from grapevine.wire.messages import Publication

Source = tuple[int, int]  # (publisher, incarnation)

UNSETTLED = 65_536  # numbers that are looked back
SPAN = 4_096  # numbers that are kept together


class Span:
    """Bit n stands for the number `first` + n; `when` newer ones came is the same for all of them."""

    __slots__ = ("bits", "first", "when")

    def __init__(self, first: int, bits: int, when: int) -> None:
        self.first = first
        self.bits = bits
        self.when = when


class Met(NamedTuple):
    """The first one here, and when; `since`: what is older than this is settled, or was told."""

    since: int
    first: int
    when: int


class Skipped:
    """`when` rises with every subscription that is made here: who asks later is owed nothing older."""

    __slots__ = ("_met", "_spans")

    def __init__(self) -> None:
        self._spans: dict[Source, list[Span]] = {}
        self._met: dict[Source, Met] = {}  # of those that did not begin here with their first

    def meet(self, source: Source, first: int, when: int) -> None:
        """It is met with this number: what is older has not been here."""
        if first > 1:
            self._met[source] = Met(max(1, first - UNSETTLED), first, when)

    def add(self, source: Source, last: int, run: Iterable[int], newest: int, when: int) -> None:
        """Those between `last` and `newest` that are not in the run."""
        first = max(last + 1, newest + 1 - UNSETTLED)
        bits = (1 << newest + 1 - first) - 1
        for number in run:
            if number >= first:
                bits ^= 1 << number - first
        if not bits:
            return
        spans = self._spans.setdefault(source, [])
        if spans and spans[-1].when == when and newest - spans[-1].first < SPAN:
            spans[-1].bits |= bits << first - spans[-1].first
        else:
            spans.append(Span(first, bits, when))
            while spans[0].first + 2 * UNSETTLED < newest:
                del spans[0]

    def when(self, source: Source, number: int) -> int:
        """When it was overtaken; 0: it was not."""
        for span in self._spans.get(source, ()):
            if number >= span.first and span.bits >> number - span.first & 1:
                return span.when
        met = self._met.get(source)
        return met.when if met is not None and met.since <= number < met.first else 0

    def forget_before(self, source: Source, number: int) -> None:
        if (met := self._met.get(source)) is not None:
            if number < met.first:
                self._met[source] = met._replace(since=max(number, met.since))
            else:
                del self._met[source]
        for span in self._spans.get(source, ()):
            if number > span.first:
                span.bits = span.bits >> number - span.first << number - span.first

    def forget(self, source: Source) -> None:
        self._spans.pop(source, None)
        self._met.pop(source, None)

    def __bool__(self) -> bool:
        return bool(self._spans or self._met)


def numbers_of(run: Iterable[Publication]) -> list[int]:
    return [publication.sequence for publication in run]
