"""What a broker remembers of publishers: duplicates, and what came too late for those here."""

from __future__ import annotations

import pytest

from grapevine.filters import EVERYTHING
from grapevine.wire import identify
from grapevine.wire.messages import (
    RESENT,
    Advertise,
    Advertisement,
    Batch,
    ClientSubscribe,
    ClientUnsubscribe,
    Confirmed,
    Deliver,
    Publication,
    Subscribe,
)
from overlay.data import duplicates, skipped
from overlay.data.duplicates import LastSeen
from overlay.links.session import Kind
from tests.one_broker import BODY, attach, between

SOURCE = (1, 2)


def seen(*sequences: int) -> LastSeen:
    last = LastSeen()
    last.remembers = True
    for sequence in sequences:
        assert last.first(SOURCE, sequence)
    return last


def test_what_lies_between_is_missed_by_one_that_has_come_back() -> None:
    last = seen(1, 4)
    last.forget(SOURCE)
    assert last.first(SOURCE, 9)
    assert [last.first(SOURCE, n) for n in (4, 5, 8, 9)] == [False] * 4
    assert [n for n in range(1, 12) if last.missed(SOURCE, n)] == [2, 3, 5, 6, 7, 8]


def test_what_is_sent_again_oldest_first_leaves_no_hole() -> None:
    last = seen(1, 4)
    last.forget(SOURCE)
    assert [last.first(SOURCE, n) for n in (3, 4, 5, 9)] == [False, False, True, True]
    assert [n for n in range(12) if last.missed(SOURCE, n)] == [2, 3, 6, 7, 8]


def test_a_hole_outlives_the_next_loss() -> None:
    last = seen(1)
    for sequence in (5, 9):
        last.forget(SOURCE)
        assert last.first(SOURCE, sequence)
    assert [n for n in range(1, 12) if last.missed(SOURCE, n)] == [2, 3, 4, 6, 7, 8]


def test_where_a_publisher_begins_itself_what_is_older_was_not_missed() -> None:
    """It sends again whatever is not settled: older ones come from custody that a crash has brought back."""
    last = seen(1)
    last.forget(SOURCE)
    last.begin(SOURCE, 6, True)
    assert [last.first(SOURCE, n) for n in (6, 7)] == [True, True]
    assert not any(last.missed(SOURCE, n) for n in range(12))


def test_what_it_sends_again_behind_newer_ones_is_missed_all_the_same() -> None:
    last = seen(1)
    last.forget(SOURCE)
    assert last.first(SOURCE, 9)
    last.begin(SOURCE, 6, True)
    assert [n for n in range(1, 12) if last.missed(SOURCE, n)] == [6, 7, 8]


def test_so_many_are_remembered_and_no_more() -> None:
    last = seen(1)
    for publisher in range(duplicates.GONE + 10):
        last.first((publisher, 0), 7)
        last.forget((publisher, 0))
    assert len(last.gone) == duplicates.GONE
    assert last.first((0, 0), 7) and not last.first((duplicates.GONE, 0), 7)


def test_without_sides_that_come_back_a_publisher_is_forgotten_with_its_advertisement() -> None:
    last = LastSeen()
    assert last.first(SOURCE, 4)
    last.forget(SOURCE)
    assert last.first(SOURCE, 2)


def test_a_hole_says_when_it_was_made_so_that_later_subscriptions_are_owed_nothing_of_it() -> None:
    last = seen(1, 2, 3, 4)
    for sequence, when in ((9, 70), (12, 80)):
        last.now = lambda when=when: when
        last.forget(SOURCE)
        assert last.first(SOURCE, sequence)
    assert [last.missed(SOURCE, n) for n in (4, 5, 8, 9, 10, 12)] == [0, 70, 70, 0, 80, 0]


def publication(sequence: int, flags: int = 0) -> Publication:
    return Publication(BODY, b"", sequence, flags, *SOURCE)


def test_what_a_run_leaves_out_was_never_here() -> None:
    last = seen(1)
    last.skip(SOURCE, 1, [publication(n) for n in (3, 4, 7)])
    last.last[SOURCE] = 7
    last.skip(SOURCE, 7, [publication(n) for n in (8, 10)])
    assert [n for n in range(12) if last.missed(SOURCE, n)] == [2, 5, 6, 9]


def test_what_is_older_than_the_first_that_was_met_was_never_here() -> None:
    last = seen()
    last.skip(SOURCE, 0, [publication(n) for n in (5, 7)])
    assert [n for n in range(10) if last.missed(SOURCE, n)] == [1, 2, 3, 4, 6]
    assert [n for n in range(10) if seen(5, 7).missed(SOURCE, n)] == [1, 2, 3, 4, 6]
    assert not seen(1, 2).skipped and not seen(1, 2).missed(SOURCE, 0)


def test_what_was_met_first_says_when_and_is_remembered_for_so_long() -> None:
    last = seen()
    last.now = lambda: 70
    assert last.first(SOURCE, 2 * skipped.UNSETTLED)
    assert last.missed(SOURCE, skipped.UNSETTLED) == 70 and not last.missed(SOURCE, skipped.UNSETTLED - 1)
    last.skipped.forget(SOURCE)
    assert not last.missed(SOURCE, skipped.UNSETTLED)


def test_where_it_is_met_first_and_begins_itself_it_has_missed_nothing() -> None:
    last = seen()
    last.begin(SOURCE, 6, True)
    assert [last.first(SOURCE, n) for n in (5, 6)] == [False, True]
    assert not any(last.missed(SOURCE, n) for n in range(12))
    last = seen(9)
    last.begin(SOURCE, 6, True)
    assert [n for n in range(1, 12) if last.missed(SOURCE, n)] == [6, 7, 8]
    last.begin(SOURCE, 9, True)
    assert not last.skipped


def test_nothing_is_kept_of_one_that_begins_and_has_not_advertised() -> None:
    last = seen()
    last.begin(SOURCE, 6, False)
    assert not last.last


def test_a_number_far_ahead_costs_so_much_and_no_more() -> None:
    last = seen(1)
    assert last.first(SOURCE, 1 << 60)
    assert not last.missed(SOURCE, 5) and last.missed(SOURCE, (1 << 60) - skipped.UNSETTLED + 1)


def test_what_is_older_than_anybody_may_have_unsettled_is_forgotten() -> None:
    last = seen(1)
    for sequence in range(3, 6 * skipped.UNSETTLED, 1001):
        assert last.first(SOURCE, sequence)
    spans = last.skipped._spans[SOURCE]
    assert not last.missed(SOURCE, 4) and len(spans) <= 2 * skipped.UNSETTLED // skipped.SPAN + 33
    assert last.missed(SOURCE, last.last[SOURCE] - skipped.UNSETTLED)


@pytest.mark.parametrize(
    ("came", "asked_late", "cut"),
    [([1, 3], False, [2]), ([1, 3], True, []), ([3], False, [1, 2]), ([3], True, [])],
)
def test_one_that_newer_ones_have_overtaken_is_told_when_it_is_sent_again(
    came: list[int], asked_late: bool, cut: list[int]
) -> None:
    """Its first copy was lost where a way had changed, and its publisher's broker with the word of that."""
    broker = between("other", "writer")
    there = identify("writer")
    broker.say(2, Advertise(1, Advertisement(there, 1, there, "writer", *SOURCE, "quotes", EVERYTHING)))
    broker.link(3, Kind.CLIENT, attach("reader"), ClientSubscribe(1, 1, EVERYTHING))
    broker.say(2, *(Confirmed(m.stamp) for m in broker.told[2] if isinstance(m, Subscribe)))
    broker.say(2, Batch(9, 1, 0, 0, 100, [publication(n) for n in came]))
    if asked_late:
        broker.link(4, Kind.CLIENT, attach("late"), ClientSubscribe(1, 1, EVERYTHING))
        broker.say(3, ClientUnsubscribe(2, 1))
    broker.say(2, Batch(9, 1 + len(came), 0, 0, 100, [publication(n, RESENT) for n in (1, 2, 3)]))
    delivered = [p.sequence for b in broker.batches if isinstance(b, Deliver) for p in b.publications]
    assert delivered == came
    incoming = broker.core.peers[there].incoming
    told = [
        n for record in incoming.records for each in record.cuts for n in range(each.first, each.last + 1)
    ]
    assert told == cut


def test_who_is_not_confirmed_yet_is_owed_nothing() -> None:
    """What passes on its way to others was accepted before all brokers knew of it."""
    broker = between("other", "writer")
    there = identify("writer")
    broker.say(2, Advertise(1, Advertisement(there, 1, there, "writer", *SOURCE, "quotes", EVERYTHING)))
    broker.link(3, Kind.CLIENT, attach("reader"), ClientSubscribe(1, 1, EVERYTHING))
    broker.say(2, Batch(9, 1, 0, 0, 100, [publication(1), publication(3), publication(2)]))
    assert not any(record.cuts for record in broker.core.peers[there].incoming.records)
