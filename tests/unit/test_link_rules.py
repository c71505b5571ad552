"""Rules of docs/decisions.md that hold at one broker, each seen by itself."""

from __future__ import annotations

import pytest

from grapevine.filters import EVERYTHING
from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    RESENT,
    Advertise,
    Advertisement,
    Attached,
    Batch,
    ClientAdvertise,
    ClientSubscribe,
    ClientUnadvertise,
    Confirmed,
    Deliver,
    Detach,
    Done,
    Marks,
    Message,
    Publication,
    Publish,
    Refuse,
    Reset,
    Resume,
    Subscribe,
    Subscription,
    SyncDone,
    TablesSent,
    Unadvertise,
    Unsubscribe,
)
from overlay.links.session import Kind
from overlay.settings import CoreSettings, TreeSettings
from tests.one_broker import BODY, Broker, attach, between, hello


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


def test_a_greeting_from_before_the_last_one_is_not_taken() -> None:
    """It was on its way while its sender dialled again: nobody is at its end, and the link that is there
    would be closed for it."""
    broker = between("reader", "writer")
    broker.link(4, Kind.PEER, hello("writer", 8))
    (refusal,) = [message for message in broker.sent if isinstance(message, Refuse)]
    assert refusal.reason == "late"
    link = broker.core.peers[identify("writer")].link
    assert link is not None and link.number == 2


@pytest.mark.parametrize(("incarnation", "resume", "again"), [(2, 9, [2]), (2, 8, [1, 2]), (3, 9, [1, 2])])
def test_an_epoch_goes_on_where_both_have_stayed_alive(
    incarnation: int, resume: int, again: list[int]
) -> None:
    """DECISIONS 9: after what was received, as it was; else everything unsettled, marked as sent before."""
    broker = between("reader", "writer")
    two = [Publication(BODY, b"", n, 0, 7, 8) for n in (1, 2)]
    broker.say(2, Batch(9, 1, 0, 0, 100, two))
    broker.core.link_down(1, broker.now)
    broker.batches.clear()
    greeting = hello("reader", 20, incarnation=incarnation, resume=Resume(resume, 1, 0))
    broker.link(4, Kind.PEER, greeting, TablesSent(), SyncDone())
    (batch,) = broker.batches
    assert [p.sequence for p in batch.publications] == again
    goes_on = len(again) == 1
    assert (batch.epoch, batch.first) == ((9, 2) if goes_on else (20, 1))
    assert all(bool(p.flags & RESENT) is not goes_on for p in batch.publications)


@pytest.mark.parametrize("lower", [True, False])
def test_of_two_that_dial_each_other_the_link_of_the_lower_id_stays(lower: bool) -> None:
    """DECISIONS 12: else both close the other's, for ever."""
    names = (f"b{number}" for number in range(100))
    name = next(name for name in names if (identify(name) < identify("here")) is lower)
    broker = Broker(CoreSettings(tree=TreeSettings(neighbours=(f"tcp://{name}:1",))))
    broker.core.link_up(1, "key", Kind.PEER, broker.now, dial=1)
    broker.drain()
    broker.link(2, Kind.PEER, hello(name, 10))  # its greeting crosses ours
    broker.say(1, hello(name, answer=True))
    link = broker.core.peers[identify(name)].link
    assert link is not None and link.number == (2 if lower else 1)
    assert broker.closed == [1 if lower else 2]


def test_a_publishers_name_is_used_once_in_the_overlay() -> None:
    """DECISIONS 15: a publisher is known by its name, and so are its duplicates."""
    broker = between("reader", "writer")
    there, quotes = identify("writer"), identify("quotes")
    broker.say(2, Advertise(1, Advertisement(there, 1, there, "writer", quotes, 99, "quotes", EVERYTHING)))
    broker.link(3, Kind.CLIENT, attach("quotes"), ClientAdvertise(1, 0, EVERYTHING))
    (done,) = (message for message in broker.told[3] if isinstance(message, Done))
    assert done.outcome == "not-allowed" and "writer" in done.text


def test_sync_done_waits_for_all_other_neighbours_and_clients_for_everybodys() -> None:
    """DECISIONS 11: a restarted broker would settle what it cannot route yet."""
    broker = Broker(None, "a", "b")
    broker.link(3, Kind.CLIENT, attach("c"))
    broker.link(1, Kind.PEER, hello("a"), TablesSent())
    broker.link(2, Kind.PEER, hello("b"), TablesSent())
    assert not broker.has_said(1, SyncDone) and not broker.has_said(2, SyncDone)
    broker.say(1, SyncDone())
    assert broker.has_said(2, SyncDone) and not broker.has_said(1, SyncDone)
    assert not broker.has_said(3, Attached)
    broker.say(2, SyncDone())
    assert broker.has_said(1, SyncDone) and broker.has_said(3, Attached)


def test_sync_done_waits_until_what_was_announced_is_confirmed() -> None:
    broker = Broker()
    broker.link(3, Kind.CLIENT, attach("c"), ClientAdvertise(1, 0, EVERYTHING))
    broker.link(1, Kind.PEER, hello("a"), TablesSent())
    assert not broker.has_said(1, SyncDone)
    (told,) = (message for message in broker.told[1] if isinstance(message, Advertise))
    broker.say(1, Confirmed(told.stamp))
    assert broker.has_said(1, SyncDone)


@pytest.mark.parametrize("believed_first", [True, False])
def test_what_a_neighbour_no_longer_says_does_not_wait_for_its_sync_done(believed_first: bool) -> None:
    """That may wait for the confirmation of one who has taken its place, and who is not believed before."""
    broker = Broker()
    home = identify("home")
    subscribe = Subscribe(1, Subscription(home, 1, home, (home,), EVERYTHING))
    broker.link(1, Kind.PEER, hello("before"), subscribe, TablesSent(), SyncDone())
    broker.core.link_down(1, broker.now)
    broker.link(2, Kind.PEER, hello("after"), subscribe, TablesSent())
    rest: list[tuple[int, Message]] = [(2, SyncDone()), (3, TablesSent())]
    broker.link(3, Kind.PEER, hello("before", 10))
    for link, message in rest if believed_first else reversed(rest):
        assert not any(isinstance(told, Confirmed) for told in broker.told[2])
        broker.say(link, message)
    assert any(isinstance(told, Confirmed) for told in broker.told[2])


def test_what_was_told_for_an_advertisement_is_withdrawn_though_it_comes_from_elsewhere_by_now() -> None:
    broker = Broker()
    home = identify("home")
    advertise = Advertise(1, Advertisement(home, 1, home, "home", 7, 8, "quotes", EVERYTHING))
    broker.link(3, Kind.CLIENT, attach("c"), ClientSubscribe(1, 1, EVERYTHING))
    broker.link(2, Kind.PEER, hello("after"), TablesSent(), SyncDone())
    broker.link(1, Kind.PEER, hello("before"), advertise)
    assert broker.has_said(1, Subscribe)
    broker.say(2, advertise)
    broker.say(1, Unadvertise(home, 1))
    assert broker.has_said(1, Unsubscribe) and not broker.has_said(2, Unsubscribe)


def test_publications_wait_for_the_other_sides_sync_done() -> None:
    broker = Broker()
    there = identify("reader")
    subscribe = Subscribe(1, Subscription(there, 1, there, (there,), EVERYTHING))
    broker.link(2, Kind.PEER, hello("writer"), TablesSent(), SyncDone())
    broker.link(1, Kind.PEER, hello("reader"), subscribe, TablesSent())
    broker.say(2, Batch(9, 1, 0, 0, 100, [Publication(BODY, b"", 1, 0, 7, 8)]))
    assert not broker.batches
    broker.say(1, SyncDone())
    assert len(broker.batches) == 1


@pytest.mark.parametrize("end", [ClientUnadvertise(2, 0), Detach()])
def test_a_publisher_ends_when_all_that_it_published_is_settled(end: Message) -> None:
    """DECISIONS 8: brokers that forget it sooner take what is sent again for new."""
    broker = between("reader", "writer")
    broker.link(3, Kind.CLIENT, attach("c"), ClientAdvertise(1, 0, EVERYTHING))
    broker.say(3, Publish(9, 1, [Publication(BODY, b"", 1)]), end)
    assert not any(isinstance(message, Unadvertise) for message in broker.sent)
    broker.say(1, Marks(9, 1, 1, 100))
    assert any(isinstance(message, Unadvertise) for message in broker.sent)
