"""A link that says what it should not. One greeting each, by the right side, of one name."""

from __future__ import annotations

import pytest

from grapevine.filters import EVERYTHING, parse
from grapevine.wire import decode, encode, encode_extension
from grapevine.wire.identity import identify
from grapevine.wire.limits import ADDRESSES, HOPS, SUBSCRIPTION_IDS
from grapevine.wire.messages import (
    EXTENDED,
    Advertise,
    Advertisement,
    Attach,
    Attached,
    Batch,
    CensusAnswer,
    CensusRequest,
    ClientAdvertise,
    ClientSubscribe,
    Cut,
    Deliver,
    Done,
    LeaveHeld,
    Marks,
    Message,
    Publication,
    Publish,
    Refuse,
    Resume,
    SyncDone,
    TablesSent,
)
from grapevine.wire.relocation import TRACE
from overlay.clients import attachments
from overlay.data.path import Publications
from overlay.links.session import Kind
from overlay.settings import CoreSettings, LinkSettings
from tests.one_broker import BODY, Broker, attach, between, hello
from tools.simulator.tables import behaviour


@pytest.mark.parametrize("second", [hello("a", 10), hello("b"), hello("a", answer=True), attach("quotes")])
def test_a_neighbours_link_greets_once(second: Message) -> None:
    """A second greeting made a second neighbour on the link of the first, or one more timer for ever."""
    broker = Broker()
    broker.link(1, Kind.PEER, hello("a"), TablesSent(), SyncDone())
    broker.say(1, second)
    assert broker.closed == [1]
    assert list(broker.core.peers) == [identify("a")] and not broker.core.clients
    assert broker.core.peers[identify("a")].link is None


def test_a_client_that_begins_with_no_publication() -> None:
    """An empty first frame ended the broker: any client could send it."""
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("quotes"), ClientAdvertise(1, 0, EVERYTHING))
    broker.say(1, Publish(9, 1, []), Publish(9, 1, [Publication(BODY, b"", 1)]))
    assert behaviour(broker.core, Publications).accepted == 1


@pytest.mark.parametrize("second", [hello("a"), attach("somebody")])
def test_a_clients_link_is_one_clients(second: Message) -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("quotes"))
    broker.say(1, second)
    assert broker.closed == [1]
    assert not broker.core.peers and list(broker.core.clients) == [identify("quotes")]
    assert broker.core.clients[identify("quotes")].link is None


def test_an_administrators_link_is_neither() -> None:
    for greeting in (hello("a"), attach("quotes")):
        broker = Broker()
        broker.link(1, Kind.ADMIN, greeting)
        assert broker.closed == [1] and not broker.core.peers and not broker.core.clients


def test_an_id_is_that_of_the_name() -> None:
    broker = Broker()
    broker.link(1, Kind.PEER, hello("a", broker=identify("b")))
    assert isinstance(broker.sent[-1], Refuse) and not broker.core.peers


def test_attaching_again_by_the_same_link_keeps_the_link_and_adds_no_timer() -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("quotes"))
    first = broker.core.clients[identify("quotes")]
    for _ in range(20):
        broker.say(1, attach("quotes", 10, Resume(9, 0, 0)))
    timers = len(broker.core.timers)
    broker.say(1, attach("quotes", 11))  # it has forgotten: a new session
    second = broker.core.clients[identify("quotes")]
    assert second is not first and second.link is not None and not broker.closed
    assert timers <= 3
    broker.link(2, Kind.CLIENT, attach("reader"))


def test_nobody_is_served_before_the_broker_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that found no place among the waiting ones were served at once, by a broker without tables."""
    monkeypatch.setattr(attachments, "WAITING", 3)
    broker = Broker()
    broker.core.ready = False
    for number in range(1, 4):
        broker.link(number, Kind.CLIENT, attach(f"c{number}"))
    broker.link(4, Kind.CLIENT, attach("c4"))
    assert not broker.core.clients and broker.closed == [4]
    refusal = broker.sent[-1]
    assert isinstance(refusal, Refuse) and refusal.reason == "not-ready"
    broker.core.link_down(1, broker.now)  # it gave up: its place is free
    broker.link(5, Kind.CLIENT, attach("c1"))
    assert broker.closed == [4]


def test_holding_nothing_for_a_broker_that_did_not_ask() -> None:
    broker = Broker()
    broker.link(1, Kind.PEER, hello("a"), TablesSent(), SyncDone())
    broker.link(2, Kind.CLIENT, attach("quotes"))
    broker.core.leave(broker.now)
    broker.pass_time(1.0)
    broker.say(1, LeaveHeld())
    assert not broker.core.finished


def test_a_subscriber_cuts_nobodys_publications() -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("reader"))
    everything = tuple(Cut(number, 9, 0, 2**63 - 1, 1) for number in range(10))
    broker.say(1, Marks(9, 0, 0, 100, 0, everything))
    assert broker.core.refused["cuts"] == 1
    assert not broker.core.clients[identify("reader")].out.cuts


def test_what_went_too_far_is_cut_whoever_else_is_in_the_batch() -> None:
    """Only the last publisher's were looked at: the next broker could not decode the others."""
    broker = between("reader", "writer")
    hops = (HOPS, 3, HOPS, 4, HOPS)
    batch = [Publication(BODY, b"", n, 0, n, 7, 1.0, far) for n, far in enumerate(hops, 1)]
    broker.say(2, Batch(9, 1, 0, 0, 100, batch))
    (forwarded,) = broker.batches
    assert [p.sequence for p in forwarded.publications] == [2, 4]
    assert decode(encode(forwarded)) == forwarded
    assert [cut.first for cut in broker.core.peers[identify("writer")].incoming.records[0].cuts] == [1, 3, 5]


def test_a_clients_broker_alone_says_where_a_publication_has_been() -> None:
    broker = between("reader", "writer")
    broker.link(3, Kind.CLIENT, attach("quotes"), ClientAdvertise(1, 0, EVERYTHING))
    made_up = encode_extension([(TRACE, bytes(4000))])
    broker.say(3, Publish(9, 1, [Publication(BODY, b"", 1, EXTENDED, 5, 6, 1.0, HOPS, 8, made_up)]))
    (publication,) = broker.batches[-1].publications
    quotes = identify("quotes")
    assert (publication.publisher, publication.incarnation, publication.hops) == (quotes, 5, 0)
    assert (publication.plane, publication.extension) == (0, b"")


def test_publishers_that_nobody_advertises_fill_nothing() -> None:
    broker = between("reader", "writer")
    broker.link(3, Kind.CLIENT, attach("c"), ClientSubscribe(1, 1, EVERYTHING))
    there = identify("writer")
    broker.say(2, Advertise(1, Advertisement(there, 1, there, "writer", 1, 7, "known", EVERYTHING)))
    publications = behaviour(broker.core, Publications)
    first = 1
    for _ in range(4):
        strangers = [Publication(BODY, b"", 1, 0, first + n, 7) for n in range(1000)]
        broker.say(2, Batch(9, first, 0, 0, 100, strangers))
        first += len(strangers)
        taken = broker.core.peers[identify("reader")].out.sent
        broker.say(1, Marks(9, taken, taken, taken + 1000))
        client = broker.core.clients[identify("c")]
        broker.say(3, Marks(9, client.out.sent, client.out.sent, client.out.sent + 100))
    assert publications.seen.last == {(1, 7): 1}
    assert len(publications._named_to) <= 1


def test_a_full_window_does_not_give_a_neighbour_up_that_is_away() -> None:
    """DECISIONS 4: it stops credit; the neighbour has its time to come back."""
    broker = between("reader", "writer", LinkSettings(window=10))
    broker.link(3, Kind.CLIENT, attach("c"), ClientAdvertise(1, 0, EVERYTHING))
    broker.core.link_down(1, broker.now)
    for number in range(1, 21):
        broker.say(3, Publish(9, number, [Publication(BODY, b"", number)]))
    assert identify("reader") in broker.core.peers
    incoming = broker.core.clients[identify("c")].incoming
    assert incoming.settled == 0 and not incoming.cuts


def test_publications_on_the_wrong_kind_of_link_move_no_mark() -> None:
    broker = between("reader", "writer")
    broker.link(3, Kind.CLIENT, attach("c"))
    broker.say(3, Batch(9, 1, 0, 0, 100, [Publication(BODY, b"", 1)]))
    broker.say(2, Publish(9, 1, [Publication(BODY, b"", 1)]))
    assert broker.core.refused["kind"] == 2
    assert broker.core.clients[identify("c")].incoming.received == 0
    assert broker.core.peers[identify("writer")].incoming.received == 0


def test_the_hub_of_many_brokers_can_be_attached_to() -> None:
    """It listed every neighbour's addresses, more than a client decodes."""
    broker = Broker()
    for number in range(1, ADDRESSES + 20):
        broker.link(number, Kind.PEER, hello(f"b{number}"), TablesSent(), SyncDone())
    broker.link(1000, Kind.CLIENT, attach("c"))
    attached = broker.sent[-1]
    assert isinstance(attached, Attached) and len(attached.addresses) == ADDRESSES
    assert decode(encode(attached)) == attached
    broker.core.drain(broker.now)
    broker.drain()
    assert decode(encode(broker.sent[-1])) == broker.sent[-1]


def test_every_subscription_that_a_client_may_have_can_match_one_publication() -> None:
    assert CoreSettings().clients.subscriptions <= SUBSCRIPTION_IDS
    ids = bytes(4 * CoreSettings().clients.subscriptions)
    deliver = Deliver(9, 1, 0, 0, 100, [Publication(BODY, b"", 1)], [ids])
    assert decode(encode(deliver)) == deliver


def test_a_number_stands_for_one_filter() -> None:
    broker = Broker()
    broker.link(
        3, Kind.CLIENT, attach("c"), ClientSubscribe(1, 1, parse("a")), ClientAdvertise(2, 1, parse("a"))
    )
    broker.sent.clear()
    broker.say(3, ClientSubscribe(3, 1, parse("b")), ClientAdvertise(4, 1, parse("b")))
    assert [(m.request, m.outcome) for m in broker.sent if isinstance(m, Done)] == [
        (3, "filter"),
        (4, "filter"),
    ]
    broker.sent.clear()
    broker.say(3, ClientSubscribe(5, 1, parse("a")), ClientAdvertise(6, 1, parse("a")))
    assert [m.outcome for m in broker.sent if isinstance(m, Done)] == ["local", "confirmed"] * 2


def test_a_client_that_takes_everything_and_acknowledges_nothing_is_held_to_its_queue() -> None:
    broker = Broker()
    greedy = Attach(1, 1, "greedy", identify("greedy"), 5, 9, 2**62, 0)
    broker.link(3, Kind.CLIENT, greedy, ClientSubscribe(1, 1, EVERYTHING))
    broker.say(3, Marks(9, 0, 0, 2**63 - 1))
    deliveries = broker.core.clients[identify("greedy")].deliveries
    assert deliveries.limit == broker.core.settings.clients.queue
    broker.core.link_down(3, broker.now)
    broker.link(4, Kind.CLIENT, Attach(1, 1, "greedy", identify("greedy"), 5, 10, 2**62, 0, Resume(9, 0, 0)))
    assert deliveries.limit == broker.core.settings.clients.queue


def test_a_question_that_may_be_answered_in_a_thousand_years_is_given_up() -> None:
    broker = between("silent", "asking")
    for number in range(3):
        broker.say(2, CensusRequest(1, 2, number, "", b"", 1e12))
    for _ in range(400):  # the others are there, and say nothing
        broker.pass_time(broker.now + 2.0)
        for link in (1, 2):
            broker.say(link, TablesSent())
    assert sum(isinstance(message, CensusAnswer) for message in broker.sent) == 3
