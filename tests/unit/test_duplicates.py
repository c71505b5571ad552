"""What a broker remembers of publishers: duplicates, and what came too late for those here."""

from __future__ import annotations

from overlay.data import duplicates
from overlay.data.duplicates import LastSeen

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
    assert [n for n in range(1, 12) if last.missed(SOURCE, n)] == [5, 6, 7, 8]


def test_what_is_sent_again_oldest_first_leaves_no_hole() -> None:
    last = seen(1, 4)
    last.forget(SOURCE)
    assert [last.first(SOURCE, n) for n in (3, 4, 5, 9)] == [False, False, True, True]
    assert not any(last.missed(SOURCE, n) for n in range(12))


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
    last.begin(SOURCE, 6)
    assert [last.first(SOURCE, n) for n in (6, 7)] == [True, True]
    assert not any(last.missed(SOURCE, n) for n in range(12))


def test_what_it_sends_again_behind_newer_ones_is_missed_all_the_same() -> None:
    last = seen(1)
    last.forget(SOURCE)
    assert last.first(SOURCE, 9)
    last.begin(SOURCE, 6)
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
    last = seen(1, 4)
    serials = iter((70, 80))
    last.serial = lambda: next(serials)
    for sequence in (9, 12):
        last.forget(SOURCE)
        assert last.first(SOURCE, sequence)
    assert [last.missed(SOURCE, n) for n in (4, 5, 8, 9, 10, 12)] == [0, 70, 70, 0, 80, 0]
