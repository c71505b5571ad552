"""Rules of docs/decisions.md that hold at one broker, each seen by itself."""

from __future__ import annotations

import pytest

from grapevine.filters import EVERYTHING
from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    RESENT,
    Advertise,
    Advertisement,
    Batch,
    ClientAdvertise,
    ClientSubscribe,
    ClientUnadvertise,
    Deliver,
    Detach,
    Marks,
    Message,
    Publication,
    Publish,
    Reset,
    SyncDone,
    TablesSent,
    Unadvertise,
)
from overlay.links.session import Kind
from tests.one_broker import BODY, attach, between, hello


def test_sent_again_is_passed_on_and_delivered_once() -> None:
    """DECISIONS 6: whoever sends it again may have lost what it had passed to one side only."""
    broker = between("reader", "writer")
    broker.link(3, Kind.CLIENT, attach("c"), ClientSubscribe(1, 1, EVERYTHING))
    there = identify("writer")
    known = Advertise(1, Advertisement(there, 1, there, "writer", 7, 8, "quotes", EVERYTHING))
    broker.say(2, known, Batch(9, 1, 0, 0, 100, [Publication(BODY, b"", 1, 0, 7, 8)]))
    broker.core.link_down(2, broker.now)
    broker.link(4, Kind.PEER, hello("writer", 10), known, TablesSent(), SyncDone())
    broker.say(4, Batch(10, 1, 0, 0, 100, [Publication(BODY, b"", 1, RESENT, 7, 8)]))
    assert sum(isinstance(batch, Batch) for batch in broker.batches) == 2
    assert sum(isinstance(batch, Deliver) for batch in broker.batches) == 1


def test_publications_of_an_unknown_epoch_are_answered_with_reset() -> None:
    """DECISIONS 9."""
    broker = between("reader", "writer")
    broker.say(2, Batch(5, 1, 0, 0, 100, [Publication(BODY, b"", 1, 0, 7, 8)]))
    assert isinstance(broker.sent[-1], Reset) and not broker.batches
    assert broker.core.peers[identify("writer")].incoming.received == 0


@pytest.mark.parametrize("end", [ClientUnadvertise(2, 0), Detach()])
def test_a_publisher_ends_when_all_that_it_published_is_settled(end: Message) -> None:
    """DECISIONS 8: brokers that forget it sooner take what is sent again for new."""
    broker = between("reader", "writer")
    broker.link(3, Kind.CLIENT, attach("c"), ClientAdvertise(1, 0, EVERYTHING))
    broker.say(3, Publish(9, 1, [Publication(BODY, b"", 1)]), end)
    assert not any(isinstance(message, Unadvertise) for message in broker.sent)
    broker.say(1, Marks(9, 1, 1, 100))
    assert any(isinstance(message, Unadvertise) for message in broker.sent)
