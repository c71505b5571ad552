"""Attach, resume, refusal, silence: one receive, one outbox compared."""

from __future__ import annotations

import pytest

from grapevine.client.session import Event, Session, SessionSettings, State
from grapevine.errors import Closed, NotAllowed, Timeout
from grapevine.filters import EVERYTHING, parse
from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    PROTOCOL,
    PROTOCOL_OLDEST,
    Attach,
    Attached,
    ClientAdvertise,
    ClientSubscribe,
    ClientUnsubscribe,
    Deliver,
    Detach,
    Done,
    GoAway,
    Marks,
    Message,
    Ping,
    Pong,
    Publication,
    Publish,
    Refuse,
    Reset,
    Resume,
)

QUOTES = parse("class = 'STOCK'")
ONE = b"\x01\0\0\0"


def sent(session: Session) -> list[Message]:
    session.flush_out()
    out = session.out.copy()
    session.out.clear()
    return out


def attached(
    epoch: int, *, resumed: bool = False, received: int = 0, settled: int = 0, credit: int = 100
) -> Attached:
    return Attached(7, "b1", epoch, resumed, received, settled, credit)


def start(settings: SessionSettings | None = None) -> Session:
    session = Session("quotes", 5, settings)
    session.link_up(0.0)
    session.receive(attached(1), 0.0)
    sent(session)
    session.events.clear()
    return session


def test_first_attach_proposes_an_epoch_and_resumes_nothing() -> None:
    session = Session("quotes", 5, SessionSettings(receive_window=50))
    session.link_up(1.0)
    assert sent(session) == [
        Attach(PROTOCOL_OLDEST, PROTOCOL, "quotes", identify("quotes"), 5, 1, 50, 0, None)
    ]
    session.receive(attached(1), 1.1)
    assert session.state == State.ATTACHED and session.events == [Event("attached")]
    assert session.broker_name == "b1"


def test_same_broker_goes_on_with_the_epoch() -> None:
    session = start()
    session.receive(Deliver(1, 1, 0, 0, 100, [Publication(b"\x80", b"", 1)], [ONE]), 1.0)
    sent(session)
    session.link_down(2.0)
    session.link_up(3.0)
    (attach,) = sent(session)
    assert isinstance(attach, Attach) and attach.epoch == 2 and attach.resume == Resume(1, 1, 1)
    session.receive(attached(1, resumed=True), 3.1)
    assert session.events == [Event("resumed")]
    # Marks on their way may have been lost with the link, so they are said again.
    assert [type(m) for m in sent(session)] == [Marks]


def test_answer_to_an_older_attach_is_ignored() -> None:
    session = start()
    session.link_down(1.0)
    session.link_up(1.0)
    session.receive(attached(1), 1.1)
    assert session.state == State.ATTACHING
    session.receive(attached(2), 1.2)
    assert session.state == State.ATTACHED


def test_reset_attaches_again_but_once() -> None:
    session = start()
    session.receive(Reset(), 1.0)
    assert [type(m) for m in sent(session)] == [Attach]
    session.receive(Reset(), 1.1)
    assert sent(session) == []


def test_unanswered_attach_is_repeated_with_a_new_proposal() -> None:
    session = Session("quotes", 5)
    session.link_up(0.0)
    sent(session)
    assert session.next_deadline() == 5.0
    session.tick(5.0)
    assert session.events == [Event("unanswered")]
    (attach,) = sent(session)
    assert isinstance(attach, Attach) and attach.epoch == 2


def test_refusal_is_an_event() -> None:
    session = Session("quotes", 5)
    session.link_up(0.0)
    session.receive(Refuse("name", "taken"), 0.1)
    assert session.state == State.DOWN and session.events == [Event("refused", "name", "taken")]


def test_go_away_stops_publishing_until_the_next_broker() -> None:
    session = start()
    confirm_implicit(session)
    session.receive(GoAway(("tcp://b2:1",)), 1.0)
    assert session.events == [Event("go-away", addresses=("tcp://b2:1",))]
    session.publish({"a": 1})
    assert sent(session) == []
    session.link_down(2.0)
    session.link_up(2.0)
    session.receive(attached(2), 2.0)
    (advertise,) = [m for m in sent(session) if isinstance(m, ClientAdvertise)]
    session.receive(Done(advertise.request, "confirmed"), 2.1)
    assert [type(m) for m in sent(session)] == [Publish]


def confirm_implicit(session: Session) -> None:
    session.publish({"a": 0})
    (advertise,) = sent(session)
    assert isinstance(advertise, ClientAdvertise) and advertise.number == 0 and advertise.filter == EVERYTHING
    session.receive(Done(advertise.request, "confirmed"), 0.0)
    sent(session)


def test_ping_is_answered_and_silence_noticed() -> None:
    session = start(SessionSettings(silent_s=10.0))
    session.receive(Ping(3.5), 4.0)
    assert sent(session) == [Pong(3.5)]
    assert session.next_deadline() == 9.0
    session.tick(9.0)
    assert sent(session) == [Ping(9.0)]
    assert session.next_deadline() == 14.0
    session.tick(14.0)
    assert session.events == [Event("silent")]


def test_any_word_ends_the_silence() -> None:
    session = start(SessionSettings(silent_s=10.0))
    session.tick(5.0)
    session.receive(Pong(5.0), 6.0)
    session.tick(10.5)
    assert session.events == [] and session.next_deadline() == 11.0


def test_subscribe_waits_for_confirmation() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0, timeout_s=2.0)
    assert sent(session) == [ClientSubscribe(1, 1, QUOTES)]
    session.receive(Done(1, "local"), 1.1)
    assert not subscription.request.done
    session.receive(Done(1, "confirmed"), 1.2)
    assert subscription.request.done and subscription.request.error is None and subscription.confirmed


def test_confirm_local_is_content_with_the_first_word() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0, confirm="local")
    session.receive(Done(1, "local"), 1.1)
    assert subscription.request.done and not subscription.confirmed
    session.receive(Done(1, "confirmed"), 1.2)
    assert subscription.confirmed


def test_deadline_gives_timeout_and_the_subscription_stays() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0, timeout_s=2.0)
    assert session.next_deadline() == 3.0
    session.tick(3.0)
    assert isinstance(subscription.request.error, Timeout)
    session.receive(Done(1, "confirmed"), 4.0)
    assert subscription.confirmed and session.incoming.subscriptions == {1: subscription}
    assert isinstance(subscription.request.error, Timeout)


def test_refused_subscription_is_gone() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0)
    session.receive(Done(1, "not-allowed", "no role"), 1.1)
    assert isinstance(subscription.request.error, NotAllowed) and not session.incoming.subscriptions


def test_open_requests_are_sent_again_when_the_epoch_goes_on() -> None:
    session = start()
    session.subscribe(QUOTES, 1.0)
    sent(session)
    session.link_down(2.0)
    session.link_up(2.0)
    session.receive(attached(1, resumed=True), 2.1)
    assert ClientSubscribe(1, 1, QUOTES) in sent(session)


def test_confirmed_subscriptions_are_made_again_in_a_new_epoch_only() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0)
    session.receive(Done(1, "confirmed"), 1.1)
    sent(session)
    for epoch, resumed in ((1, True), (3, False)):
        session.link_down(2.0)
        session.link_up(2.0)
        session.receive(attached(epoch, resumed=resumed), 2.1)
        again = [m for m in sent(session) if isinstance(m, ClientSubscribe)]
        assert again == ([] if resumed else [ClientSubscribe(2, 1, QUOTES)])
    assert not subscription.confirmed
    session.receive(Done(2, "confirmed"), 2.2)
    assert subscription.confirmed


def test_what_an_epoch_asked_again_for_nobody_does_not_stay_open() -> None:
    session = start()
    session.subscribe(QUOTES, 1.0)
    session.receive(Done(1, "confirmed"), 1.1)
    for epoch in (2, 3, 4):
        session.link_down(2.0)
        session.link_up(2.0)
        session.receive(attached(epoch), 2.1)
    assert len(session.requests.asked) == len(session.requests.open) == 1


def test_unsubscribe_during_a_break_is_done_by_a_new_epoch() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0)
    session.receive(Done(1, "confirmed"), 1.1)
    sent(session)
    session.link_down(2.0)
    request = session.unsubscribe(subscription, 2.0)
    session.link_up(3.0)
    session.receive(attached(2), 3.1)
    assert request.done and request.error is None
    assert not any(isinstance(m, ClientSubscribe | ClientUnsubscribe) for m in sent(session))


def test_unsubscribe_during_a_break_is_asked_when_the_epoch_goes_on() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0)
    session.receive(Done(1, "confirmed"), 1.1)
    sent(session)
    session.link_down(2.0)
    request = session.unsubscribe(subscription, 2.0)
    session.link_up(3.0)
    session.receive(attached(1, resumed=True), 3.1)
    assert ClientUnsubscribe(2, 1) in sent(session) and not request.done
    session.receive(Done(2, "confirmed"), 3.2)
    assert request.done


def test_close_says_good_bye_and_ends_what_waits() -> None:
    session = start()
    subscription = session.subscribe(QUOTES, 1.0)
    sent(session)
    session.publish({"a": 1})
    sent(session)
    session.close()
    assert sent(session) == [Detach()]
    assert isinstance(subscription.request.error, Closed)
    with pytest.raises(Closed):
        session.subscribe(QUOTES, 2.0)
    with pytest.raises(Closed):
        session.publish({"a": 1})
