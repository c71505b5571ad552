"""The driver of channels, cranked by hand: its lease, due times, one fetch for two channels, retries."""

from __future__ import annotations

from typing import Any

import msgspec

from grapevine.client.session.driving import PUT_BYTES, Driver, Execute, KeepRows, split
from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.channels import DriverAnswer
from grapevine.wire.driving import (
    Commit,
    Listing,
    Plan,
    Put,
    Rows,
    Serving,
    Sets,
    decode_body,
    encode_body,
    rows_of,
    run_of,
)

REPORTS = Dataset("Reports", "class = 'r'", (("id", "bigint"),))
CHANNELS = tuple(Channel(name, "SELECT id FROM Reports", (), 10.0, ("Reports",)) for name in "ab")


def answer(value: Any) -> DriverAnswer:
    return DriverAnswer(0, "done", encode_body(value))


class Crank:
    def __init__(self) -> None:
        self.driver = Driver("d", 7)
        self.now = 101.0
        self.driver.start(self.now)
        self.seen: list[tuple[str, bytes]] = []

    def asked(self) -> list[tuple[int, str, bytes]]:
        asks, self.driver.asks = self.driver.asks, []
        self.seen += [(verb, body) for _, verb, body in asks]
        return asks

    def serve(self) -> None:
        ((task, verb, _),) = self.asked()
        assert verb == "serve"
        self.driver.answered(task, answer(Serving(3, 1)), self.now)
        ((task, verb, _),) = self.asked()
        assert verb == "catalog"
        self.driver.answered(task, answer(Listing(1, (REPORTS,), CHANNELS)), self.now)

    def until(self, now: float) -> None:
        self.now = now
        self.driver.tick(now)

    def answer_all(self, **by_verb: Any) -> None:
        for task, verb, _ in self.asked():
            given = by_verb[verb]
            self.driver.answered(task, given if isinstance(given, DriverAnswer) else answer(given), self.now)


def plan(channel: str) -> Plan:
    return Plan(channel, 1, 5, 2, 110.0, (("Reports", 0, 3),))


def test_executions_are_due_at_multiples_of_the_period() -> None:
    crank = Crank()
    crank.serve()
    crank.until(109.9)
    assert "plan" not in [verb for _, verb, _ in crank.driver.asks]
    crank.until(110.0)
    assert [verb for _, verb, _ in crank.asked()].count("plan") == 2


def test_one_fetch_of_rows_serves_both_channels_and_results_are_committed() -> None:
    crank = Crank()
    crank.serve()
    crank.until(110.0)
    for task, verb, _ in crank.asked():
        if verb == "plan":
            crank.driver.answered(task, answer(plan("a" if not crank.driver.jobs else "b")), crank.now)
        else:
            crank.driver.answered(task, answer(Serving(3, 1)), crank.now)
    crank.answer_all(sets=Sets(((4, b"\x90"),), False))
    crank.answer_all(rows=Rows((), 3, 1), sets=Sets(((4, b"\x90"),), False))
    assert [verb for verb, _ in crank.seen].count("rows") == 1
    ((task, job),) = crank.driver.jobs
    assert isinstance(job, KeepRows)
    crank.driver.jobs.clear()
    crank.driver.done(task, 0, crank.now)
    crank.until(110.2)
    found = [(task, job) for task, job in crank.driver.jobs if isinstance(job, Execute)]
    assert len(found) == 2, "the second waited for the first one's rows"
    crank.driver.jobs.clear()
    crank.driver.done(found[0][0], [run_of(4, [b"row"])], crank.now)
    ((task, verb, body),) = crank.asked()
    assert verb == "put" and decode_body(body, Put).runs == [run_of(4, [b"row"])]
    crank.driver.answered(task, answer(True), crank.now)
    ((task, verb, body),) = crank.asked()
    assert verb == "commit" and decode_body(body, Commit).pieces == 1
    crank.driver.answered(task, answer(True), crank.now)
    assert sum(crank.driver.executed.values()) == 5


def test_a_failing_execution_is_told_and_tried_again_later() -> None:
    crank = Crank()
    crank.serve()
    crank.until(110.0)
    crank.answer_all(plan=answer(plan("a")), serve=Serving(3, 1))
    crank.answer_all(sets=Sets((), False))
    crank.answer_all(rows=Rows((), 3, 1), sets=Sets((), False))
    crank.driver.done(crank.driver.jobs[0][0], 0, crank.now)
    crank.until(110.2)
    task, _ = next(each for each in crank.driver.jobs if isinstance(each[1], Execute))
    crank.driver.jobs.clear()
    crank.driver.done(task, RuntimeError("[COLUMN] no such column\nmore"), crank.now)
    assert set(crank.driver.trouble.values()) == {"[COLUMN] no such column"}
    failed = [each for each in crank.asked() if each[1] == "failed"]
    assert len(failed) == 1
    crank.driver.answered(failed[0][0], answer(True), crank.now)
    crank.until(110.9)
    assert "plan" not in [verb for _, verb, _ in crank.driver.asks]
    crank.until(111.3)
    assert "plan" in [verb for _, verb, _ in crank.driver.asks], "a second after the first failure"


def test_without_the_lease_nothing_is_planned() -> None:
    crank = Crank()
    ((task, _, _),) = crank.asked()
    crank.driver.answered(task, DriverAnswer(0, "busy", text="e drives channels here"), crank.now)
    assert crank.driver.refused == "e drives channels here"
    crank.until(150.0)
    assert [verb for _, verb, _ in crank.asked()] == ["serve"]


def test_pieces_fit_and_keep_the_order() -> None:
    rows = [b"x" * (PUT_BYTES // 3)] * 8
    pieces = list(split([run_of(1, rows), run_of(2, [b"y"])]))
    assert len(pieces) == 4
    joined: dict[int, list[bytes]] = {}
    for piece in pieces:
        for run in piece:
            joined.setdefault(run.be, []).extend(rows_of(run))
    assert joined == {1: rows, 2: [b"y"]}
    assert list(split([])) == [[]]


def test_a_catalog_that_did_not_come_is_asked_again() -> None:
    crank = Crank()
    crank.answer_all(serve=Serving(3, 1))
    crank.answer_all(catalog=DriverAnswer(0, "failed", text="no answer in 60 s"))
    crank.until(104.0)
    crank.answer_all(serve=Serving(3, 1))
    crank.answer_all(catalog=Listing(1, (REPORTS,), CHANNELS))
    assert set(crank.driver.channels) == {"a", "b"}


def test_a_dataset_that_was_dropped_and_made_again_is_another() -> None:
    """Its positions begin anew: what is at hand of the one before is not to be taken for it."""
    crank = Crank()
    crank.serve()
    crank.driver.positions["Reports"] = 500
    again = msgspec.structs.replace(REPORTS, since=9)
    crank.until(104.0)
    crank.answer_all(serve=Serving(3, 2))
    crank.answer_all(catalog=Listing(2, (again,), CHANNELS))
    assert crank.driver.positions == {}


def test_rows_of_a_dataset_that_is_another_now_are_not_counted() -> None:
    crank = Crank()
    crank.serve()
    crank.until(110.0)
    crank.answer_all(plan=answer(plan("a")), serve=Serving(3, 2))
    listing = Listing(2, (msgspec.structs.replace(REPORTS, since=9),), CHANNELS)
    crank.answer_all(sets=Sets((), False), catalog=listing)
    crank.answer_all(rows=Rows((), 3, 1), sets=Sets((), False))
    ((task, job),) = crank.driver.jobs
    assert isinstance(job, KeepRows)
    crank.driver.datasets["Reports"] = msgspec.structs.replace(REPORTS, since=11)
    crank.driver.done(task, 0, crank.now)
    assert crank.driver.positions == {} and not crank.driver.trouble


def test_executions_that_are_left_out_are_told_with_the_next_one() -> None:
    crank = Crank()
    crank.serve()
    crank.until(145.0)  # due at 110, 120, 130, 140
    crank.answer_all(plan=answer(plan("a")), serve=Serving(3, 1))
    crank.answer_all(sets=Sets((), False))
    crank.answer_all(rows=Rows((), 3, 1), sets=Sets((), False))
    crank.driver.done(crank.driver.jobs[0][0], 0, crank.now)
    crank.until(145.2)
    task, _ = next(each for each in crank.driver.jobs if isinstance(each[1], Execute))
    crank.driver.done(task, [], crank.now)
    crank.answer_all(put=True)
    commit = decode_body(next(body for _, verb, body in crank.driver.asks if verb == "commit"), Commit)
    assert commit.late == 3
    crank.answer_all(commit=True)
    assert crank.driver.late[commit.channel] == 0
