"""Decided batches on their way: one publisher inside the broker for each query, one batch at a time.

What is decided stays so until all its rows are settled; how far a long batch has come is noted, so that a
broker that was killed does not begin it anew: neighbours that have given it up meanwhile would take all of it
for new. A batch that cannot be published yet (its publisher's name is taken) is tried again by the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.router import Registry
from overlay.feeding.decisions import Decided, Decisions
from overlay.feeding.publisher import QueryPublisher
from overlay.feeding.spool import Spool, SpoolError

IDLE_S = 30.0  # a publisher without work stays advertised for so long
NOTE_S = 1.0  # how far a batch has come is on disk after this


class Publishing:
    """`note(query)`: what is remembered of it has changed. `finished(query, decided, refused, text, now)`:
    all its rows are settled, `refused` of them not everywhere."""

    def __init__(
        self,
        attachments: Attachments,
        registry: Registry,
        decisions: Decisions,
        spool: Spool,
        note: Callable[[str], None],
        finished: Callable[[str, Decided, int, str, float], None],
    ) -> None:
        self.attachments = attachments
        self.registry = registry
        self.decisions = decisions
        self.spool = spool
        self.publishers: dict[str, QueryPublisher] = {}
        self.obstacles: dict[str, str] = {}  # query -> why its decided batch is not published yet
        self._note = note
        self._tell = finished
        self._restarted: set[str] = set()  # some of their rows may have been published before

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        """Decided batches go on. Their publishers are advertised before any neighbour is met: so nobody
        forgets what they have delivered already."""
        queries = self.decisions.queries
        self._restarted = {query for query, state in queries.items() if state.decided}
        for query in list(queries):
            self.publish_next(query, now)

    def publish_next(self, query: str, now: float) -> None:
        state = self.decisions.queries[query]
        publisher = self.publishers.get(query)
        if not state.decided or (publisher is not None and publisher.busy):
            return
        if self.core.leaving:
            return  # its rows stay on disk, for a broker that is started there again
        decided = state.decided[0]
        if publisher is not None and publisher.name != decided.publisher:
            publisher.end(now)
            publisher = None
        if publisher is None:
            publisher = self.publishers[query] = QueryPublisher(
                self.core, self.attachments, self.registry, query, decided.publisher, self._finished
            )
        self._make_room(publisher, now)
        if why_not := publisher.advertise(decided.advertisement, decided.may_publish, now):
            if self.obstacles.get(query) != why_not:
                self.core.note(now, f"batch {decided.batch} of query {query} waits: {why_not}")
            self.obstacles[query] = why_not
            return  # the sweep tries again
        self.obstacles.pop(query, None)
        again = query in self._restarted
        self._restarted.discard(query)
        publisher.publish(decided.batch, self._pieces(query, decided), decided.done, again, now)
        self.core.timers.at(now + NOTE_S, lambda later: self._note_progress(publisher, decided, later))

    def _note_progress(self, publisher: QueryPublisher, begun: Decided, now: float) -> None:
        state = self.decisions.queries.get(publisher.query)
        if state is None or not publisher.busy or self.publishers.get(publisher.query) is not publisher:
            return
        current = state.decided[0]
        if current.batch != begun.batch:
            return  # the next batch has a timer of its own
        if (done := begun.done + publisher.settled) > current.done:
            self.decisions.progressed(state.query, msgspec.structs.replace(current, done=done))
            self._note(state.query)
        self.core.timers.at(now + NOTE_S, lambda later: self._note_progress(publisher, begun, later))

    def _make_room(self, publisher: QueryPublisher, now: float) -> None:
        """Queries may publish under one name, one after the other: one without work lets go of it."""
        for query, other in list(self.publishers.items()):
            if other is not publisher and other.name == publisher.name and not other.busy:
                other.end(now)
                if not self.decisions.queries[query].decided:
                    del self.publishers[query]

    def _pieces(self, query: str, decided: Decided) -> Iterator[bytes]:
        for part, stage in zip(decided.parts, decided.stages(query), strict=True):
            try:
                if part.rows and self.spool.held(stage) is None:
                    raise SpoolError(f"{part.rows} rows are gone")
                if part.rows:
                    yield from self.spool.read(stage)
            except SpoolError as error:
                self.core.note(self.core.now, f"batch {decided.batch} of query {query}: {error}")
                self.core.refuse("staged rows")
                self.publishers[query].damaged += 1

    def _finished(self, publisher: QueryPublisher, now: float) -> None:
        query = publisher.query
        decided = self.decisions.published(query, now)
        self._note(query)
        text = f"{publisher.damaged} pieces could not be read" if publisher.damaged else ""
        publisher.damaged = 0
        self._tell(query, decided, publisher.take_refused(), text, now)
        self.publish_next(query, now)
        for other_query in list(
            self.decisions.queries
        ):  # who waits for the name, the earliest decision first
            other = self.publishers.get(other_query)
            if other is not None and other is not publisher and other.name == publisher.name:
                self.publish_next(other_query, now)

    # --- what is told from outside ------------------------------------------------------------------

    def flushed(self, client: Client) -> None:
        """After a drain that touched this client."""
        for publisher in self.publishers.values():
            if publisher.client is client:
                publisher.check(self.core.now)

    def ready(self, now: float) -> None:
        for publisher in self.publishers.values():
            publisher.go_on(now)

    def sweep(self, now: float) -> None:
        for query, publisher in list(self.publishers.items()):
            if publisher.busy and publisher.client is not None and publisher.client.ended:
                del self.publishers[query]  # somebody took its name: once more, from the start
                self._restarted.add(query)
            elif not publisher.busy and now - publisher.idle_since > IDLE_S:
                publisher.end(now)
                del self.publishers[query]
            if self.decisions.queries[query].decided:
                self.publish_next(query, now)

    def forget(self, query: str, now: float) -> None:
        if (publisher := self.publishers.pop(query, None)) is not None:
            publisher.end(now)
