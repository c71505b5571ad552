"""Receiving: positions, duplicates, credit that stops with the reader, who gets what."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.client.session import AttachmentGap, Session, SessionSettings, SubscriptionState
from grapevine.client.session import Message as Received
from grapevine.client.session.duplicates import WINDOW, Duplicates, order_terms
from grapevine.filters import EVERYTHING
from grapevine.wire.codec import encode_attributes
from grapevine.wire.messages import (
    Attach,
    Attached,
    Deliver,
    Done,
    Dropped,
    Marks,
    Message,
    Names,
    Publication,
)

BODY = encode_attributes({"n": 1})


def sent(session: Session) -> list[Message]:
    session.flush_out()
    out = session.out.copy()
    session.out.clear()
    return out


def numbers(*subscriptions: int) -> bytes:
    return b"".join(n.to_bytes(4, "little") for n in subscriptions)


def attach(session: Session, epoch: int, ordered: bool = True) -> list[Message]:
    session.link_down(0.0)
    session.link_up(0.0)
    out = sent(session)
    session.receive(Attached(7, "b1", epoch, False, 0, 0, 100, ordered=ordered), 0.0)
    return out + sent(session)


def reader(window: int = 100) -> tuple[Session, SubscriptionState]:
    session = Session("desk", 5, SessionSettings(receive_window=window))
    attach(session, 1)
    subscription = session.subscribe(EVERYTHING, 0.0)
    sent(session)
    return session, subscription


def deliver(
    session: Session,
    first: int,
    sequences: Iterable[int],
    *,
    epoch: int = 1,
    publisher: int = 9,
    to: bytes = numbers(1),
) -> None:
    publications = [Publication(BODY, b"", s, 0, publisher, 1) for s in sequences]
    session.receive(Deliver(epoch, first, 0, 0, 100, publications, [to] * len(publications)), 0.0)


def read(session: Session, subscription: SubscriptionState) -> list[int]:
    got = [m.sequence for m in subscription.queue]
    subscription.queue.clear()
    session.consumed(len(got))
    return got


def test_deliveries_are_acknowledged_once_per_drain() -> None:
    session, subscription = reader()
    deliver(session, 1, [1, 2])
    deliver(session, 3, [3])
    assert sent(session) == [Marks(1, 3, 3, 100)]
    assert sent(session) == []
    assert read(session, subscription) == [1, 2, 3]


def test_repeated_positions_are_dropped() -> None:
    session, subscription = reader()
    deliver(session, 1, [1, 2])
    deliver(session, 2, [2, 3])
    assert read(session, subscription) == [1, 2, 3] and session.incoming.repeated == 0


def test_gap_attaches_again() -> None:
    session, subscription = reader()
    deliver(session, 1, [1])
    sent(session)
    deliver(session, 3, [3])
    (attach_again,) = sent(session)
    assert isinstance(attach_again, Attach) and attach_again.resume is not None
    assert attach_again.resume.received == 1 and read(session, subscription) == [1]


def test_other_epoch_is_ignored() -> None:
    session, subscription = reader()
    deliver(session, 1, [1], epoch=4)
    assert sent(session) == [] and read(session, subscription) == []


def test_duplicates_over_epochs_are_dropped_last_here() -> None:
    session, subscription = reader()
    deliver(session, 1, [1, 2, 3])
    attach(session, 2)
    deliver(session, 1, [2, 3, 4], epoch=2)
    assert read(session, subscription) == [1, 2, 3, 4] and session.incoming.repeated == 2
    # Dropped or not, they are taken and acknowledged.
    assert sent(session) == [Marks(2, 3, 3, 103)]


def test_another_incarnation_counts_anew() -> None:
    duplicates = Duplicates()
    first, second = Publication(BODY, b"", 1, 0, 9, 1), Publication(BODY, b"", 1, 0, 9, 2)
    assert duplicates.among([first, second, first]) == [2]


def test_credit_stops_growing_while_nobody_reads() -> None:
    session, subscription = reader(window=8)
    deliver(session, 1, range(1, 7))
    assert sent(session) == [Marks(1, 6, 6, 8)]
    deliver(session, 7, [7, 8])
    assert sent(session) == [Marks(1, 8, 8, 8)]
    subscription.queue.popleft()
    session.consumed(1)
    assert sent(session) == []  # a quarter of the window is worth a message
    subscription.queue.popleft()
    session.consumed(1)
    assert sent(session) == [Marks(1, 8, 8, 10)]


def test_window_of_one_still_moves() -> None:
    session, subscription = reader(window=1)
    for n in (1, 2, 3):
        deliver(session, n, [n])
        read(session, subscription)
        assert sent(session) == [Marks(1, n, n, n + 1)]


def test_new_epoch_announces_only_the_free_window() -> None:
    session, _ = reader(window=8)
    deliver(session, 1, range(1, 6))
    (attach_again, *_) = attach(session, 2)
    assert isinstance(attach_again, Attach) and attach_again.window == 3


def test_each_matching_subscription_sees_the_message() -> None:
    session, one = reader()
    two = session.subscribe(EVERYTHING, 0.0)
    publications = [Publication(BODY, b"", s, 0, 9, 1) for s in (1, 2, 3)]
    lists = [numbers(1), numbers(1, 2), numbers(2)]
    session.receive(Deliver(1, 1, 0, 0, 100, publications, lists), 0.0)
    assert [m.sequence for m in one.queue] == [1, 2] and [m.sequence for m in two.queue] == [2, 3]
    assert one.queue[1] is two.queue[0] and one.queue[1].subscriptions == (1, 2)
    assert session.incoming.touched == {one, two}


def test_withdrawn_subscription_gets_nothing_and_frees_the_window() -> None:
    session, subscription = reader(window=8)
    deliver(session, 1, [1, 2, 3])
    session.unsubscribe(subscription, 0.0)
    assert session.incoming.free == 8
    deliver(session, 4, [4])
    assert not subscription.queue and session.incoming.free == 8


def test_deliver_hook_takes_batches_in_place_of_queues() -> None:
    got: list[list[Received]] = []
    session = Session("desk", 5, deliver=got.append)
    attach(session, 1)
    subscription = session.subscribe(EVERYTHING, 0.0)
    deliver(session, 1, [1, 2])
    assert [[m.sequence for m in batch] for batch in got] == [[1, 2]] and not subscription.queue


def test_message_tells_names_and_attributes() -> None:
    session, subscription = reader()
    session.receive(Names(9, "quotes", "b3"), 0.0)
    publication = Publication(BODY, b"pay", 4, 0, 9, 1, 12.5, 3)
    session.receive(Deliver(1, 1, 0, 0, 100, [publication], [numbers(1)]), 0.0)
    (message,) = subscription.queue
    assert message.attributes == {"n": 1} and message.payload == b"pay"
    assert (message.publisher, message.broker) == ("quotes", "b3")
    assert (message.sequence, message.accepted_at, message.hops) == (4, 12.5, 3)


def test_dropped_adds_up_over_epochs() -> None:
    session, _ = reader()
    session.receive(Dropped(5), 0.0)
    session.receive(Dropped(7), 0.0)
    attach(session, 2)
    session.receive(Dropped(2), 0.0)
    assert session.dropped == 9


def test_unordered_overlay_takes_late_ones_once() -> None:
    session, subscription = reader()
    attach(session, 2, ordered=False)
    deliver(session, 1, [5, 3, 5, 4, 3, 6], epoch=2)
    assert read(session, subscription) == [5, 3, 4, 6]


@given(st.lists(st.integers(0, 50)))
def test_unordered_window_is_exactly_once(sequences: list[int]) -> None:
    duplicates = Duplicates()
    duplicates.ordered = False
    kept = [s for s in sequences if not duplicates.among([Publication(BODY, b"", s, 0, 9, 1)])]
    assert kept == list(dict.fromkeys(sequences))


@pytest.mark.parametrize("ahead", [WINDOW - 1, WINDOW, WINDOW + 5])
def test_older_than_the_window_counts_as_had(ahead: int) -> None:
    duplicates = Duplicates()
    duplicates.ordered = False
    late = Publication(BODY, b"", 1, 0, 9, 1)
    duplicates.among([Publication(BODY, b"", 1 + ahead, 0, 9, 1)])
    assert duplicates.among([late]) == ([] if ahead < WINDOW else [0])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20))))
def test_order_by_topic_keeps_each_topic_rising(numbered: list[tuple[str, int]]) -> None:
    """Also over a change of the broker: what comes again, or late for the first time, is not taken."""
    duplicates = Duplicates()
    duplicates.ordered = False
    duplicates.terms = order_terms(("topic",))
    kept: dict[str, list[int]] = {"a": [], "b": []}
    for topic, sequence in numbered:
        body = encode_attributes({"topic": topic, "price": sequence})
        if not duplicates.among([Publication(body, b"", sequence, 0, 9, 1)]):
            kept[topic].append(sequence)
    for topic, sequences in kept.items():
        wanted = [sequence for one, sequence in numbered if one == topic]
        assert sequences == [s for n, s in enumerate(wanted) if s > max(wanted[:n], default=-1)]


def test_terms_that_make_no_sense_are_left_aside() -> None:
    assert order_terms(("lat/0",)) == ()


def test_subscriptions_may_share_a_queue_that_has_each_message_once() -> None:
    session, first = reader()
    second = session.subscribe(EVERYTHING, 0.0, into=first)
    other = session.subscribe(EVERYTHING, 0.0)
    both, one = numbers(first.number, second.number, other.number), numbers(second.number)
    publications = [Publication(BODY, b"", n, 0, 9, 1) for n in (1, 2)]
    session.receive(Deliver(1, 1, 0, 0, 0, publications, [both, one]), 0.0)
    assert [m.sequence for m in first.queue] == [1, 2] and second.queue is first.queue
    assert [m.sequence for m in other.queue] == [1]
    assert session.incoming.queued == 3


def test_a_shared_queue_is_kept_until_its_last_subscription_ends() -> None:
    session, first = reader()
    second = session.subscribe(EVERYTHING, 0.0, into=first)
    session.receive(Deliver(1, 1, 0, 0, 0, [Publication(BODY, b"", 1, 0, 9, 1)], [numbers(1, 2)]), 0.0)
    session.unsubscribe(first, 0.0)
    assert len(second.queue) == 1 and session.incoming.consumed == 0
    session.unsubscribe(second, 0.0)
    assert not second.queue and session.incoming.consumed == 1


def test_a_queue_is_shared_within_one_client_only() -> None:
    session, first = reader()
    _, stranger = reader()
    with pytest.raises(ValueError, match="no subscription of this client"):
        session.subscribe(EVERYTHING, 0.0, into=stranger)
    session.unsubscribe(first, 0.0)
    with pytest.raises(ValueError, match="has ended"):
        session.subscribe(EVERYTHING, 0.0, into=first)


def test_who_lost_its_session_is_told_of_a_gap_and_who_resumes_is_not() -> None:
    session, subscription = reader()
    session.receive(Done(subscription.request.number, "confirmed"), 0.0)
    assert subscription.confirmed
    session.events.clear()
    session.link_down(0.0)
    session.link_up(0.0)
    sent(session)
    session.receive(Attached(7, "b1", 1, True, 0, 0, 100), 0.0)  # the same session goes on
    assert not subscription.gaps and [event.what for event in session.events] == ["resumed"]
    session.events.clear()
    attach(session, 3)
    assert subscription.gaps == [AttachmentGap("b1", "b1")] and not subscription.confirmed
    assert [event.what for event in session.events] == ["gap", "attached"]
    attach(session, 4)  # it was not confirmed since: there is nothing more to miss
    assert len(subscription.gaps) == 1


def test_a_gap_is_told_to_who_asked_for_it() -> None:
    _, subscription = reader()
    told: list[AttachmentGap] = []
    subscription.on_gap = told.append
    subscription.gaps.append(AttachmentGap("b1", "b2"))
    subscription.tell_gap()
    assert told == [AttachmentGap("b1", "b2")]
