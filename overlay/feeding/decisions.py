"""Which batches will be published: what a commit may decide, and what is remembered of queries.

Nothing here publishes, writes or answers. A decided batch is published once; batches of one query in their
order; a second commit of one, or of an earlier one, decides nothing. A query belongs to the key that first
staged or committed a batch of it. Bounded by `FeedingSettings.queries` and WAITING; queries that nobody will
come back to are forgotten first, then the longest unused, and none with a decided batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from grapevine.filters.normal import EVERYTHING, Filter
from grapevine.wire.feeding import ONCE, AbortBatch, CommitBatch, StagedPart
from overlay.feeding.publisher import ROW_BITS
from overlay.feeding.spool import Held, StageKey
from overlay.settings import FeedingSettings

NO_BATCH = -1  # of a query of which none was committed yet
WAITING = 16  # decided batches of one query that are not published yet


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

    def stages(self, query: str) -> Iterable[StageKey]:
        return (StageKey(query, self.batch, part.partition, part.attempt) for part in self.parts)


class QueryState(msgspec.Struct, array_like=True, gc=False):
    """What is remembered of a query: its last batch, and those of its batches that are not published yet."""

    query: str
    batch: int
    used_at: float
    decided: tuple[Decided, ...] = ()
    key: str = ""  # of the first commit; if none was committed yet, of the first stage

    def is_past(self, batch: int) -> bool:
        return batch <= self.batch

    def waiting(self, batch: int) -> Decided | None:
        return next((decided for decided in self.decided if decided.batch == batch), None)

    def belongs_to(self, key: str) -> bool:
        return self.key in ("", key)


class Decisions:
    def __init__(self) -> None:
        self.queries: dict[str, QueryState] = {}  # the longest unused first
        self.claims: dict[str, QueryState] = {}  # of which something is staged, and nothing committed so far

    def restore(self, known: Iterable[QueryState]) -> None:
        for state in sorted(known, key=lambda state: state.used_at):
            (self.claims if state.batch == NO_BATCH else self.queries)[state.query] = state

    def kept(self, query: str) -> QueryState | None:
        """What is to be on disk of it."""
        return self.queries.get(query) or self.claims.get(query)

    def claim(self, query: str, key: str, now: float) -> bool:
        """A new query is this key's from its first stage on; False: it was somebody's before."""
        if query in self.queries or query in self.claims:
            return False
        self.claims[query] = QueryState(query, NO_BATCH, now, key=key)
        return True

    def is_anothers(self, message: CommitBatch | AbortBatch, key: str) -> bool:
        """Before the first commit, who names attempts that are here may commit all the same: their numbers
        were drawn at random, so it is the driver of tasks that came by other keys. Of those that are not
        here it is told what is missing, and nothing is decided."""
        if (known := self.queries.get(message.query)) is not None:
            return not known.belongs_to(key)
        claim = self.claims.get(message.query)
        knows = isinstance(message, CommitBatch) and bool(message.parts)
        return claim is not None and not claim.belongs_to(key) and not knows

    def unclaimed(self, staged: Iterable[str]) -> list[str]:
        """Claims of which nothing is staged any more; they have ended."""
        gone = sorted(self.claims.keys() - set(staged))
        for query in gone:
            del self.claims[query]
        return gone

    def refusal(
        self,
        commit: CommitBatch,
        settings: FeedingSettings,
        held: Callable[[StageKey], Held | None],
        broker: str,
    ) -> tuple[str, str] | None:
        """Why a batch that is not decided cannot be: the outcome, and a text for people."""
        known = self.queries.get(commit.query)
        if known is not None and len(known.decided) >= WAITING:
            return "busy", f"{WAITING} batches of this query wait to be published"
        most = settings.queries
        if known is None and sum(bool(state.decided) for state in self.queries.values()) >= most:
            return "limit", f"batches of {most} queries wait to be published"
        if sum(part.rows for part in commit.parts) >= 1 << ROW_BITS:
            return "limit", f"a batch has fewer than {1 << ROW_BITS} rows"
        for part in commit.parts:
            there = held(StageKey(commit.query, commit.batch, part.partition, part.attempt))
            if there is None or there.rows != part.rows:
                here = "nothing" if there is None else f"{there.rows} rows"
                wanted = f"partition {part.partition} should have {part.rows} rows"
                return "missing", f"{wanted}, {broker} has {here} of it"
        return None

    def decide(self, commit: CommitBatch, key: str, may_publish: Filter, now: float) -> Decided:
        decided = Decided(commit.batch, commit.publisher, commit.advertisement, commit.parts, may_publish)
        state = self.queries.pop(commit.query, None) or QueryState(commit.query, commit.batch, now)
        state.key = state.key or key
        self.claims.pop(commit.query, None)
        state.batch, state.used_at = commit.batch, now
        state.decided = (*state.decided, decided)
        self.queries[state.query] = state
        return decided

    def progressed(self, query: str, decided: Decided) -> None:
        """The first decided batch of the query has come further."""
        state = self.queries[query]
        state.decided = (decided, *state.decided[1:])

    def published(self, query: str, now: float) -> Decided:
        state = self.queries[query]
        decided, state.decided = state.decided[0], state.decided[1:]
        state.used_at = now
        return decided

    # --- what may go --------------------------------------------------------------------------------

    def chosen(self, *queries: QueryState) -> set[StageKey]:
        """Stages that will be published."""
        return {
            stage for state in queries for decided in state.decided for stage in decided.stages(state.query)
        }

    def superseded(self, state: QueryState, stages: Iterable[StageKey]) -> list[StageKey]:
        """What is staged of the query and will never be published."""
        chosen = self.chosen(state)
        return [s for s in stages if s.query == state.query and s.batch <= state.batch and s not in chosen]

    def forget_old(self, settings: FeedingSettings, now: float) -> list[str]:
        """Of too many, those that nobody will come back to go first, then the longest unused."""
        oldest = now - settings.keep_s
        gone = []
        for state in sorted(self.queries.values(), key=lambda state: not state.query.startswith(ONCE)):
            full = len(self.queries) > settings.queries
            if not state.decided and (full or state.used_at < oldest):
                del self.queries[state.query]
                gone.append(state.query)
        return gone

    def validate(self) -> None:
        for query, state in self.queries.items():
            assert state.query == query
            batches = [decided.batch for decided in state.decided]
            assert batches == sorted(set(batches)) and all(batch <= state.batch for batch in batches), query
