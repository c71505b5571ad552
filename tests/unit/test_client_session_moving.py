"""A client is asked to publish elsewhere: what it says to whom, what waits, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from grapevine.client.session import Away, Session
from grapevine.filters import parse
from grapevine.wire import messages as wire
from grapevine.wire.relocation import Migrate, MovedAdvertisement, Paused, Relocate, Relocated, RelocateEnd

SOURCE, TARGET = 11, 22
ID = (SOURCE, 1, 7)
MOVED = (MovedAdvertisement(1, SOURCE, 5),)


def attached(epoch: int, broker: int = SOURCE, **changes: Any) -> wire.Attached:
    fields = {"resumed": False, "received": 0, "settled": 0, "credit": 100} | changes
    return wire.Attached(broker, f"b{broker}", epoch, **fields)


def said(place: Session | Away) -> list[wire.Message]:
    if isinstance(place, Session):
        place.flush_out()
    else:
        place.session.flush_out()
    messages, place.out[:] = list(place.out), []
    return messages


@pytest.fixture
def session() -> Session:
    """Attached to the source, one advertisement confirmed, three publications sent and one more settled."""
    session = Session("pub", 1)
    session.link_up(0.0)
    session.receive(attached(1), 0.0)
    session.advertise(parse("a > 0"), 0.0)
    (request,) = [m.request for m in said(session) if isinstance(m, wire.ClientAdvertise)]
    session.receive(wire.Done(request, "confirmed"), 0.0)
    for n in range(3):
        session.publish({"a": n + 1})
    said(session)
    session.receive(wire.Marks(1, 3, 1, 100), 0.0)
    return session


def offer(session: Session, now: float = 1.0) -> Away:
    path = (SOURCE, 33, TARGET)
    session.receive(Relocate(*ID, "target", ("tcp://t:1",), path, MOVED, 1), now)
    (away,) = session.moving.attachments
    assert away.addresses == ("tcp://t:1",)
    return away


def reach(away: Away, now: float = 1.1) -> None:
    away.link_up(now)
    (attach,) = said(away)
    assert isinstance(attach, wire.Attach) and attach.resume is None
    away.receive(attached(attach.epoch, TARGET, credit=50), now)


def test_nothing_waits_until_the_target_is_reached(session: Session) -> None:
    offer(session)
    session.publish({"a": 4})
    assert [type(m) for m in said(session)] == [wire.Publish]


def test_pause_then_hand_over(session: Session) -> None:
    away = offer(session)
    reach(away)
    session.publish({"a": 4})
    assert said(session) == [Paused(*ID, 3)]
    assert said(away) == [Migrate(*ID, (SOURCE, 33, TARGET), MOVED, 1)]
    assert session.can_publish


def test_moved_a_client_without_subscriptions_leaves_the_source(session: Session) -> None:
    away = offer(session)
    reach(away)
    session.publish({"a": 4})
    said(session), said(away)
    away.receive(Relocated(*ID, "moved", 3), 2.0)
    moving = session.moving
    assert moving.farewell == [RelocateEnd(*ID, "moved"), wire.Detach()]
    assert moving.promoted is away and not moving.attachments and session.broker == TARGET
    end, publish = said(session)
    assert end == RelocateEnd(*ID, "moved") and isinstance(publish, wire.Publish)
    assert (publish.epoch, publish.first) == (away.epoch, 1)
    assert [p.sequence for p in publish.publications] == [4]  # up to 3 is settled, says the mark
    assert session.outgoing.settled == 3 and moving.pause_s == pytest.approx(0.9)


def test_moved_a_client_with_subscriptions_keeps_both(session: Session) -> None:
    session.subscribe(parse("b > 0"), 0.5)
    (asked,) = (m for m in said(session) if isinstance(m, wire.ClientSubscribe))
    session.receive(wire.Done(asked.request, "confirmed"), 0.6)
    away = offer(session)
    reach(away)
    said(session), said(away)
    away.receive(Relocated(*ID, "moved", 0), 2.0)
    assert session.moving.place is away and session.broker == SOURCE
    assert said(session) == [RelocateEnd(*ID, "moved")]
    end, publish = said(away)
    assert isinstance(publish, wire.Publish) and end == RelocateEnd(*ID, "moved")
    assert [(p.sequence, p.flags & wire.RESENT) for p in publish.publications] == [(2, 8), (3, 8)]
    session.receive(wire.Marks(1, 3, 3, 100), 3.0)  # the source's marks are about another stream
    assert session.outgoing.settled == 1
    away.receive(wire.Marks(away.epoch or 0, 2, 2, 50), 3.0)
    assert session.outgoing.settled == 3


def test_refused_nothing_has_happened(session: Session) -> None:
    away = offer(session)
    reach(away)
    session.publish({"a": 4})
    said(session), said(away)
    away.receive(Relocated(*ID, "refused"), 2.0)
    end, publish = said(session)
    assert end == RelocateEnd(*ID, "declined") and isinstance(publish, wire.Publish)
    assert session.moving.closing == [away]


def test_without_a_word_from_the_target_it_advertises_anew_at_the_source(session: Session) -> None:
    away = offer(session)
    reach(away)
    session.publish({"a": 4})
    said(session), said(away)
    session.tick(30.0)
    end, again, *_ = [m for m in said(session) if not isinstance(m, wire.Ping)]
    assert end == RelocateEnd(*ID, "aborted") and isinstance(again, wire.ClientAdvertise)
    session.receive(wire.Done(again.request, "confirmed"), 31.0)
    (publish,) = (m for m in said(session) if isinstance(m, wire.Publish))
    assert (publish.epoch, publish.first) == (1, 4)  # the epoch goes on: the source has the first three


def test_a_lost_target_sends_publications_home(session: Session) -> None:
    session.subscribe(parse("b > 0"), 0.5)
    (asked,) = (m for m in said(session) if isinstance(m, wire.ClientSubscribe))
    session.receive(wire.Done(asked.request, "confirmed"), 0.6)
    away = offer(session)
    reach(away)
    said(session), said(away)
    away.receive(Relocated(*ID, "moved", 3), 2.0)
    session.publish({"a": 4})
    said(session), said(away)
    away.link_down(3.0)
    session.receive(wire.Ping(12.0), 12.9)
    session.tick(13.1)
    assert session.moving.here and session.moving.closing == [away]
    (again,) = (m for m in said(session) if isinstance(m, wire.ClientAdvertise))
    session.receive(wire.Done(again.request, "confirmed"), 13.2)
    (publish,) = (m for m in said(session) if isinstance(m, wire.Publish))
    assert publish.first == 4 and [p.sequence for p in publish.publications] == [4]
    assert publish.publications[0].flags & wire.RESENT


def test_an_offer_that_comes_again_is_answered_as_before(session: Session) -> None:
    away = offer(session)
    reach(away)
    said(session), said(away)
    session.receive(Relocate(*ID, "target", ("tcp://t:1",), (SOURCE, 33, TARGET), MOVED, 1), 1.5)
    assert said(session) == [Paused(*ID, 3)]
    away.receive(Relocated(*ID, "refused"), 2.0)
    said(session)
    session.receive(Relocate(*ID, "target", ("tcp://t:1",), (SOURCE, 33, TARGET), MOVED, 1), 2.5)
    assert said(session) == [RelocateEnd(*ID, "declined")]
    assert not session.moving.attachments


def test_advertisements_in_change_decline_the_offer(session: Session) -> None:
    session.advertise(parse("c > 0"), 0.9)
    said(session)
    session.receive(Relocate(*ID, "target", ("tcp://t:1",), (SOURCE, 33, TARGET), MOVED, 1), 1.0)
    assert said(session) == [RelocateEnd(*ID, "declined")]


def test_advertisements_that_change_before_the_pause_end_the_move(session: Session) -> None:
    away = offer(session)
    session.advertise(parse("c > 0"), 1.05)
    said(session)
    reach(away)
    assert said(session) == [RelocateEnd(*ID, "declined")]
    assert session.moving.move is None and session.moving.closing == [away]
