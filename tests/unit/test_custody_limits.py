"""Durable publications that cannot be delivered expire, and their publisher is told (DP-D2); a side that is
met anew gets nothing newer before a replay (DECISIONS 28)."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters import EVERYTHING
from grapevine.wire import identify
from grapevine.wire.messages import (
    CUT_EXPIRED,
    CUT_LINK_LOST,
    DURABLE,
    REPLAYED,
    RESENT,
    Advertise,
    Advertisement,
    Batch,
    ClientAdvertise,
    Confirmed,
    Cut,
    Marks,
    Publication,
    Publish,
    Subscribe,
    Subscription,
    SyncDone,
    TablesSent,
)
from overlay.journal.custody_limits import SWEEP_S, CustodyLimits
from overlay.journal.holding import Holding
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, JournalSettings, LinkSettings
from tests.one_broker import BODY, Broker, attach, hello
from tools.simulator.journal import SimulatedJournal
from tools.simulator.tables import behaviour

READER, WRITER = 1, 2
LOST_S = 10.0


class Keeping(Broker):
    """With a journal whose disk takes no time."""

    def __init__(self, journal: JournalSettings, disk: SimulatedJournal, incarnation: int = 1) -> None:
        self.now = 100.0 * (incarnation - 1)
        settings = CoreSettings(links=LinkSettings(lost_after_s=LOST_S, ping_s=1e6), journal=journal)
        self.disk = disk
        opened = disk.open(incarnation)
        self.core = tree_broker("here", incarnation, settings, Random(1), ("tcp://here:1",), opened=opened)
        self.core.start(self.now)
        self.sent, self.told, self.batches, self.closed = [], {}, [], []
        self.drain()

    def drain(self) -> None:
        while True:
            self.disk.put(self.core.flush(self.now).appends)
            self.core.out.appends.clear()
            super().drain()
            if not self.disk.begin():
                return
            written = self.disk.finish()
            assert written is not None
            self.core.persisted(*written, self.now)


def rows(first: int, last: int, flags: int = DURABLE, publisher: int = 0) -> list[Publication]:
    return [Publication(BODY, b"x", n, flags, publisher, 5) for n in range(first, last + 1)]


def neighbour(broker: Broker, number: int, name: str, epoch: int = 9) -> None:
    broker.link(number, Kind.PEER, hello(name, epoch), TablesSent(), SyncDone())


def wants_all(broker: Broker, number: int, name: str) -> None:
    there = identify(name)
    broker.say(number, Subscribe(1, Subscription(there, 1, there, (there,), EVERYTHING)))


def stranded(journal: JournalSettings) -> Keeping:
    """Three are on disk, for a neighbour that has taken none of them and was given up."""
    broker = Keeping(journal, SimulatedJournal(Random(3)))
    neighbour(broker, READER, "reader")
    broker.link(WRITER, Kind.CLIENT, attach("writer"), ClientAdvertise(1, 1, EVERYTHING))
    told = [message for message in broker.told[READER] if isinstance(message, Advertise)]
    broker.say(READER, *[Confirmed(message.stamp) for message in told])
    wants_all(broker, READER, "reader")
    broker.say(WRITER, Publish(9, 1, rows(1, 3)))
    broker.core.link_down(READER, broker.now)
    broker.drain()
    broker.pass_time(broker.now + LOST_S + 1)
    assert behaviour(broker.core, Holding).stranded == 1
    return broker


def last_marks(broker: Broker) -> Marks:
    return [message for message in broker.told[WRITER] if isinstance(message, Marks)][-1]


LIMITS = [JournalSettings(custody_s=20.0), JournalSettings(custody_bytes=1)]


@pytest.mark.parametrize("limits", LIMITS, ids=["age", "bytes"])
def test_what_is_past_a_limit_expires_and_is_told(limits: JournalSettings) -> None:
    broker = stranded(limits)
    assert (last_marks(broker).persisted, last_marks(broker).settled) == (3, 0)
    broker.pass_time(3 * SWEEP_S)
    marks = last_marks(broker)
    assert marks.settled == 3
    assert marks.cuts == (Cut(identify("writer"), 5, 1, 3, CUT_EXPIRED),)
    assert behaviour(broker.core, CustodyLimits).expired == 3
    assert broker.core.journal is not None and not broker.core.journal.contents.custody.items


def test_within_the_limits_nothing_expires() -> None:
    broker = stranded(JournalSettings(custody_s=600.0))
    broker.pass_time(30.0)
    assert last_marks(broker).settled == 0 and behaviour(broker.core, CustodyLimits).expired == 0


def test_what_a_former_life_has_left_is_as_old_as_it_says() -> None:
    """Nobody can be told any more; it is counted and logged."""
    broker = stranded(JournalSettings(custody_s=20.0))
    broker.disk.crash()
    again = Keeping(JournalSettings(custody_s=20.0), broker.disk, 2)
    journal = again.core.journal
    assert journal is not None and journal.contents.custody.items == 3
    again.pass_time(again.now + 2 * SWEEP_S)
    assert not journal.contents.custody.items


# --- a side that is met anew ---------------------------------------------------------------------------


def passed_to(broker: Broker) -> list[int]:
    batches = [batch for batch in broker.batches if isinstance(batch, Batch)]
    return [publication.sequence for batch in batches for publication in batch.publications]


def side_met_anew() -> tuple[Broker, int]:
    """A publisher is known from one neighbour, and then another is met that wants all; the publisher's id."""
    writer, there = identify("writer"), identify("far")
    broker = Broker()
    neighbour(broker, WRITER, "far")
    item = Advertisement(there, 1, there, "far", writer, 5, "writer", EVERYTHING)
    broker.say(WRITER, Advertise(1, item))
    neighbour(broker, READER, "reader")
    told = [message for message in broker.told[READER] if isinstance(message, Advertise)]
    broker.say(READER, *[Confirmed(message.stamp) for message in told])
    wants_all(broker, READER, "reader")
    return broker, writer


def test_a_new_side_gets_nothing_newer_before_a_replay() -> None:
    broker, writer = side_met_anew()
    broker.say(WRITER, Batch(9, 1, 0, 0, 100, rows(4, 5, DURABLE, writer)))
    assert not passed_to(broker)
    cut = [c for m in broker.told[WRITER] if isinstance(m, Marks) for c in m.cuts]
    assert cut == [Cut(writer, 5, 4, 5, CUT_LINK_LOST)]
    broker.say(WRITER, Batch(9, 3, 0, 0, 100, rows(4, 5, DURABLE | RESENT, writer)))
    assert not passed_to(broker)  # a link's own repetition says nothing of what is older
    broker.say(WRITER, Batch(9, 5, 0, 0, 100, rows(3, 5, DURABLE | RESENT | REPLAYED, writer)))
    broker.say(WRITER, Batch(9, 8, 0, 0, 100, rows(6, 6, DURABLE, writer)))
    assert passed_to(broker) == [3, 4, 5, 6]


def test_a_replay_of_what_its_publisher_left_elsewhere_does_not_count() -> None:
    """Its former broker is back and publishes 1 and 2 in its name; 4 and 5, which were cut here, are with its
    present one. Taken for their replay, 6 would pass and make duplicates of them (last-values 34)."""
    broker, writer = side_met_anew()
    broker.say(WRITER, Batch(9, 1, 0, 0, 100, rows(4, 5, DURABLE, writer)))
    broker.say(WRITER, Batch(9, 3, 0, 0, 100, rows(1, 2, DURABLE | RESENT | REPLAYED, writer)))
    broker.say(WRITER, Batch(9, 5, 0, 0, 100, rows(6, 6, DURABLE, writer)))
    assert passed_to(broker) == [1, 2]
    broker.say(WRITER, Batch(9, 6, 0, 0, 100, rows(4, 6, DURABLE | RESENT | REPLAYED, writer)))
    broker.say(WRITER, Batch(9, 9, 0, 0, 100, rows(7, 7, DURABLE, writer)))
    assert passed_to(broker) == [1, 2, 4, 5, 6, 7]
