"""Staged feeding: rows are kept per (query, batch, partition, attempt) and published at the driver's commit.

A task stages its rows; a second run of it, or a copy that runs beside it, stages its own under another
attempt. The driver's commit names one attempt of each partition. From the moment that this decision is on
disk the batch will be published, once, whatever is killed meanwhile; a second commit of the same batch, or of
an earlier one, changes nothing. Batches of one query are published in their order.

A query belongs to the key that first committed a batch of it: no other may commit or abort for it. Tasks may
come by other keys, since a commit names what they staged by numbers that were drawn at random.

Bounded: bytes staged, queries remembered, batches of one query that wait; what nobody commits goes when its
query commits a later batch, or by age. Queries that nobody will come back to are forgotten first.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from grapevine.filters.normal import EVERYTHING, Filter
from grapevine.wire.feeding import (
    ONCE,
    AbortBatch,
    BatchState,
    CommitBatch,
    StageBegin,
    Staged,
    StagedPart,
    StageEnd,
    StagePiece,
)
from overlay.behaviour import Quiet, Status
from overlay.clients.attachments import Attachments
from overlay.clients.client import Client
from overlay.core import Core
from overlay.feeding.publisher import ROW_BITS, QueryPublisher
from overlay.feeding.spool import Held, Spool, SpoolError, StageKey
from overlay.links.session import Kind, Session
from overlay.links.sync import Sync
from overlay.outbox import Record
from overlay.settings import CoreSettings, FeedingSettings
from overlay.tree.advertisements import Advertisements

RECORD = "feeding"
WAITING = 16  # decided batches of one query that are not published yet
IDLE_S = 30.0  # a publisher without work stays advertised for so long
SWEEP_S = 5.0
NOTE_S = 1.0  # how far a batch has come is on disk after this


class Decided(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch that will be published."""

    batch: int
    publisher: str
    advertisement: Filter
    parts: tuple[StagedPart, ...]
    may_publish: Filter = EVERYTHING
    done: int = 0  # so many of its first rows are settled, as far as was noted

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


class QueryState(msgspec.Struct, array_like=True, gc=False):
    """What is remembered of a query: its last batch, and those of its batches that are not published yet."""

    query: str
    batch: int
    used_at: float
    decided: tuple[Decided, ...] = ()
    key: str = ""  # of the first commit


class Staging(Quiet):
    name = "feeding"

    def __init__(
        self,
        settings: FeedingSettings,
        sync: Sync,
        attachments: Attachments,
        advertisements: Advertisements,
        spool: Spool,
        known: tuple[QueryState, ...] = (),
    ) -> None:
        self.settings = settings
        self.attachments = attachments
        self.advertisements = advertisements
        self.spool = spool
        self.queries: dict[str, QueryState] = {state.query: state for state in known}
        self.publishers: dict[str, QueryPublisher] = {}
        self.published = 0  # rows
        self._restarted = {state.query for state in known if state.decided}
        self._stages: dict[Session, dict[int, StageKey]] = {}
        self._begun_at: dict[StageKey, float] = {}
        self._waiters: dict[tuple[str, int], list[tuple[Client, int]]] = {}
        self._obstacles: dict[str, str] = {}  # query -> why its decided batch is not published yet
        self._drained = attachments.drained
        attachments.drained = self._flushed
        sync.on_ready.append(self._ready)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(StageBegin, self.on_begin, Kind.CLIENT)
        core.on(StagePiece, self.on_piece, Kind.CLIENT)
        core.on(StageEnd, self.on_end, Kind.CLIENT)
        core.on(CommitBatch, self.on_commit, Kind.CLIENT)
        core.on(AbortBatch, self.on_abort, Kind.CLIENT)

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        self.settings = self.core.settings.feeding

    def start(self, now: float) -> None:
        """Decided batches go on. Their publishers are advertised before any neighbour is met: so nobody
        forgets what they have delivered already."""
        for key in self.spool.stages():
            self._begun_at[key] = now
        for query in list(self.queries):
            self._publish_next(query, now)
        self._sweep(now)

    # --- stages -------------------------------------------------------------------------------------

    def on_begin(self, client: Client, message: StageBegin, now: float) -> None:
        key = StageKey(message.query, message.batch, message.partition, message.attempt)
        known = self.queries.get(key.query)
        if known is not None and key.batch <= known.batch:
            self.core.tell(Staged(message.stage, 0, "again"), client)
            return
        if len(self._begun_at) >= self.settings.stages and key not in self._begun_at:
            self._refuse(client, message.stage, "limit", f"{self.core.name} holds too many stages")
            return
        self._stages.setdefault(client, {})[message.stage] = key
        self._begun_at.setdefault(key, now)
        held = self.spool.held(key) or Held(0, 0)
        self.core.tell(Staged(message.stage, held.pieces, "open"), client)

    def on_piece(self, client: Client, message: StagePiece, now: float) -> None:
        key = self._stages.get(client, {}).get(message.stage)
        if key is None:
            return  # refused before: the client knows, or will
        held = self.spool.held(key) or Held(0, 0)
        if message.piece > held.pieces + 1:
            self._refuse(client, message.stage, "order", f"piece {message.piece} after {held.pieces}")
        elif self.spool.size + len(message.content) > self.settings.staged_bytes:
            limit = self.settings.staged_bytes
            self._refuse(client, message.stage, "limit", f"{self.core.name} stages {limit} bytes at most")
        else:
            if message.piece == held.pieces + 1:
                try:
                    self.spool.append(key, message.rows, message.content)
                except SpoolError as error:
                    self._refuse(client, message.stage, "disk", str(error))
                    return
                held = Held(message.piece, held.rows + message.rows)
            self.core.tell(Staged(message.stage, held.pieces, "open"), client)

    def on_end(self, client: Client, message: StageEnd, now: float) -> None:
        key = self._stages.get(client, {}).get(message.stage)
        if key is None:
            return
        held = self.spool.held(key) or Held(0, 0)
        if held != (message.pieces, message.rows):
            text = f"{held.pieces} pieces of {held.rows} rows are here"
            self._refuse(client, message.stage, "order", text)
            return
        try:
            self.spool.keep(key)
        except SpoolError as error:
            self._refuse(client, message.stage, "disk", str(error))
            return
        self.core.tell(Staged(message.stage, held.pieces, "kept"), client)

    def _refuse(self, client: Client, stage: int, outcome: str, text: str) -> None:
        self.core.refuse(f"stage: {outcome}")
        if (key := self._stages.get(client, {}).pop(stage, None)) is not None:
            self._drop(key)
        self.core.tell(Staged(stage, 0, outcome, text), client)

    def _drop(self, key: StageKey) -> None:
        self._begun_at.pop(key, None)
        self.spool.drop(key)

    def link_lost(self, session: Session, now: float) -> None:
        self._stages.pop(session, None)
        for key, waiters in list(self._waiters.items()):
            self._waiters[key] = [waiter for waiter in waiters if waiter[0] is not session]

    # --- commits ------------------------------------------------------------------------------------

    def on_commit(self, client: Client, message: CommitBatch, now: float) -> None:
        known = self.queries.get(message.query)
        if self._is_anothers(known, client):
            self._not_allowed(client, message)
            return
        if known is not None and message.batch <= known.batch:
            known.used_at = now
            self._drop_up_to(known)
            waiting = next((d for d in known.decided if d.batch == message.batch), None)
            if waiting is None:
                self.core.tell(BatchState(message.request, "settled"), client)
                return
        elif (refusal := self._refusal(known, message)) is not None:
            self.core.tell(BatchState(message.request, refusal[0], text=refusal[1]), client)
            return
        else:
            waiting = self._decide(known, message, client, now)
        self._waiters.setdefault((message.query, message.batch), []).append((client, message.request))
        why = self._obstacles.get(message.query, "")
        self.core.tell(BatchState(message.request, "decided", waiting.rows, text=why), client)

    def _refusal(self, known: QueryState | None, message: CommitBatch) -> tuple[str, str] | None:
        if known is not None and len(known.decided) >= WAITING:
            return "busy", f"{WAITING} batches of this query wait to be published"
        most = self.settings.queries
        if known is None and sum(bool(state.decided) for state in self.queries.values()) >= most:
            return "limit", f"batches of {most} queries wait to be published"
        if sum(part.rows for part in message.parts) >= 1 << ROW_BITS:
            return "limit", f"a batch has fewer than {1 << ROW_BITS} rows"
        for part in message.parts:
            held = self.spool.held(StageKey(message.query, message.batch, part.partition, part.attempt))
            if held is None or held.rows != part.rows:
                here = "nothing" if held is None else f"{held.rows} rows"
                wanted = f"partition {part.partition} should have {part.rows} rows"
                return "missing", f"{wanted}, {self.core.name} has {here} of it"
        return None

    def _is_anothers(self, known: QueryState | None, client: Client) -> bool:
        """Where keys say who may do what."""
        theirs = known is not None and known.key not in ("", client.key)
        return theirs and self.core.granted is not None

    def _not_allowed(self, client: Client, message: CommitBatch | AbortBatch) -> None:
        self.core.refuse("batch: not-allowed")
        text = f"the query {message.query} is another key's: its driver uses the keys that it began with"
        self.core.tell(BatchState(message.request, "not-allowed", text=text), client)

    def _decide(self, known: QueryState | None, message: CommitBatch, client: Client, now: float) -> Decided:
        may_publish = client.may_publish
        decided = Decided(message.batch, message.publisher, message.advertisement, message.parts, may_publish)
        state = known or QueryState(message.query, message.batch, now)
        state.key = state.key or client.key
        state.batch, state.used_at = message.batch, now
        state.decided = (*state.decided, decided)
        self.queries.pop(state.query, None)
        self.queries[state.query] = state  # the longest unused comes first
        self._forget_old(now)
        self._note()
        self._drop_up_to(state)
        self._publish_next(state.query, now)
        return decided

    def _note(self) -> None:
        self.core.out.journal.append(Record(RECORD, tuple(self.queries.values())))

    def _drop_up_to(self, state: QueryState) -> None:
        """What is staged of the query and will never be published."""
        chosen = {
            StageKey(state.query, decided.batch, part.partition, part.attempt)
            for decided in state.decided
            for part in decided.parts
        }
        for key in self.spool.stages():
            if key.query == state.query and key.batch <= state.batch and key not in chosen:
                self._drop(key)

    def on_abort(self, client: Client, message: AbortBatch, now: float) -> None:
        known = self.queries.get(message.query)
        if self._is_anothers(known, client):
            self._not_allowed(client, message)
            return
        if known is None or message.batch > known.batch:
            for key in self.spool.stages():
                if (key.query, key.batch) == (message.query, message.batch):
                    self._drop(key)
        self.core.tell(BatchState(message.request, "dropped"), client)

    # --- publishing ---------------------------------------------------------------------------------

    def _publish_next(self, query: str, now: float) -> None:
        state = self.queries[query]
        publisher = self.publishers.get(query)
        if not state.decided or (publisher is not None and publisher.busy):
            return
        if self.attachments.greeting.leaving:
            return  # its rows stay on disk, for a broker that is started there again
        decided = state.decided[0]
        if publisher is not None and publisher.name != decided.publisher:
            publisher.end(now)
            publisher = None
        if publisher is None:
            publisher = self.publishers[query] = QueryPublisher(
                self.core, self.attachments, self.advertisements, query, decided.publisher, self._finished
            )
        self._make_room(publisher, now)
        why_not = publisher.advertise(decided.advertisement, decided.may_publish, now)
        if why_not:
            if self._obstacles.get(query) != why_not:
                self.core.note(now, f"batch {decided.batch} of query {query} waits: {why_not}")
            self._obstacles[query] = why_not
            return  # the sweep tries again
        self._obstacles.pop(query, None)
        again = query in self._restarted
        self._restarted.discard(query)
        publisher.publish(decided.batch, self._pieces(query, decided), decided.done, again, now)
        self.core.timers.at(now + NOTE_S, lambda later: self._note_progress(publisher, decided, later))

    def _note_progress(self, publisher: QueryPublisher, begun: Decided, now: float) -> None:
        """A broker that is killed in a long batch does not begin it anew: neighbours that have given it up
        meanwhile would take all of it for new."""
        state = self.queries.get(publisher.query)
        if state is None or not publisher.busy or self.publishers.get(publisher.query) is not publisher:
            return
        current = state.decided[0]
        if current.batch != begun.batch:
            return  # the next batch has a timer of its own
        if (done := begun.done + publisher.settled) > current.done:
            state.decided = (msgspec.structs.replace(current, done=done), *state.decided[1:])
            self._note()
        self.core.timers.at(now + NOTE_S, lambda later: self._note_progress(publisher, begun, later))

    def _make_room(self, publisher: QueryPublisher, now: float) -> None:
        """Queries may publish under one name, one after the other: one without work lets go of it."""
        for query, other in list(self.publishers.items()):
            if other is not publisher and other.name == publisher.name and not other.busy:
                other.end(now)
                if not self.queries[query].decided:
                    del self.publishers[query]

    def _pieces(self, query: str, decided: Decided) -> Iterator[bytes]:
        for part in decided.parts:
            key = StageKey(query, decided.batch, part.partition, part.attempt)
            try:
                if part.rows and self.spool.held(key) is None:
                    raise SpoolError(f"{part.rows} rows are gone")
                if part.rows:
                    yield from self.spool.read(key)
            except SpoolError as error:
                self.core.note(self.core.now, f"batch {decided.batch} of query {query}: {error}")
                self.core.refuse("staged rows")
                self.publishers[query].damaged += 1

    def _finished(self, publisher: QueryPublisher, now: float) -> None:
        state = self.queries[publisher.query]
        decided, state.decided = state.decided[0], state.decided[1:]
        state.used_at = now
        self.published += decided.rows
        self._note()
        # Not before the note is on disk: a broker killed in between would look for them.
        self.core.timers.at(now, lambda later: self._drop_up_to(state))
        refused = publisher.take_refused()
        text = f"{publisher.damaged} pieces could not be read" if publisher.damaged else ""
        publisher.damaged = 0
        for client, request in self._waiters.pop((state.query, decided.batch), ()):
            self.core.tell(BatchState(request, "settled", decided.rows, refused, text), client)
        self._publish_next(state.query, now)
        for query in list(self.queries):  # whoever waits for the name, the earliest decision first
            other = self.publishers.get(query)
            if other is not None and other is not publisher and other.name == publisher.name:
                self._publish_next(query, now)

    def _flushed(self, client: Client) -> None:
        self._drained(client)
        for publisher in self.publishers.values():
            if publisher.client is client:
                publisher.check(self.core.now)

    def _ready(self, now: float) -> None:
        for publisher in self.publishers.values():
            publisher.go_on(now)

    # --- going --------------------------------------------------------------------------------------

    def _sweep(self, now: float) -> None:
        for query, publisher in list(self.publishers.items()):
            if publisher.busy and publisher.client is not None and publisher.client.ended:
                del self.publishers[query]  # somebody took its name: once more, from the start
                self._restarted.add(query)
            elif not publisher.busy and now - publisher.idle_since > IDLE_S:
                publisher.end(now)
                del self.publishers[query]
            if self.queries[query].decided:
                self._publish_next(query, now)
        self._forget_stages(now)
        self.core.timers.at(now + SWEEP_S, self._sweep)

    def _forget_stages(self, now: float) -> None:
        chosen = {
            StageKey(state.query, decided.batch, part.partition, part.attempt)
            for state in self.queries.values()
            for decided in state.decided
            for part in decided.parts
        }
        for key, begun_at in list(self._begun_at.items()):
            if now - begun_at > self.settings.staged_s and key not in chosen:
                self._drop(key)

    def _forget_old(self, now: float) -> None:
        """Of too many, those that nobody will come back to go first, then the longest unused."""
        oldest = now - self.settings.keep_s
        for state in sorted(self.queries.values(), key=lambda state: not state.query.startswith(ONCE)):
            full = len(self.queries) > self.settings.queries
            if not state.decided and (full or state.used_at < oldest):
                del self.queries[state.query]
                if (publisher := self.publishers.pop(state.query, None)) is not None:
                    publisher.end(now)

    # --- what it looks like -------------------------------------------------------------------------

    def status(self) -> Status:
        return {
            "queries": len(self.queries),
            "staged_bytes": self.spool.size,
            "stages": len(self._begun_at),
            "waiting": sum(len(state.decided) for state in self.queries.values()),
            "published": self.published,
        }

    def validate(self) -> None:
        assert set(self.publishers) <= set(self.queries)
        for query, state in self.queries.items():
            assert state.query == query
            batches = [decided.batch for decided in state.decided]
            assert batches == sorted(set(batches)) and all(batch <= state.batch for batch in batches), query
