"""A stream as the data path sees it: a subscriber of this broker whose deliveries are the journal's.

What is appended to its queue goes into the record of this drain, and holds settling until it is on disk: so
*settled* includes that it is in every durable stream that it was owed to. What was kept before a restart and
comes again is recognised by the last number of its publisher that is in the log, or of its publisher and
topic where these have the order; where publications come in any order, by which of the last numbers are in
the stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from grapevine.wire.identity import identify
from grapevine.wire.messages import CUT_LINK_LOST, PROTOCOL, PROTOCOL_OLDEST, Attach, Publication
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.deliveries import Deliveries
from overlay.data.duplicates import SeenWindow
from overlay.journal.bodies import Ordered
from overlay.journal.journal import Journal
from overlay.links.settling import Settling

LABEL = 1  # of its one subscription


class StreamDeliveries(Deliveries):
    __slots__ = ("_drain", "_latest", "journal", "kept", "number", "seen")

    def __init__(self, journal: Journal, number: int, ordered: bool) -> None:
        super().__init__(0, 0)
        self.journal = journal
        self.number = number
        self._drain = 0
        self._latest: dict[Ordered, int] = {}
        self.seen = None if ordered else SeenWindow()
        self.kept = 0  # publications, in this life

    def hold(self, record: Settling) -> None:
        queue = self.queue
        fresh = self._fresh() if queue else []
        queue.clear()
        self.ids.clear()
        if fresh:
            self.kept += len(fresh)
            self.journal.want(self.number, fresh)
        record.pending += 1
        self.journal.wait(record)  # also for what came before and is not on disk yet

    def _fresh(self) -> list[Publication]:
        """Those that are not in the log, nor in this drain's part of it."""
        if self.seen is not None:
            return self.recall(self.queue)
        if self._drain != self.journal.drains:
            self._drain = self.journal.drains
            self._latest.clear()
        known, latest, ordered_by = self.journal.contents.sources, self._latest, self.journal.ordered_by
        fresh = []
        for publication in self.queue:
            key = ordered_by(publication)
            if publication.sequence > (latest.get(key) or known.get(key, 0)):
                latest[key] = publication.sequence
                fresh.append(publication)
        return fresh

    def recall(self, publications: Iterable[Publication]) -> list[Publication]:
        """Unordered: these are in the log, or will be; those that were not before."""
        assert self.seen is not None
        first = self.seen.first
        return [p for p in publications if first((p.publisher, p.incarnation), p.sequence)]

    def seal(self, most: int = 0) -> None:
        """Everything was handed on when it was held."""

    def give_up(self, reason: int = CUT_LINK_LOST) -> None:
        self.queue.clear()
        self.ids.clear()


class StreamSession(Client):
    """Nobody is at the other end."""

    __slots__ = ("stream",)
    lasting = True

    def __init__(self, core: Core, journal: Journal, number: int, ordered: bool, now: float) -> None:
        name = f"stream {number} of {core.name}"
        attach = Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), 0, 1, 0, 0)
        super().__init__(core, attach, lambda client: None, now)
        self.stream = self.deliveries = self.out = StreamDeliveries(journal, number, ordered)
        self.ended = True  # as a client; it is nobody's
        core.numbered[self.number] = self

    def introduce(self, publisher: int, name: str, broker_name: str) -> None:
        """Readers hear names when they read."""

    def flush(self) -> None: ...
