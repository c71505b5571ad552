"""What commits decide, without a broker: each batch once, in the order of its query, within the bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grapevine.filters.normal import EVERYTHING
from grapevine.wire.feeding import ONCE, CommitBatch, StagedPart
from overlay.feeding.decisions import WAITING, Decisions
from overlay.feeding.spool import Held, StageKey
from overlay.settings import FeedingSettings

SETTINGS = FeedingSettings(queries=3)


def commit(query: str, batch: int, rows: int = 2) -> CommitBatch:
    return CommitBatch(1, query, batch, "writer", EVERYTHING, (StagedPart(0, 7, rows),))


def everything_is_there(key: StageKey) -> Held | None:
    return Held(1, 2)


STEPS = st.lists(
    st.tuples(st.sampled_from(["commit", "publish"]), st.sampled_from("abcd"), st.integers(0, 9)), max_size=60
)


@given(STEPS)
def test_each_batch_is_published_once_and_in_order(steps: list[tuple[str, str, int]]) -> None:
    decisions, published = Decisions(), dict[str, list[int]]()
    decided_by = dict[str, set[int]]()
    for now, (step, query, batch) in enumerate(steps):
        known = decisions.queries.get(query)
        if step == "publish":
            if known is not None and known.decided:
                published.setdefault(query, []).append(decisions.published(query, now).batch)
        elif known is None or not known.is_past(batch):
            if decisions.refusal(commit(query, batch), SETTINGS, everything_is_there, "here") is None:
                decisions.decide(commit(query, batch), "", EVERYTHING, now)
                decided_by.setdefault(query, set()).add(batch)
        decisions.validate()
    for query, batches in published.items():
        assert batches == sorted(set(batches))
        waiting = [decided.batch for decided in decisions.queries[query].decided]
        assert {*batches, *waiting} == decided_by[query]


def test_rows_that_are_not_there_are_named() -> None:
    decisions = Decisions()
    assert decisions.refusal(commit("q", 1), SETTINGS, lambda key: None, "b1") == (
        "missing",
        "partition 0 should have 2 rows, b1 has nothing of it",
    )
    assert decisions.refusal(commit("q", 1), SETTINGS, lambda key: Held(1, 5), "b1") == (
        "missing",
        "partition 0 should have 2 rows, b1 has 5 rows of it",
    )


def test_bounds() -> None:
    decisions = Decisions()
    for batch in range(WAITING):
        decisions.decide(commit("q", batch), "", EVERYTHING, 0.0)
    assert decisions.refusal(commit("q", WAITING), SETTINGS, everything_is_there, "b1") == (
        "busy",
        f"{WAITING} batches of this query wait to be published",
    )
    for query in "rs":
        decisions.decide(commit(query, 1), "", EVERYTHING, 0.0)
    refused = decisions.refusal(commit("t", 1), SETTINGS, everything_is_there, "b1")
    assert refused == ("limit", "batches of 3 queries wait to be published")


def test_who_will_not_come_back_is_forgotten_first_and_nobody_with_a_decided_batch() -> None:
    decisions = Decisions()
    for now, query in enumerate(["old", f"{ONCE}x", "waits", "newest"]):
        decisions.decide(commit(query, 1), "", EVERYTHING, float(now))
        if query != "waits":
            decisions.published(query, float(now))
    assert decisions.forget_old(SETTINGS, 4.0) == [f"{ONCE}x"]
    assert decisions.forget_old(SETTINGS, 4.0) == []
    assert decisions.forget_old(SETTINGS, 4.0 + SETTINGS.keep_s) == ["old", "newest"]
    assert list(decisions.queries) == ["waits"]


def test_what_is_superseded_may_go() -> None:
    decisions = Decisions()
    decisions.decide(commit("q", 2), "", EVERYTHING, 0.0)
    state = decisions.queries["q"]
    chosen, copy = StageKey("q", 2, 0, 7), StageKey("q", 2, 0, 8)
    earlier, later, others = StageKey("q", 1, 0, 7), StageKey("q", 3, 0, 1), StageKey("p", 1, 0, 1)
    assert decisions.superseded(state, [chosen, copy, earlier, later, others]) == [copy, earlier]
    assert decisions.chosen(state) == {chosen}
