"""Staged rows and kept numbers: one broker, its clients by hand, its state handed to its next life."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from daemon.spool import DiskSpool
from grapevine.filters import EVERYTHING, parse
from grapevine.wire import encode_attributes, identify
from grapevine.wire.feeding import (
    ONCE,
    AbortBatch,
    BatchState,
    CommitBatch,
    NoteNumbers,
    NumbersNoted,
    StageBegin,
    Staged,
    StagedPart,
    StageEnd,
    StagePiece,
)
from grapevine.wire.messages import (
    DROP_OLDEST,
    PROTOCOL,
    Attach,
    ClientAdvertise,
    ClientSubscribe,
    Deliver,
    Marks,
    Message,
    Publication,
    Publish,
)
from overlay.core import Core
from overlay.feeding.spool import MemorySpool, Spool, StageKey
from overlay.links.session import Kind
from overlay.outbox import Record
from overlay.profiles import tree_broker
from overlay.settings import ClientSettings, CoreSettings, FeedingSettings
from tools.simulator.disk import Disk


class Broker:
    """A broker alone, with what its disk would have."""

    def __init__(self, spool: Spool | None = None, **settings: Any) -> None:
        self.spool = spool or MemorySpool()
        self.settings = CoreSettings(**settings)
        self.disk = Disk(Random(1), 0.0)
        self.now = 1000.0
        self.life = 0
        self.restart()

    def restart(self) -> None:
        self.life += 1
        kept = self.disk.kept
        self.core: Core = tree_broker("b1", self.life, self.settings, Random(1), kept=kept, spool=self.spool)
        self.heard: dict[int, list[Message]] = {}
        self.delivered: dict[int, list[Publication]] = {}
        self.core.start(self.now)
        self.run()

    def write(self, records: list[Record]) -> None:
        for record in records:
            self.disk.append(record)
        self.disk.synced()

    def run(self) -> None:
        """Until there is nothing left to do."""
        while True:
            self.core.tick(self.now)
            more = self.core.work(self.now)
            out = self.core.flush(self.now)
            self.write(out.journal)
            batches, sends = list(out.batches), list(out.sends)
            out.clear()
            for message, links in sends:
                for link in links:
                    self.heard.setdefault(link, []).append(message)
            for link, batch in batches:
                assert isinstance(batch, Deliver)
                self.delivered.setdefault(link, []).extend(batch.publications)
                last = batch.first + len(batch.publications) - 1
                self.core.receive(link, Marks(1, last, last, last + 1000), self.now)
            self.core.validate()
            if not (more or batches or sends or self.core.next_deadline() == self.now):
                return

    def attach(self, link: int, name: str, incarnation: int = 7) -> None:
        self.core.link_up(link, "", Kind.CLIENT, self.now)
        attach = Attach(PROTOCOL, PROTOCOL, name, identify(name), incarnation, 1, 1000, DROP_OLDEST)
        self.say(link, attach)

    def say(self, link: int, *messages: Message) -> list[Any]:
        """What is heard in return."""
        self.heard[link] = []
        for message in messages:
            if isinstance(message, Publish):
                self.core.publications(link, message, self.now)
            else:
                self.core.receive(link, message, self.now)
        self.run()
        return self.heard[link]

    def subscriber(self, link: int = 1) -> None:
        self.attach(link, "reader")
        self.say(link, ClientSubscribe(1, 1, parse("row >= 0")))

    def stage(self, link: int, batch: int, partition: int, attempt: int, rows: Sequence[int]) -> list[Any]:
        return self.say(
            link,
            StageBegin(attempt, "q", batch, partition, attempt),
            StagePiece(attempt, 1, len(rows), piece(rows)),
            StageEnd(attempt, 1, len(rows)),
        )

    def rows(self, link: int = 1) -> list[int]:
        return [
            msgspec.msgpack.decode(publication.attributes)["row"]
            for publication in self.delivered.get(link, [])
        ]


def piece(rows: Sequence[int]) -> bytes:
    return msgspec.msgpack.encode([(encode_attributes({"row": row}), b"", 0) for row in rows])


def commit(batch: int, *parts: StagedPart, filter: Any = EVERYTHING) -> CommitBatch:
    return CommitBatch(50 + batch, "q", batch, "quotes", filter, parts)


def outcomes(messages: list[Any]) -> list[str]:
    return [message.outcome for message in messages if isinstance(message, BatchState | Staged)]


def test_nothing_is_published_before_the_commit_and_everything_after() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    assert outcomes(broker.stage(2, 0, 0, 11, range(5))) == ["open", "open", "kept"]
    assert outcomes(broker.stage(2, 0, 1, 12, range(5, 8))) == ["open", "open", "kept"]
    assert broker.rows() == []
    heard = broker.say(2, commit(0, StagedPart(0, 11, 5), StagedPart(1, 12, 3)))
    assert outcomes(heard) == ["decided", "settled"]
    assert broker.rows() == list(range(8))
    sequences = [publication.sequence for publication in broker.delivered[1]]
    assert sequences == [(1 << 32) + row for row in range(1, 9)]
    assert broker.spool.stages() == []


def test_of_two_attempts_the_one_named_counts() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    broker.stage(2, 0, 0, 12, range(100, 107))
    broker.say(2, commit(0, StagedPart(0, 12, 7)))
    assert broker.rows() == list(range(100, 107))
    assert broker.spool.stages() == []


def test_a_batch_is_committed_once() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 3, 0, 11, range(5))
    broker.say(2, commit(3, StagedPart(0, 11, 5)))
    assert outcomes(broker.stage(2, 3, 0, 12, range(9))) == ["again"]
    assert outcomes(broker.say(2, commit(3, StagedPart(0, 12, 9)))) == ["settled"]
    assert outcomes(broker.say(2, commit(2, StagedPart(0, 12, 9)))) == ["settled"]
    assert broker.rows() == list(range(5))


def test_a_decision_outlives_the_broker(tmp_path: Path) -> None:
    """Killed after the decision and before anything was published."""
    broker = Broker(DiskSpool(tmp_path / "staged"))
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    broker.core.receive(2, commit(0, StagedPart(0, 11, 5)), broker.now)
    out = broker.core.flush(broker.now)
    broker.write(out.journal)
    broker.spool = DiskSpool(tmp_path / "staged")
    broker.restart()
    # Nobody was subscribed; what matters is that it was published, as what may have been before.
    assert broker.core.status()["feeding"]["published"] == 5
    broker.attach(2, "task")
    assert outcomes(broker.say(2, commit(0, StagedPart(0, 11, 5)))) == ["settled"]
    assert broker.spool.stages() == []


def test_rows_stay_until_it_is_on_disk_that_they_are_published(tmp_path: Path) -> None:
    """Killed when everything is published, before the note of it is on disk."""
    broker = Broker(DiskSpool(tmp_path / "staged"))
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    broker.core.receive(2, commit(0, StagedPart(0, 11, 5)), broker.now)
    broker.write(broker.core.flush(broker.now).journal)
    for _ in range(5):
        broker.core.work(broker.now)
        broker.core.flush(broker.now)
    assert broker.core.status()["feeding"]["waiting"] == 1  # the subscriber has said nothing yet
    broker.core.receive(1, Marks(1, 5, 5, 1000), broker.now)
    broker.core.flush(broker.now)
    assert broker.core.status()["feeding"]["waiting"] == 0
    broker.spool = DiskSpool(tmp_path / "staged")
    broker.restart()
    assert broker.core.status()["feeding"]["published"] == 5 and broker.spool.stages() == []
    assert broker.core.refused == {}


def test_what_was_staged_outlives_the_broker_and_a_torn_piece_is_cut_off(tmp_path: Path) -> None:
    broker = Broker(DiskSpool(tmp_path / "staged"))
    broker.attach(2, "task")
    broker.say(2, StageBegin(1, "q", 0, 0, 11), StagePiece(1, 1, 5, piece(range(5))))
    broker.say(2, StagePiece(1, 2, 5, piece(range(5, 10))))
    (file,) = (tmp_path / "staged").glob("*/*.rows")
    file.write_bytes(file.read_bytes()[:-3])
    broker.spool = DiskSpool(tmp_path / "staged")
    broker.restart()
    broker.subscriber()
    broker.attach(2, "task")
    (answer,) = broker.say(2, StageBegin(1, "q", 0, 0, 11))
    assert answer == Staged(1, 1, "open")
    broker.say(2, StagePiece(1, 2, 5, piece(range(5, 10))), StageEnd(1, 2, 10))
    assert outcomes(broker.say(2, commit(0, StagedPart(0, 11, 10)))) == ["decided", "settled"]
    assert broker.rows() == list(range(10))


def test_a_commit_of_what_is_not_here_decides_nothing() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    (answer,) = broker.say(2, commit(0, StagedPart(0, 11, 6)))
    assert answer.outcome == "missing" and "should have 6 rows" in answer.text
    assert outcomes(broker.say(2, commit(0, StagedPart(0, 11, 5)))) == ["decided", "settled"]
    assert broker.rows() == list(range(5))


def test_pieces_come_in_order_and_once() -> None:
    broker = Broker()
    broker.attach(2, "task")
    broker.say(2, StageBegin(1, "q", 0, 0, 11), StagePiece(1, 1, 2, piece(range(2))))
    assert outcomes(broker.say(2, StagePiece(1, 1, 2, piece(range(2))))) == ["open"]
    assert broker.spool.held(StageKey("q", 0, 0, 11)) == (1, 2)
    assert outcomes(broker.say(2, StagePiece(1, 3, 2, piece(range(2))))) == ["order"]
    assert broker.spool.stages() == []


def test_the_spool_is_bounded() -> None:
    broker = Broker(feeding=FeedingSettings(staged_bytes=100))
    broker.attach(2, "task")
    assert outcomes(broker.stage(2, 0, 0, 11, range(50))) == ["open", "limit"]
    assert broker.spool.size == 0


def test_an_aborted_batch_goes_and_may_come_again() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    assert outcomes(broker.say(2, AbortBatch(1, "q", 0))) == ["dropped"]
    assert broker.spool.stages() == []
    broker.stage(2, 0, 0, 12, range(5))
    broker.say(2, commit(0, StagedPart(0, 12, 5)))
    assert broker.rows() == list(range(5))


def test_what_nobody_commits_goes_by_age() -> None:
    broker = Broker(feeding=FeedingSettings(staged_s=60.0))
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(5))
    for _ in range(20):
        broker.now += 5.0
        broker.core.tick(broker.now)
        broker.run()
    assert broker.spool.stages() == [] and broker.core.status()["feeding"]["stages"] == 0


def test_more_rows_than_a_window_are_published_in_order() -> None:
    broker = Broker(clients=ClientSettings(window=3))
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(100))
    broker.say(2, commit(0, StagedPart(0, 11, 100)))
    assert broker.rows() == list(range(100))


def test_rows_outside_the_advertisement_are_told() -> None:
    broker = Broker()
    broker.subscriber()
    broker.attach(2, "task")
    broker.stage(2, 0, 0, 11, range(10))
    heard = broker.say(2, commit(0, StagedPart(0, 11, 10), filter=parse("row < 4")))
    assert heard[-1] == BatchState(50, "settled", 10, 6)
    assert broker.rows() == [0, 1, 2, 3]


def test_queries_are_remembered_up_to_a_bound() -> None:
    broker = Broker(feeding=FeedingSettings(queries=3))
    broker.attach(2, "task")
    for number in range(8):
        broker.now += 1
        broker.say(2, CommitBatch(1, f"q{number}", 0, f"p{number}", EVERYTHING, ()))
    assert broker.core.status()["feeding"]["queries"] == 3


def test_writes_without_a_name_do_not_push_out_the_memory_of_a_stream() -> None:
    broker = Broker(feeding=FeedingSettings(queries=3))
    broker.attach(2, "task")
    broker.say(2, CommitBatch(1, "stream", 4, "stream", EVERYTHING, ()))
    for number in range(8):
        broker.now += 1
        broker.say(2, CommitBatch(1, f"{ONCE}{number}", 0, "once", EVERYTHING, ()))
    assert broker.core.status()["feeding"]["queries"] == 3
    assert outcomes(broker.say(2, StageBegin(1, "stream", 4, 0, 1))) == ["again"]
    assert outcomes(broker.say(2, StageBegin(2, f"{ONCE}7", 0, 0, 1))) == [
        "again"
    ]  # its commit may come twice


def test_a_query_is_its_first_committers() -> None:
    """Another key can neither pass over its batches nor take them away; its tasks may come by any."""
    broker = Broker()
    broker.core.granted = lambda key: (EVERYTHING, EVERYTHING)
    broker.subscriber()
    for link, key in ((2, "driver"), (3, "task"), (4, "stranger")):
        broker.core.link_up(link, key, Kind.CLIENT, broker.now)
        broker.say(link, Attach(PROTOCOL, PROTOCOL, key, identify(key), 7, 1, 1000, DROP_OLDEST))
    broker.say(2, commit(0))
    broker.stage(3, 1, 0, 77, range(3))
    for message in (commit(9), AbortBatch(5, "q", 1)):
        (answer,) = broker.say(4, message)
        assert answer.outcome == "not-allowed" and "another key's" in answer.text
    assert outcomes(broker.say(2, commit(1, StagedPart(0, 77, 3)))) == ["decided", "settled"]
    assert broker.rows() == [0, 1, 2]


@pytest.mark.parametrize("restarted", [False, True])
def test_before_its_first_commit_a_query_is_its_first_stagers(restarted: bool) -> None:
    """A stranger can neither take away what is staged nor pass over it; a driver with another key than its
    tasks knows their attempts."""
    broker = Broker()

    def arrive() -> None:
        broker.core.granted = lambda key: (EVERYTHING, EVERYTHING)
        broker.subscriber()
        for link, key in ((2, "driver"), (3, "task"), (4, "stranger")):
            broker.core.link_up(link, key, Kind.CLIENT, broker.now)
            broker.say(link, Attach(PROTOCOL, PROTOCOL, key, identify(key), 7, 1, 1000, DROP_OLDEST))

    arrive()
    broker.stage(3, 0, 0, 77, range(3))
    if restarted:
        broker.restart()
        arrive()
    for message in (commit(9), AbortBatch(5, "q", 0)):
        (answer,) = broker.say(4, message)
        assert answer.outcome == "not-allowed" and "another key's" in answer.text
    assert outcomes(broker.say(4, commit(0, StagedPart(0, 78, 3)))) == ["missing"]
    assert outcomes(broker.say(2, commit(0, StagedPart(0, 77, 3)))) == ["decided", "settled"]
    assert broker.rows() == [0, 1, 2]
    assert outcomes(broker.say(3, AbortBatch(6, "q", 1))) == ["not-allowed"], "it is the driver's now"


def test_new_queries_are_bounded_and_forgotten_with_their_stages() -> None:
    broker = Broker(feeding=FeedingSettings(queries=3, staged_s=10.0))
    broker.core.granted = lambda key: (EVERYTHING, EVERYTHING)
    broker.attach(2, "task")
    for number in range(3):
        assert outcomes(broker.say(2, StageBegin(number, f"q{number}", 0, 0, 1))) == ["open"]
    assert outcomes(broker.say(2, StageBegin(9, "q9", 0, 0, 1))) == ["limit"]
    broker.now += 20.0
    broker.run()
    broker.attach(3, "another")
    assert outcomes(broker.say(3, StageBegin(9, "q9", 0, 0, 1))) == ["open"]


# --- numbers ----------------------------------------------------------------------------------------


def publish(broker: Broker, link: int, first: int, sequences: Sequence[int]) -> None:
    run = [Publication(encode_attributes({"row": number}), b"", number) for number in sequences]
    broker.say(link, Publish(1, first, run))


def numbered(broker: Broker, link: int, incarnation: int = 9) -> int:
    broker.attach(link, "writer/0", incarnation)
    answers = broker.say(link, NoteNumbers(1, identify("writer/0"), incarnation))
    broker.say(link, ClientAdvertise(2, 1, EVERYTHING))
    (noted,) = [answer for answer in answers if isinstance(answer, NumbersNoted)]
    return noted.sequence


@pytest.mark.parametrize("restarted", [False, True])
def test_a_second_run_is_recognised(restarted: bool) -> None:
    broker = Broker()
    broker.subscriber()
    assert numbered(broker, 2) == 0
    publish(broker, 2, 1, range(1, 6))
    assert broker.rows() == [1, 2, 3, 4, 5]
    assert broker.say(2, NoteNumbers(2, identify("writer/0"), 9)) == [NumbersNoted(2, 5)]
    if restarted:
        broker.restart()
        broker.subscriber()
    else:
        broker.core.link_down(2, broker.now)
        broker.delivered.clear()
    assert numbered(broker, 3) == 5
    publish(broker, 3, 1, range(1, 4))
    assert broker.rows() == []
    publish(broker, 3, 4, range(4, 9))
    assert broker.rows() == [6, 7, 8]
    assert broker.core.status()["numbers"]["repeated"] == 5
    assert broker.say(3, NoteNumbers(2, identify("writer/0"), 9)) == [NumbersNoted(2, 8)]


def test_another_incarnation_is_another_publisher() -> None:
    broker = Broker()
    broker.subscriber()
    numbered(broker, 2)
    publish(broker, 2, 1, range(1, 6))
    broker.core.link_down(2, broker.now)
    assert numbered(broker, 3, incarnation=10) == 0
    publish(broker, 3, 1, range(1, 4))
    assert broker.rows() == [1, 2, 3, 4, 5, 1, 2, 3]


def test_numbers_are_kept_up_to_a_bound() -> None:
    broker = Broker(feeding=FeedingSettings(publishers=3))
    broker.attach(2, "task")
    for number in range(8):
        broker.now += 1
        broker.say(2, NoteNumbers(1, number, 9))
    assert broker.core.status()["numbers"]["publishers"] == 3
    assert len(broker.disk.kept["numbers"]) == 3
