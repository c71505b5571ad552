"""Staged feeding: rows are kept per (query, batch, partition, attempt) and published at the driver's commit.

A task stages its rows; a second run of it, or a copy that runs beside it, stages its own under another
attempt. The driver's commit names one attempt of each partition. From the moment that this decision is on
disk the batch will be published, once, whatever is killed meanwhile (`decisions`, then `publishing`).

A query belongs to the key that first committed a batch of it: no other may commit or abort for it. Tasks may
come by other keys, since a commit names what they staged by numbers that were drawn at random.

Bounded: bytes staged, queries remembered, batches of one query that wait; what nobody commits goes when its
query commits a later batch, or by age.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from grapevine.wire.feeding import (
    AbortBatch,
    BatchState,
    CommitBatch,
    StageBegin,
    Staged,
    StageEnd,
    StagePiece,
)
from overlay.behaviour import Quiet, Status
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.router import Registry
from overlay.feeding.decisions import Decided, Decisions, QueryState
from overlay.feeding.publishing import Publishing
from overlay.feeding.spool import Held, Spool, SpoolError, StageKey
from overlay.links.readiness import Readiness
from overlay.links.session import Session
from overlay.settings import CoreSettings, FeedingSettings

SWEEP_S = 5.0
WAITERS = 64  # questions for the end of one batch


class Staging(Quiet):
    name = keeps = "feeding"

    def __init__(
        self,
        settings: FeedingSettings,
        readiness: Readiness,
        attachments: Attachments,
        registry: Registry,
        spool: Spool,
    ) -> None:
        self.settings = settings
        self.spool = spool
        self.decisions = Decisions()
        self.publishing = Publishing(
            attachments, registry, self.decisions, spool, self._note, self._published
        )
        self.published = 0  # rows
        self._stages: dict[Session, dict[int, StageKey]] = {}
        self._begun_at: dict[StageKey, float] = {}
        self._waiters: dict[tuple[str, int], list[tuple[Client, int]]] = {}
        attachments.drained.add(self, self._flushed)
        readiness.on_ready.append(self.publishing.ready)

    def attach(self, core: Core) -> None:
        self.core = core
        self.publishing.attach(core)
        core.on(StageBegin, self.on_begin)
        core.on(StagePiece, self.on_piece)
        core.on(StageEnd, self.on_end)
        core.on(CommitBatch, self.on_commit)
        core.on(AbortBatch, self.on_abort)

    def restore(self, rows: Mapping[str, bytes]) -> None:
        self.decisions.restore(msgspec.json.decode(row, type=QueryState) for row in rows.values())

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        self.settings = self.core.settings.feeding

    def start(self, now: float) -> None:
        for key in self.spool.stages():
            self._begun_at[key] = now
        self.publishing.start(now)
        self._sweep(now)

    # --- stages -------------------------------------------------------------------------------------

    def on_begin(self, client: Client, message: StageBegin, now: float) -> None:
        key = StageKey(message.query, message.batch, message.partition, message.attempt)
        known = self.decisions.queries.get(key.query)
        if known is not None and known.is_past(key.batch):
            self.core.tell(Staged(message.stage, 0, "again"), client)
            return
        if len(self._begun_at) >= self.settings.stages and key not in self._begun_at:
            self._refuse(client, message.stage, "limit", f"{self.core.name} holds too many stages")
            return
        if not self._claim(key.query, client, now):
            self._refuse(client, message.stage, "limit", f"{self.core.name} knows too many new queries")
            return
        self._stages.setdefault(client, {})[message.stage] = key
        self._begun_at.setdefault(key, now)
        held = self.spool.held(key) or Held(0, 0)
        self.core.tell(Staged(message.stage, held.pieces, "open"), client)

    def _claim(self, query: str, client: Client, now: float) -> bool:
        """Where there are keys a new query is its first stager's; False: there are too many new ones."""
        decisions = self.decisions
        if self.core.granted is None or query in decisions.queries or query in decisions.claims:
            return True
        if len(decisions.claims) >= self.settings.queries:
            return False
        decisions.claim(query, client.key, now)
        self._note(query)
        return True

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
        known = self.decisions.queries.get(message.query)
        if self._is_anothers(message, client):
            self._not_allowed(client, message)
            return
        if known is not None and known.is_past(message.batch):
            known.used_at = now
            self._drop_superseded(known)
            decided = known.waiting(message.batch)
            if decided is None:
                self.core.tell(BatchState(message.request, "settled"), client)
                return
        else:
            refusal = self.decisions.refusal(message, self.settings, self.spool.held, self.core.name)
            if refusal is not None:
                outcome, text = refusal
                self.core.tell(BatchState(message.request, outcome, text=text), client)
                return
            decided = self._decide(message, client, now)
        waiters = self._waiters.setdefault((message.query, message.batch), [])
        if len(waiters) >= WAITERS:  # who asks again and again hears of the last times
            del waiters[0]
        waiters.append((client, message.request))
        why = self.publishing.obstacles.get(message.query, "")
        self.core.tell(BatchState(message.request, "decided", decided.rows, text=why), client)

    def _decide(self, message: CommitBatch, client: Client, now: float) -> Decided:
        decided = self.decisions.decide(message, client.key, client.may_publish, now)
        for query in self.decisions.forget_old(self.settings, now):
            self.publishing.forget(query, now)
            self._note(query)
        self._note(message.query)
        self._drop_superseded(self.decisions.queries[message.query])
        self.publishing.publish_next(message.query, now)
        return decided

    def _is_anothers(self, message: CommitBatch | AbortBatch, client: Client) -> bool:
        """Where keys say who may do what."""
        return self.core.granted is not None and self.decisions.is_anothers(message, client.key)

    def _not_allowed(self, client: Client, message: CommitBatch | AbortBatch) -> None:
        self.core.refuse("batch: not-allowed")
        text = f"the query {message.query} is another key's: its driver uses the keys that it began with"
        self.core.tell(BatchState(message.request, "not-allowed", text=text), client)

    def _note(self, query: str) -> None:
        self.core.keep(self.keeps, query, self.decisions.kept(query))

    def _drop_superseded(self, state: QueryState) -> None:
        for key in self.decisions.superseded(state, self.spool.stages()):
            self._drop(key)

    def on_abort(self, client: Client, message: AbortBatch, now: float) -> None:
        known = self.decisions.queries.get(message.query)
        if self._is_anothers(message, client):
            self._not_allowed(client, message)
            return
        if known is None or not known.is_past(message.batch):
            for key in self.spool.stages():
                if (key.query, key.batch) == (message.query, message.batch):
                    self._drop(key)
        self.core.tell(BatchState(message.request, "dropped"), client)

    # --- what becomes of them -----------------------------------------------------------------------

    def _published(self, query: str, decided: Decided, refused: int, text: str, now: float) -> None:
        self.published += decided.rows
        state = self.decisions.queries[query]
        # Not before the note is on disk: a broker killed in between would look for them.
        self.core.timers.at(now, lambda later: self._drop_superseded(state))
        for client, request in self._waiters.pop((query, decided.batch), ()):
            self.core.tell(BatchState(request, "settled", decided.rows, refused, text), client)

    def _flushed(self, client: Client) -> None:
        self.publishing.flushed(client)

    def _sweep(self, now: float) -> None:
        self.publishing.sweep(now)
        chosen = self.decisions.chosen(*self.decisions.queries.values())
        for key, begun_at in list(self._begun_at.items()):
            if now - begun_at > self.settings.staged_s and key not in chosen:
                self._drop(key)
        for query in self.decisions.unclaimed(key.query for key in self._begun_at):
            self._note(query)
        self.core.timers.at(now + SWEEP_S, self._sweep)

    # --- what it looks like -------------------------------------------------------------------------

    def status(self) -> Status:
        queries = self.decisions.queries
        return {
            "queries": len(queries),
            "staged_bytes": self.spool.size,
            "stages": len(self._begun_at),
            "waiting": sum(len(state.decided) for state in queries.values()),
            "published": self.published,
        }

    def validate(self) -> None:
        assert set(self.publishing.publishers) <= set(self.decisions.queries)
        self.decisions.validate()
