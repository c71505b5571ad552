"""A client is handed over to another broker: what it says to whom, what it holds, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from grapevine.client.session import Attachment, Session, SubscriptionState
from grapevine.filters import parse
from grapevine.wire import encode_attributes
from grapevine.wire import messages as wire
from grapevine.wire.handover import HandoverDone, HandoverEnd, HandoverOffer, HandoverReady

OLD, NEW = 11, 22


def attached(epoch: int, broker: int = OLD, **changes: Any) -> wire.Attached:
    fields = {"resumed": False, "received": 0, "settled": 0, "credit": 100} | changes
    return wire.Attached(broker, f"b{broker}", epoch, **fields)


def said(place: Session | Attachment) -> list[wire.Message]:
    (place if isinstance(place, Session) else place.session).flush_out()
    messages, place.out[:] = list(place.out), []
    return messages


def deliver(epoch: int, first: int, *sequences: int, number: int = 1) -> wire.Deliver:
    attributes = encode_attributes({"a": 1})
    publications = [wire.Publication(attributes, b"", n, 0, 7, 1) for n in sequences]
    lists = [number.to_bytes(4, "little")] * len(sequences)
    return wire.Deliver(epoch, first, 0, 0, 100, publications, lists)


def numbers(subscription: SubscriptionState) -> list[int]:
    return [message.publication.sequence for message in subscription.queue]


@pytest.fixture
def session() -> Session:
    """Attached to the old broker, with one subscription."""
    session = Session("sub", 1)
    session.link_up(0.0)
    session.receive(attached(1), 0.0)
    session.subscribe(parse("a > 0"), 0.0)
    (request,) = [m.request for m in said(session) if isinstance(m, wire.ClientSubscribe)]
    session.receive(wire.Done(request, "confirmed"), 0.0)
    return session


def offered(session: Session) -> Attachment:
    session.receive(HandoverOffer(5, NEW, "b22", ("tcp://new:1",)), 1.0)
    (target,) = session.moving.attachments
    target.link_up(1.1)
    (attach,) = said(target)
    assert isinstance(attach, wire.Attach) and attach.resume is None
    target.receive(attached(attach.epoch, NEW), 1.2)
    return target


def confirmed(session: Session, target: Attachment) -> None:
    asked = [m for m in said(target) if isinstance(m, wire.ClientSubscribe)]
    assert [m.number for m in asked] == list(session.incoming.subscriptions)
    for message in asked:
        target.receive(wire.Done(message.request, "confirmed"), 1.3)


def test_what_the_new_broker_sends_comes_after_the_old_ones_last(session: Session) -> None:
    subscription = session.incoming.subscriptions[1]
    target = offered(session)
    assert not said(session)
    confirmed(session, target)
    assert said(session) == [HandoverReady(5, 1)]
    assert target.epoch is not None
    target.receive(deliver(target.epoch, 1, 3, 4, 5), 1.4)
    (marks,) = said(target)
    assert isinstance(marks, wire.Marks) and (marks.received, marks.settled) == (3, 3)
    session.receive(deliver(1, 1, 1, 2), 1.5)
    session.receive(HandoverDone(5, 1, 4), 1.6)
    assert numbers(subscription) == [1, 2] and session.handover.target is target
    session.receive(deliver(1, 3, 3, 4), 1.7)
    assert numbers(subscription) == [1, 2, 3, 4, 5]
    assert session.moving.promoted is target and session.broker == NEW
    assert session.moving.farewell[-2:] == [HandoverEnd(5, "moved"), wire.Detach()]
    session.receive(deliver(target.epoch, 4, 6), 1.8)
    assert numbers(subscription) == [1, 2, 3, 4, 5, 6]
    assert not subscription.gaps


def test_what_comes_by_the_second_link_before_it_is_the_main_one(session: Session) -> None:
    target = offered(session)
    confirmed(session, target)
    session.receive(HandoverDone(5, 1, 0), 1.6)
    assert target.epoch is not None
    target.receive(deliver(target.epoch, 1, 1, 2), 1.7)  # the driver has not changed links yet
    assert numbers(session.incoming.subscriptions[1]) == [1, 2]


def test_one_more_subscription_takes_another_round(session: Session) -> None:
    target = offered(session)
    confirmed(session, target)
    said(session)
    session.subscribe(parse("b > 0"), 1.4)
    session.receive(HandoverDone(5, 1, 0), 1.5)
    assert session.handover.target is target, "the word for the first round says nothing of the second filter"
    assert not said(target), "what is held may not be older than what comes here"
    (here,) = said(session)
    assert isinstance(here, wire.ClientSubscribe)
    session.receive(wire.Done(here.request, "confirmed"), 1.5)
    (asked,) = [m for m in said(target) if isinstance(m, wire.ClientSubscribe)]
    target.receive(wire.Done(asked.request, "confirmed"), 1.6)
    assert HandoverReady(5, 2) in said(session)
    session.receive(HandoverDone(5, 2, 0), 1.7)
    assert session.moving.promoted is target
    assert all(state.confirmed and state.request.done for state in session.incoming.subscriptions.values())


def test_a_broker_that_refuses_a_subscription_does_not_get_the_client(session: Session) -> None:
    target = offered(session)
    (asked,) = said(target)
    assert isinstance(asked, wire.ClientSubscribe)
    target.receive(wire.Done(asked.request, "not-allowed", "no"), 1.3)
    (end,) = said(session)
    assert isinstance(end, HandoverEnd) and end.outcome == "stays" and "refuses" in end.text
    assert session.moving.closing == [target] and target.out == [wire.Detach()]
    assert session.broker == OLD and not session.moving.attachments


def test_a_broker_that_was_forgotten_by_the_new_one_begins_anew(session: Session) -> None:
    target = offered(session)
    confirmed(session, target)
    said(session)
    assert target.epoch is not None
    target.receive(deliver(target.epoch, 1, 1, 2), 1.4)
    target.link_down(1.5)
    target.link_up(1.6)
    (attach,) = said(target)
    assert isinstance(attach, wire.Attach) and attach.resume == wire.Resume(2, 2, 2)
    target.receive(attached(attach.epoch, NEW), 1.7)
    session.receive(HandoverDone(5, 1, 0), 1.8)
    assert session.handover.target is target, "what was held is gone: the old broker must go on"
    confirmed(session, target)
    assert said(session) == [HandoverReady(5, 2)]


def test_ready_is_said_again_after_a_break(session: Session) -> None:
    target = offered(session)
    confirmed(session, target)
    said(session)
    session.link_down(2.0)
    session.link_up(2.1)
    said(session)
    session.receive(attached(1, resumed=True), 2.2)
    assert HandoverReady(5, 1) in said(session)


def test_losing_the_old_broker_ends_it(session: Session) -> None:
    target = offered(session)
    session.link_down(2.0)
    session.link_up(2.1)
    (attach,) = said(session)
    assert isinstance(attach, wire.Attach)
    session.receive(attached(attach.epoch, 33), 2.2)
    assert session.handover.target is None and session.moving.closing == [target]
    assert session.incoming.subscriptions[1].gaps


def test_a_publisher_goes_over_when_what_it_sent_is_settled(session: Session) -> None:
    session.publish({"a": 1})
    (advertise,) = said(session)
    assert isinstance(advertise, wire.ClientAdvertise)
    session.receive(wire.Done(advertise.request, "confirmed"), 0.5)
    assert any(isinstance(m, wire.Publish) for m in said(session))
    target = offered(session)
    confirmed(session, target)
    session.receive(HandoverDone(5, 1, 0), 1.6)
    session.publish({"a": 2})
    assert session.moving.promoted is None
    assert not any(isinstance(m, wire.Publish) for m in said(session)), "nothing more is sent there"
    session.receive(wire.Marks(1, 1, 1, 100), 1.7)
    assert session.moving.promoted is target
    first = {type(message) for message in said(session)}
    assert first == {wire.ClientAdvertise, wire.Marks}, "the rest waits for its confirmation"


def test_it_stays_when_it_takes_too_long(session: Session) -> None:
    offered(session)
    session.tick(100.0)
    assert session.handover.target is None and session.broker == OLD


def test_an_offer_of_its_own_broker_is_declined(session: Session) -> None:
    session.receive(HandoverOffer(5, OLD, "b11", ("tcp://old:1",)), 1.0)
    assert said(session) == [HandoverEnd(5, "stays", "it is there already")]
