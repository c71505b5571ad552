"""Feeding where things go wrong: strangers' numbers, full and damaged disks, names taken, words too late."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from daemon import spool as spools
from daemon.spool import DiskSpool
from grapevine.filters import EVERYTHING
from grapevine.wire import identify
from grapevine.wire.codec import decode, encode
from grapevine.wire.errors import WireError
from grapevine.wire.feeding import (
    AbortBatch,
    BatchState,
    CommitBatch,
    NoteNumbers,
    StageBegin,
    Staged,
    StagedPart,
    StageEnd,
    StagePiece,
)
from grapevine.wire.limits import BATCH_NUMBER, BATCH_PUBLICATIONS
from grapevine.wire.messages import ClientAdvertise, Detach, Marks, Publication
from overlay.feeding.decisions import QueryState
from overlay.feeding.publishing import NOTE_S
from overlay.feeding.spool import MemorySpool, SpoolError, StageKey
from overlay.feeding.staging import SWEEP_S
from overlay.settings import ClientSettings, FeedingSettings
from tests.unit.test_feeding import Broker, commit, numbered, outcomes, piece, publish

KEY = StageKey("q", 0, 0, 11)


def stage(broker: Broker, query: str, rows: range, attempt: int = 11) -> None:
    said = broker.say(
        2,
        StageBegin(attempt, query, 0, 0, attempt),
        StagePiece(attempt, 1, len(rows), piece(rows)),
        StageEnd(attempt, 1, len(rows)),
    )
    assert outcomes(said)[-1] == "kept"


def commit_of(query: str, rows: int, publisher: str = "quotes", attempt: int = 11) -> CommitBatch:
    return CommitBatch(9, query, 0, publisher, EVERYTHING, (StagedPart(0, attempt, rows),))


# --- what a stranger may say ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        StageBegin(1, "q", BATCH_NUMBER + 1, 0, 11),
        CommitBatch(1, "q", 2**62, "p", EVERYTHING, ()),
        AbortBatch(1, "q", 2**40),
        StagePiece(1, 1, BATCH_PUBLICATIONS + 1, b""),
        StagePiece(1, 1, 2**32, b""),  # would not fit before a piece on disk
    ],
)
def test_numbers_that_would_not_fit_are_refused_on_the_wire(message: Any) -> None:
    with pytest.raises(WireError):
        decode(encode(message))


def test_the_largest_batch_has_sequence_numbers_that_fit() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, BATCH_NUMBER, 0, 11, range(3))
    broker.say(2, commit(BATCH_NUMBER, StagedPart(0, 11, 3)))
    (first, *_) = broker.delivered[1]
    assert first.sequence == ((BATCH_NUMBER + 1) << 32) + 1 < 2**63
    assert isinstance(first, Publication) and msgspec.msgpack.encode(first)


# --- words that come late or twice ------------------------------------------------------------------


def test_a_commit_after_an_abort_decides_nothing_and_a_batch_staged_again_is_published() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    broker.say(2, AbortBatch(1, "q", 0))
    (answer,) = broker.say(2, commit(0, StagedPart(0, 11, 5)))
    assert answer.outcome == "missing" and "nothing of it" in answer.text
    broker.stage(2, 0, 0, 12, range(5))
    assert outcomes(broker.say(2, commit(0, StagedPart(0, 12, 5)))) == ["decided", "settled"]
    assert broker.rows() == list(range(5))


def test_an_abort_after_the_commit_takes_nothing_back() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    broker.core.receive(2, commit(0, StagedPart(0, 11, 5)), broker.now)
    broker.core.receive(2, AbortBatch(1, "q", 0), broker.now)
    broker.run()
    assert broker.rows() == list(range(5))


def test_a_copy_that_is_still_staging_when_its_batch_is_committed() -> None:
    """Speculation: the loser of two copies goes on for a while; nothing of it stays."""
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.attach(3, "copy")
    broker.say(3, StageBegin(1, "q", 0, 0, 12), StagePiece(1, 1, 2, piece(range(2))))
    broker.stage(2, 0, 0, 11, range(5))
    broker.say(2, commit(0, StagedPart(0, 11, 5)))
    assert outcomes(broker.say(3, StagePiece(1, 2, 2, piece(range(2, 4))))) == ["order"]
    assert broker.rows() == list(range(5))
    assert broker.spool.stages() == [] and broker.core.status()["feeding"]["stages"] == 0


def test_a_broker_restarted_between_stage_and_commit(tmp_path: Path) -> None:
    broker = Broker(DiskSpool(tmp_path / "staged"))
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    broker.stage(2, 0, 1, 12, range(0))  # a partition without rows
    broker.spool = DiskSpool(tmp_path / "staged")
    broker.restart()
    broker.subscriber()
    broker.attach(2, "driver")
    heard = broker.say(2, commit(0, StagedPart(0, 11, 5), StagedPart(1, 12, 0)))
    assert outcomes(heard) == ["decided", "settled"]
    assert broker.rows() == list(range(5))
    assert list((tmp_path / "staged").iterdir()) == []


def test_a_commit_that_comes_after_its_rows_have_gone_by_age() -> None:
    broker = Broker(feeding=FeedingSettings(staged_s=60.0))
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    for _ in range(20):
        broker.now += 5.0
        broker.run()
    broker.attach(3, "driver")
    (answer,) = broker.say(3, commit(0, StagedPart(0, 11, 5)))
    assert answer.outcome == "missing"


def test_a_broker_killed_in_a_long_batch_goes_on_where_it_was(tmp_path: Path) -> None:
    broker = Broker(DiskSpool(tmp_path / "staged"), clients=ClientSettings(window=4))
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(20))
    broker.stage(2, 0, 1, 12, range(20, 40))
    broker.core.receive(2, commit(0, StagedPart(0, 11, 20), StagedPart(1, 12, 20)), broker.now)
    taken = 0
    while taken < 36:
        broker.core.work(broker.now)
        out = broker.core.flush(broker.now)
        broker.write(out.journal)
        batches = list(out.batches)
        out.clear()
        for link, batch in batches:
            taken = batch.first + len(batch.publications) - 1
            broker.core.receive(link, Marks(1, taken, taken, taken + 4), broker.now)
        broker.now += NOTE_S / 4
        broker.core.tick(broker.now)
    (row,) = broker.disk.kept["feeding"].values()
    state = msgspec.json.decode(row, type=QueryState)
    done = state.decided[0].done
    assert 20 < done <= taken < 40
    broker.spool = DiskSpool(tmp_path / "staged")
    broker.restart()
    assert broker.core.status()["publications"]["accepted"] == 40 - done
    assert broker.core.status()["feeding"]["waiting"] == 0 and broker.spool.stages() == []


# --- names ------------------------------------------------------------------------------------------


def test_two_writes_under_one_publisher_do_not_wait_for_each_other() -> None:
    """The first stays advertised for a while, in case its query goes on: not at the cost of the second."""
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    stage(broker, "one", range(5))
    assert outcomes(broker.say(2, commit_of("one", 5))) == ["decided", "settled"]
    stage(broker, "two", range(5, 9))
    assert outcomes(broker.say(2, commit_of("two", 4))) == ["decided", "settled"]
    assert broker.rows() == list(range(9))


def test_two_queries_that_publish_at_once_under_one_name_take_turns() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    for number in range(3):
        stage(broker, f"q{number}", range(10 * number, 10 * number + 10), 20 + number)
    for number in range(3):
        broker.core.receive(2, commit_of(f"q{number}", 10, attempt=20 + number), broker.now)
    broker.run()
    assert broker.rows() == list(range(30))
    assert broker.core.status()["feeding"]["waiting"] == 0


def test_a_driver_is_told_why_its_batch_waits() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.attach(3, "quotes")
    stage(broker, "one", range(5))
    broker.say(2, commit_of("one", 5))
    (answer,) = broker.say(2, commit_of("one", 5))
    assert answer == BatchState(9, "decided", 5, text="a client named quotes is attached here")
    broker.say(3, Detach())
    broker.now += SWEEP_S
    broker.run()
    assert broker.rows() == list(range(5))


def test_a_bound_on_queries_that_wait() -> None:
    broker = Broker(feeding=FeedingSettings(queries=2))
    broker.attach(2, "task")
    broker.attach(3, "quotes")  # so that nothing can be published
    for number in range(3):
        stage(broker, f"q{number}", range(5))
        heard = outcomes(broker.say(2, commit_of(f"q{number}", 5)))
        assert heard == (["decided"] if number < 2 else ["limit"])
    assert broker.core.status()["feeding"]["queries"] == 2


# --- disks ------------------------------------------------------------------------------------------


def test_rows_leave_some_of_the_disk_to_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(DiskSpool(tmp_path / "staged"))
    broker.attach(2, "task")
    free = spools.LEFT_FREE + 100
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))
    said = broker.stage(2, 0, 0, 11, range(50))
    assert outcomes(said) == ["open", "disk"]
    assert [m.text for m in said if isinstance(m, Staged)][-1].endswith("is full")
    assert broker.spool.stages() == []
    free *= 2
    assert outcomes(broker.stage(2, 0, 0, 12, range(50)))[-1] == "kept"


def test_a_folder_without_its_query_is_completed(tmp_path: Path) -> None:
    """A daemon that was killed between making the one and the other; the same where its disk was full."""
    first = DiskSpool(tmp_path)
    first.append(KEY, 1, b"row")
    (note,) = tmp_path.glob("*/query")
    first.close()
    for leave in (note.unlink, lambda: note.write_bytes(b"")):
        leave()
        again = DiskSpool(tmp_path)
        assert again.stages() == []
        again.append(KEY, 2, b"rows")
        again.keep(KEY)
        assert DiskSpool(tmp_path).held(KEY) is not None


@pytest.mark.parametrize("query", ["größer/../als", "a\r\nb", "", "x" * 255])
def test_any_name_of_a_query_comes_back_as_it_was(tmp_path: Path, query: str) -> None:
    key = StageKey(query, 1, 2, 3)
    first = DiskSpool(tmp_path)
    first.append(key, 1, b"row")
    first.keep(key)
    again = DiskSpool(tmp_path)
    assert again.stages() == [key] and list(again.read(key)) == [b"row"]


def test_what_is_no_stage_is_left_alone(tmp_path: Path) -> None:
    first = DiskSpool(tmp_path)
    first.append(KEY, 1, b"row")
    (rows,) = tmp_path.glob("*/*.rows")
    rows.with_name("copy of 1.rows").write_bytes(b"")
    (tmp_path / "lost+found").mkdir()
    assert DiskSpool(tmp_path).stages() == [KEY]


class Unreadable(MemorySpool):
    def read(self, key: StageKey) -> Iterator[bytes]:
        yield from list(super().read(key))[:1]
        raise SpoolError("the disk is broken")


def test_rows_that_cannot_be_read_any_more_are_told_and_the_next_batch_goes_on() -> None:
    broker = Broker(Unreadable())
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    heard = broker.say(2, commit(0, StagedPart(0, 11, 5)))
    assert heard[-1].outcome == "settled" and "could not be read" in heard[-1].text
    assert broker.rows() == list(range(5))


# --- numbers ----------------------------------------------------------------------------------------


def test_a_broker_killed_soon_after_its_writer_knows_how_far_that_came() -> None:
    broker = Broker()
    broker.subscriber()
    numbered(broker, 2)
    publish(broker, 2, 1, range(1, 6))
    broker.core.link_down(2, broker.now)  # the writer is killed ...
    broker.run()
    broker.restart()  # ... and the broker, before the writer's second run has asked
    broker.subscriber()
    assert numbered(broker, 3) == 5
    publish(broker, 3, 1, range(1, 8))
    assert broker.rows() == [6, 7]


def test_marks_that_move_are_on_disk_within_a_second() -> None:
    broker = Broker()
    broker.subscriber()
    numbered(broker, 2)
    publish(broker, 2, 1, range(1, 6))
    broker.now += 1.0
    broker.run()
    broker.restart()
    broker.attach(2, "writer/0", 9)
    answers = broker.say(2, NoteNumbers(1, identify("writer/0"), 9), ClientAdvertise(2, 1, EVERYTHING))
    assert answers[0].sequence == 5
