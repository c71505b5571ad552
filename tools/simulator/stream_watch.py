"""What durable streams must hold (DP-S1, S3): everything settled that they were owed, once, in order, and an
offset that never means two things, whoever crashed.

A stream counts from the confirmation of the durable subscription that made it, and goes on counting while its
broker is down. What readers are given is compared with what was given before; what the logs hold is looked at
when the world is at rest, and judged like deliveries. A broker that starts without one must have told a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from struct import Struct
from typing import TYPE_CHECKING

from grapevine.client.session.durable import DurableMessage, DurableReader, Gap
from grapevine.wire.messages import Publication
from overlay.core import Core
from overlay.journal.journal import Journal
from overlay.journal.stream_log import LOST

if TYPE_CHECKING:
    from tools.simulator.oracle import Oracle
    from tools.simulator.owed import Announced, Counted

_number = Struct("<Q").unpack
Place = tuple[int, str, int]  # broker, name, version: a stream that a disk has lost begins anew
NUMBER = 1  # of the one subscription that a stream is


class StreamWatch:
    def __init__(self, oracle: Oracle, announce: Callable[[int, DurableReader, int], Announced]) -> None:
        self.oracle = oracle
        self._announce = announce
        self._streams: dict[Place, Announced] = {}
        self._given: dict[Place, dict[int, int]] = {}  # offset -> publication
        self.read = 0

    def opened(self, broker: int, reader: DurableReader) -> None:
        """A durable subscription is confirmed."""
        place = (broker, reader.stream, reader.version)
        if place not in self._streams:
            self._streams[place] = self._announce(broker, reader, -1 - len(self._streams))
            self._given[place] = {}

    def attach(self, broker: int, core: Core) -> None:
        """The broker has started: its streams are there, or it has said that its disk has lost something;
        then they have ended, and readers begin others."""
        if core.journal is None:
            return
        bodies = [stream.body for stream in core.journal.contents.streams.values()]
        there = {(broker, body.name, body.version) for body in bodies}
        for place, known in self._streams.items():
            if place[0] == broker and place not in there and known.counted is not None:
                if not self.oracle.disk_told(broker):
                    self.oracle.violation(f"broker {broker} has lost the stream {place[1]} in silence")
                self.oracle.stop_counting(known, self.oracle.world.now)

    def given(self, broker: int, reader: DurableReader, items: Iterable[DurableMessage | Gap]) -> None:
        for item in items:
            if isinstance(item, Gap):
                if not self.oracle.stream_told(broker):
                    self.oracle.violation(f"broker {broker} tells a gap {item} and no disk has lost anything")
            else:
                self.read += 1
                self._check((broker, reader.stream, reader.version), item.offset, item.publication)

    def _check(self, place: Place, offset: int, publication: Publication) -> None:
        number = _number(publication.payload)[0]
        given = self._given.setdefault(place, {})
        if given.setdefault(offset, number) != number:
            # Rot in the last group, which no later record saw: it counts as torn, and its offsets are free.
            if self.oracle.stream_told(place[0]):
                given[offset] = number
                return
            self.oracle.violation(f"offset {offset} of {place} is publication {number} and another")

    def counted(self) -> dict[Counted, None]:
        return {a.counted: None for a in self._streams.values() if a.counted is not None}

    def collect(self, broker: int, core: Core) -> None:
        """At rest: what the logs hold counts as delivered."""
        journal = core.journal
        for stream in journal.contents.streams.values() if journal is not None else ():
            place = (broker, stream.body.name, stream.body.version)
            if (known := self._streams.get(place)) is None or journal is None:
                continue
            needed = min((cursor.oldest() for _, cursor in stream.cursors.values()), default=1)
            for offset, number in self._given[place].items():
                if offset < needed:  # it was there, and is acknowledged
                    self.oracle.in_stream(known, number)
            order: dict[Hashable, int] = {}
            had: set[tuple[int, int, int]] = set()
            for offset, publication in self._contents(journal, stream.log.pieces(1, stream.log.next)):
                self._check(place, offset, publication)
                source = (publication.publisher, publication.incarnation)
                if (*source, publication.sequence) in had:
                    self.oracle.violation(f"{place} has {publication.sequence} twice")
                number = _number(publication.payload)[0]
                ordered_by = self.oracle.order_of(self.oracle.publications[number])
                if self.oracle.ordered and publication.sequence < order.get(ordered_by, 0):
                    self.oracle.violation(f"{place} has {publication.sequence} out of order")
                had.add((*source, publication.sequence))
                order[ordered_by] = publication.sequence
                self.oracle.in_stream(known, number)

    def _contents(
        self, journal: Journal, pieces: Iterable[tuple[int, int, int]]
    ) -> Iterable[tuple[int, Publication]]:
        for offset, position, items in pieces:
            if position == LOST:
                continue
            for read in journal.reader.read(position, items):
                for publication in read.publications or ():
                    yield offset, publication
                    offset += 1
