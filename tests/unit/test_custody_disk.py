"""Durable publications that the disk does not take, or loses: who sent them hears it, and nobody waits."""

from __future__ import annotations

from random import Random

from grapevine.filters import EVERYTHING
from grapevine.wire import identify
from grapevine.wire.messages import (
    CUT_NO_ROOM,
    CUT_ROTTEN,
    DURABLE,
    RESENT,
    Batch,
    ClientAdvertise,
    Cut,
    Marks,
    Publish,
)
from overlay.journal.journal import Journal
from overlay.links.session import Kind
from overlay.settings import JournalSettings
from tests.one_broker import attach
from tests.unit.test_custody_limits import LOST_S, READER, WRITER, Keeping, neighbour, rows, wants_all
from tools.simulator.journal import RESERVE_BYTES, SimulatedJournal

OTHER, READER_AGAIN = 3, 4


def writing() -> tuple[Keeping, Journal]:
    broker = Keeping(JournalSettings(), SimulatedJournal(Random(3)))
    broker.link(WRITER, Kind.CLIENT, attach("writer"), ClientAdvertise(1, 1, EVERYTHING))
    broker.drain()
    assert broker.core.journal is not None
    return broker, broker.core.journal


def fill(broker: Keeping) -> None:
    broker.disk.disk.capacity = broker.disk.disk.used() + RESERVE_BYTES


def marks(broker: Keeping, link: int) -> Marks:
    return [message for message in broker.told[link] if isinstance(message, Marks)][-1]


def test_each_publisher_hears_of_its_own_that_the_disk_has_no_room_for() -> None:
    """Both come in one drain and are refused as one; the second was told that its own are on disk."""
    broker, _ = writing()
    broker.link(OTHER, Kind.CLIENT, attach("other"), ClientAdvertise(1, 1, EVERYTHING))
    fill(broker)
    for link in (WRITER, OTHER):
        broker.core.publications(link, Publish(9, 1, rows(1, 2)), broker.now)
    broker.drain()
    for link, name in ((WRITER, "writer"), (OTHER, "other")):
        assert marks(broker, link).cuts == (Cut(identify(name), 5, 1, 2, CUT_NO_ROOM),)
        assert marks(broker, link).persisted == 0 or marks(broker, link).settled == 2


def reader_is_away(broker: Keeping) -> None:
    neighbour(broker, READER, "reader")
    wants_all(broker, READER, "reader")
    broker.say(WRITER, Publish(9, 1, rows(1, 3)))
    broker.core.link_down(READER, broker.now)
    broker.drain()


def reader_is_back(broker: Keeping) -> list[int]:
    """After it was given up; what it gets."""
    broker.pass_time(broker.now + LOST_S + 1)
    before = len(broker.batches)
    neighbour(broker, READER_AGAIN, "reader", epoch=10)
    wants_all(broker, READER_AGAIN, "reader")
    broker.pass_time(broker.now + 3 * LOST_S)
    batches = [batch for batch in broker.batches[before:] if isinstance(batch, Batch)]
    return [publication.sequence for batch in batches for publication in batch.publications]


def settle(broker: Keeping, position: int) -> None:
    broker.say(READER_AGAIN, Marks(10, position, position, 100))


def test_what_was_refused_of_a_batch_is_not_waited_for() -> None:
    """1 to 3 are on disk and were for a reader that is given up; 1 to 5 come again, and there is no room for
    4 and 5. When 1 to 3 have been replayed all five are done with: custody was kept for ever (onehop-durable
    36)."""
    broker, journal = writing()
    reader_is_away(broker)
    fill(broker)
    broker.say(WRITER, Publish(9, 4, rows(1, 5, DURABLE | RESENT)))
    got = reader_is_back(broker)
    assert got == [1, 2, 3]
    settle(broker, 3)
    assert not journal.contents.custody.items
    assert marks(broker, WRITER).settled == 8
    assert Cut(identify("writer"), 5, 4, 5, CUT_NO_ROOM) in marks(broker, WRITER).cuts


def test_what_has_rotted_in_custody_is_told_and_not_waited_for() -> None:
    broker, journal = writing()
    reader_is_away(broker)
    broker.say(WRITER, Publish(9, 4, rows(4, 5)))
    (held,) = [one for one in journal.contents.custody.held[identify("writer"), 5] if one.first == 4]
    journal.rotten(held.position, held.position + 1, broker.now)
    assert reader_is_back(broker) == [1, 2, 3]
    settle(broker, 3)
    assert not journal.contents.custody.items
    assert marks(broker, WRITER).settled == 5
    assert marks(broker, WRITER).cuts == (Cut(identify("writer"), 5, 4, 5, CUT_ROTTEN),)
