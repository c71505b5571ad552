"""Publishing: advertisements first, window, credit, marks, cuts, and what is sent again after a break."""

from __future__ import annotations

import pytest

from grapevine.client.session import Session, SessionSettings
from grapevine.client.session.outgoing import BATCH, WINDOW_BYTES
from grapevine.errors import FilterError, NotAllowed, Undelivered
from grapevine.filters import EVERYTHING, parse
from grapevine.wire.codec import encode
from grapevine.wire.limits import FRAME_BYTES, PAYLOAD_BYTES
from grapevine.wire.messages import (
    CUT_LINK_LOST,
    CUT_NOT_ALLOWED,
    DURABLE,
    RESENT,
    Attached,
    ClientAdvertise,
    ClientUnadvertise,
    Cut,
    Done,
    Marks,
    Message,
    Publish,
)

QUOTES = parse("class = 'STOCK'")
NEWS = parse("class = 'NEWS'")


def sent(session: Session) -> list[Message]:
    session.flush_out()
    out = session.out.copy()
    session.out.clear()
    return out


def sequences(messages: list[Message]) -> list[tuple[int, list[int]]]:
    """(first position, sequence numbers) of every Publish."""
    return [(m.first, [p.sequence for p in m.publications]) for m in messages if isinstance(m, Publish)]


def attach(
    session: Session,
    epoch: int,
    *,
    resumed: bool = False,
    received: int = 0,
    settled: int = 0,
    credit: int = 100,
) -> list[Message]:
    session.link_down(0.0)
    session.link_up(0.0)
    sent(session)
    session.receive(Attached(7, "b1", epoch, resumed, received, settled, credit), 0.0)
    return sent(session)


def confirm(session: Session, messages: list[Message]) -> list[Message]:
    for message in messages:
        if isinstance(message, ClientAdvertise):
            session.receive(Done(message.request, "confirmed"), 0.0)
    return sent(session)


def publisher(settings: SessionSettings | None = None, credit: int = 100) -> Session:
    """A session whose implicit advertisement is confirmed; sequence 1 at position 1 was sent and settled."""
    session = Session("quotes", 5, settings)
    attach(session, 1, credit=credit)
    session.publish({"n": 0})
    confirm(session, sent(session))
    session.receive(Marks(1, 1, 1, credit), 0.0)
    return session


def test_implicit_advertisement_is_confirmed_before_the_first_publication_leaves() -> None:
    session = Session("quotes", 5)
    attach(session, 1)
    assert session.publish({"n": 1}) == 1
    assert session.publish({"n": 2}) == 2
    out = sent(session)
    assert out == [ClientAdvertise(1, 0, EVERYTHING)]
    session.receive(Done(1, "local"), 0.1)
    assert sent(session) == []
    session.receive(Done(1, "confirmed"), 0.2)
    assert sequences(sent(session)) == [(1, [1, 2])]


def test_publications_outside_the_advertisements_are_refused_at_once() -> None:
    session = Session("quotes", 5)
    attach(session, 1)
    session.advertise(QUOTES, 0.0)
    confirm(session, sent(session))
    session.publish({"class": "STOCK"})
    with pytest.raises(NotAllowed, match="NEWS"):
        session.publish({"class": "NEWS"})
    assert sequences(sent(session)) == [(1, [1])]


def test_a_publication_under_an_unconfirmed_advertisement_holds_later_ones() -> None:
    session = Session("quotes", 5)
    attach(session, 1)
    session.advertise(QUOTES, 0.0)
    confirm(session, sent(session))
    session.advertise(NEWS, 0.0)
    (ask,) = sent(session)
    session.publish({"class": "STOCK"})
    session.publish({"class": "NEWS"})
    session.publish({"class": "STOCK"})
    assert sequences(sent(session)) == [(1, [1])]
    assert sequences(confirm(session, [ask])) == [(2, [2, 3])]


def test_refused_advertisement_takes_its_publications_with_it() -> None:
    session = Session("quotes", 5)
    attach(session, 1)
    session.advertise(QUOTES, 0.0)
    confirm(session, sent(session))
    session.advertise(NEWS, 0.0)
    (ask,) = sent(session)
    assert isinstance(ask, ClientAdvertise)
    for name in ("STOCK", "NEWS", "STOCK"):
        session.publish({"class": name})
    session.receive(Done(ask.request, "not-allowed", "no role"), 0.1)
    assert sequences(sent(session)) == [(1, [1, 3])]
    with pytest.raises(NotAllowed, match="publications 2"):
        raise session.undelivered() or AssertionError
    assert session.undelivered() is None
    with pytest.raises(NotAllowed):
        session.publish({"class": "NEWS"})


def test_what_is_left_after_a_refusal_still_waits_for_its_own_advertisement() -> None:
    session = Session("quotes", 5)
    attach(session, 1)
    news, quotes = session.advertise(NEWS, 0.0), session.advertise(QUOTES, 0.0)
    refused, awaited = sent(session)
    for name in ("NEWS", "NEWS", "STOCK"):
        session.publish({"class": name})
    request = session.unadvertise(quotes, 0.0)
    assert isinstance(refused, ClientAdvertise)
    session.receive(Done(refused.request, "not-allowed"), 0.1)
    assert news.request.error is not None and sequences(sent(session)) == []
    assert sequences(confirm(session, [awaited])) == [(1, [3])]
    session.receive(Marks(1, 1, 1, 100), 0.2)
    assert sent(session) == [ClientUnadvertise(request.number, quotes.number)]


def test_refused_filter_is_a_filter_error() -> None:
    session = Session("quotes", 5)
    attach(session, 1)
    advertisement = session.advertise(QUOTES, 0.0)
    session.receive(Done(1, "filter", "too long"), 0.1)
    assert isinstance(advertisement.request.error, FilterError)


def test_credit_limits_what_leaves() -> None:
    session = publisher(credit=3)
    for n in range(5):
        session.publish({"n": n})
    assert sequences(sent(session)) == [(2, [2, 3])]
    session.receive(Marks(1, 3, 3, 5), 0.0)
    assert sequences(sent(session)) == [(4, [4, 5])]


def test_window_counts_what_is_not_settled() -> None:
    session = publisher(SessionSettings(publish_window=2))
    session.publish({"n": 1})
    session.publish({"n": 2})
    assert not session.can_publish
    sent(session)
    session.receive(Marks(1, 3, 1, 100), 0.0)
    assert not session.can_publish
    session.receive(Marks(1, 3, 2, 100), 0.0)
    assert session.can_publish


def test_marks_are_told_by_sequence_number() -> None:
    session = publisher()
    for sequence in (10, 20, 30):
        session.publish({"n": 1}, sequence=sequence)
    sent(session)
    session.receive(Marks(1, 4, 2, 100, persisted=3), 0.0)
    out = session.outgoing
    assert (out.accepted_up_to, out.persisted_up_to, out.settled_up_to) == (30, 20, 10)


def test_marks_never_pass_what_was_sent_nor_another_epoch() -> None:
    session = publisher()
    session.publish({"n": 1})
    sent(session)
    session.receive(Marks(9, 2, 2, 100), 0.0)
    assert session.outgoing.unsettled == 1
    session.publish({"n": 2})
    session.receive(Marks(1, 50, 50, 100), 0.0)
    assert session.outgoing.unsettled == 1 and session.outgoing.settled_up_to == 2


def test_resume_sends_again_what_was_not_received() -> None:
    session = publisher()
    for n in range(3):
        session.publish({"n": n})
    sent(session)
    out = attach(session, 1, resumed=True, received=2, settled=2)
    assert sequences(out) == [(3, [3, 4])]
    assert not any(p.flags & RESENT for m in out if isinstance(m, Publish) for p in m.publications)


def test_new_epoch_sends_everything_unsettled_first_and_marks_what_was_sent_before() -> None:
    session = publisher(credit=3)
    for n in range(4):
        session.publish({"n": n})
    sent(session)  # 2 and 3; no credit for 4 and 5
    session.receive(Marks(1, 3, 1, 3), 0.0)
    out = attach(session, 2)
    assert sequences(out) == []  # the advertisement is not confirmed here yet
    session.publish({"n": 9})
    out = confirm(session, out)
    assert sequences(out) == [(1, [2, 3, 4, 5, 6])]
    (publish,) = [m for m in out if isinstance(m, Publish)]
    assert [p.flags & RESENT for p in publish.publications] == [RESENT, RESENT, 0, 0, 0]


def test_a_second_new_epoch_marks_all_that_left_in_the_first() -> None:
    session = publisher()
    session.publish({"n": 1}, durable=True)
    sent(session)
    confirm(session, attach(session, 2))
    session.publish({"n": 2})
    sent(session)
    out = confirm(session, attach(session, 3))
    (publish,) = [m for m in out if isinstance(m, Publish)]
    assert [p.flags for p in publish.publications] == [DURABLE | RESENT, RESENT]


def test_cuts_are_told_once_and_acknowledged() -> None:
    session = publisher()
    for n in range(3):
        session.publish({"n": n})
    sent(session)
    cuts = (Cut(session.id, 5, 2, 2, CUT_LINK_LOST), Cut(session.id, 5, 3, 3, CUT_NOT_ALLOWED))
    session.receive(Marks(1, 4, 3, 100, 0, cuts, 0), 0.0)
    (marks,) = sent(session)
    assert isinstance(marks, Marks) and marks.cuts_seen == 2
    session.receive(Marks(1, 4, 4, 100, 0, (cuts[1], Cut(session.id, 5, 4, 4, CUT_LINK_LOST)), 1), 0.0)
    assert len(session.cuts) == 3
    error = session.undelivered()
    assert isinstance(error, Undelivered) and error.ranges == ((2, 4),)
    assert session.undelivered() is None and not session.outgoing.unsettled


@pytest.mark.parametrize(
    ("by", "attributes", "why"),
    [
        (("topic",), {"price": 9}, "made of topic: the attribute topic is missing"),
        (("lat/1", "lon/1"), {"lat": 4.5}, "made of lat/1, lon/1: the attribute lon is missing"),
        (("lat/1",), {"lat": "here"}, "made of lat/1: lat must be a finite number"),
    ],
)
def test_what_is_refused_for_want_of_a_topic_says_so(
    by: tuple[str, ...], attributes: dict[str, int | float | str], why: str
) -> None:
    session = Session("quotes", 5)
    session.link_up(0.0)
    sent(session)
    session.receive(Attached(7, "b1", 1, False, 0, 0, 100, ordered=False, ordered_by=by), 0.0)
    session.publish({"topic": "us", "lat": 1.5, "lon": 2.5})
    session.publish(attributes)
    confirm(session, sent(session))
    session.receive(Marks(1, 2, 2, 100, 0, (Cut(session.id, 5, 2, 2, CUT_NOT_ALLOWED),), 0), 0.0)
    error = session.undelivered()
    assert isinstance(error, NotAllowed)
    assert str(error) == f"refused on their way: publications 2: this overlay routes by topic, which is {why}"
    session.publish({"topic": "us", "lat": 1.5, "lon": 2.5})
    confirm(session, sent(session))
    session.receive(Marks(1, 3, 3, 100, 0, (Cut(session.id, 5, 3, 3, CUT_NOT_ALLOWED),), 1), 0.0)
    assert str(session.undelivered()) == "refused on their way: publications 3", "for another reason"


def test_a_new_epoch_numbers_its_cuts_anew() -> None:
    session = publisher()
    session.publish({"n": 1})
    sent(session)
    session.receive(Marks(1, 2, 2, 100, 0, (Cut(session.id, 5, 2, 2, CUT_LINK_LOST),), 0), 0.0)
    session.publish({"n": 2})
    confirm(session, attach(session, 2))
    session.receive(Marks(2, 1, 1, 100, 0, (Cut(session.id, 5, 3, 3, CUT_LINK_LOST),), 0), 0.0)
    assert [cut.first for cut in session.cuts] == [2, 3]


def test_cuts_after_the_asked_number_wait() -> None:
    session = publisher()
    session.cuts.take((Cut(0, 0, 2, 3, CUT_LINK_LOST), Cut(0, 0, 7, 7, CUT_LINK_LOST)), 0)
    error = session.undelivered(up_to=5)
    assert isinstance(error, Undelivered) and error.ranges == ((2, 3),)
    error = session.undelivered(up_to=7)
    assert isinstance(error, Undelivered) and error.ranges == ((7, 7),)


def test_unadvertise_waits_until_everything_before_is_settled() -> None:
    session = Session("quotes", 5)
    attach(session, 1)
    advertisement = session.advertise(QUOTES, 0.0)
    confirm(session, sent(session))
    session.publish({"class": "STOCK"})
    sent(session)
    request = session.unadvertise(advertisement, 0.0)
    with pytest.raises(NotAllowed):
        session.publish({"class": "STOCK"})
    assert sent(session) == []
    out = attach(session, 2)  # the broker is lost: what is unsettled still needs its advertisement
    assert [type(m) for m in out] == [ClientAdvertise]
    assert sequences(confirm(session, out)) == [(1, [1])]
    session.receive(Marks(2, 1, 1, 100), 0.0)
    assert sent(session) == [ClientUnadvertise(request.number, advertisement.number)]
    session.receive(Done(request.number, "confirmed"), 0.0)
    assert request.done


def test_explicit_advertisement_ends_the_implicit_one() -> None:
    session = publisher()
    session.advertise(QUOTES, 0.0)
    out = sent(session)
    assert [type(m) for m in out] == [ClientUnadvertise, ClientAdvertise]
    with pytest.raises(NotAllowed):
        session.publish({"n": 1})


def test_sequence_must_rise() -> None:
    session = publisher()
    assert session.publish({"n": 1}, sequence=10) == 10
    assert session.publish({"n": 1}) == 11
    with pytest.raises(ValueError, match="does not rise"):
        session.publish({"n": 1}, sequence=11)


@pytest.mark.parametrize(
    "attributes",
    [{"a": float("nan")}, {"a": None}, {1: 2}, {"a": [1]}, {"a": b"x"}, {"a": 2**64},
     {"": 1}, {"a" * 256: 1}, {"a": "x" * 20_000}, {"a": object()}, {"a": "\ud800"}],
)  # fmt: skip
def test_what_no_broker_would_take_is_refused_here(attributes: dict[str, object]) -> None:
    session = publisher()
    with pytest.raises(ValueError):
        session.publish(attributes)  # type: ignore[arg-type]
    assert session.outgoing.unsettled == 0


def test_large_payloads_are_split_over_frames() -> None:
    session = publisher(credit=10_000)
    with pytest.raises(ValueError):
        session.publish({"n": 1}, bytes(PAYLOAD_BYTES + 1))
    for _ in range(3):
        session.publish({"n": 1}, bytes(PAYLOAD_BYTES))
    for _ in range(2 * BATCH):
        session.publish({"n": 1}, b"small")
    out = sent(session)
    assert all(len(encode(m)) <= FRAME_BYTES for m in out)
    assert [s for _, batch in sequences(out) for s in batch] == list(range(2, 2 + 3 + 2 * BATCH))
    assert [first for first, _ in sequences(out)] == [2, 3, 4, 5, 5 + BATCH]


def test_large_payloads_fill_the_window_by_their_bytes() -> None:
    session = publisher(credit=10_000)
    large = WINDOW_BYTES // 16
    for _ in range(16):
        assert session.can_publish
        session.publish({"n": 1}, bytes(large))
    assert not session.can_publish and not session.outgoing.roomy
    sent(session)
    done = session.outgoing.sent - 16
    session.marked(done + 16, done + 7, 10_000)
    assert session.can_publish and not session.outgoing.roomy
    session.marked(done + 16, done + 8, 10_000)
    assert session.outgoing.roomy and session.outgoing.large_bytes == 8 * large
    session.marked(done + 16, done + 16, 10_000)
    assert session.outgoing.large_bytes == 0
