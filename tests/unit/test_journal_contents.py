"""Custody, streams and cursors against brute force, and the fold: what an index says is what a scan says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grapevine.filters import parse
from overlay.journal.bodies import (
    Advert,
    CursorBody,
    PubsHead,
    Run,
    Settled,
    StreamBody,
    TopicsHead,
    Wanted,
    bits_of,
    decode_head,
    encode_body,
    encode_pubs,
    indexes,
    publications_of,
)
from overlay.journal.contents import Contents, cursor_body
from overlay.journal.cursor import Cursor
from overlay.journal.custody import Custody, Held
from overlay.journal.record import ADVERT, CURSOR, HOLE, PUBS, SETTLED, STREAM
from overlay.journal.stream_log import LOST, StreamLog

EVERYTHING = parse("class = 'STOCK'")


# --- streams -------------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just("lose_to"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("trim"), st.integers(0, 12), st.just(0)),
    st.tuples(st.just("lose"), st.integers(1, 30), st.integers(0, 6)),
    st.tuples(st.just("trim_before"), st.integers(1, 40), st.just(0)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_stream_log_is_a_list_of_positions(steps: list[tuple[str, int, int]]) -> None:
    log, plain, first, at = StreamLog(), {}, 1, 1  # type: ignore[var-annotated]
    for step, one, two in steps:
        end = max(plain, default=first - 1) + 1
        if step == "append":
            at += two
            assert log.append(at, one) == end
            plain.update({end + index: at + index for index in range(one)})
            at += one
        elif step == "lose_to":
            log.lose_to(end + one)
            plain.update({end + index: LOST for index in range(one)})
        elif step == "trim":
            log.trim(one)
            first = max(first, min(one, end))
        elif step == "trim_before":
            log.trim_before(one)
            first = next((o for o in range(first, end) if plain[o] != LOST and plain[o] >= one), end)
        else:
            gaps = log.lose(one, one + two)
            lost = [o for o in range(first, end) if one <= plain[o] <= one + two and plain[o] != LOST]
            assert [o for low, high in gaps for o in range(low, high + 1)] == lost
            plain.update(dict.fromkeys(lost, LOST))
        plain = {offset: position for offset, position in plain.items() if offset >= first}
        end = max(plain, default=first - 1) + 1
        assert (log.first, log.next) == (first, end)
        said = {}
        for piece in log.pieces(0, end + 5):
            for index in range(piece.items):
                said[piece.offset + index] = piece.position + index if piece.position != LOST else LOST
        assert said == plain
        living = [position for position in plain.values() if position != LOST]
        assert log.oldest() == (living[0] if living else None)


def test_a_stream_that_keeps_everything_costs_nothing_a_message() -> None:
    log = StreamLog()
    for position in range(1, 1001):
        log.append(position)
    assert len(log._offsets) == 1 and log.position(1000) == 1000


# --- cursors -------------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("tanwed"), st.integers(1, 12)), max_size=40))
def test_cursor_delivers_until_acknowledged(steps: list[tuple[str, int]]) -> None:
    """Every offset is acknowledged, parked, under way, waiting to come again, or not delivered yet."""
    cursor, now, most = Cursor(), 0.0, 3
    acknowledged: set[int] = set()
    delivered: dict[int, int] = {}
    for step, number in steps:
        now += 1.0
        if step == "t":
            for offset in cursor.take(13, number, now, 5.0, 6):
                assert offset not in acknowledged and offset not in cursor.parked
                delivered[offset] = delivered.get(offset, 0) + 1
                assert cursor.redelivered(offset) == (delivered[offset] > 1)
                assert delivered[offset] <= most
            assert len(cursor.due) <= 6
        elif step == "a" and number in delivered and number not in cursor.parked:
            cursor.acknowledge(number)
            acknowledged.add(number)
        elif step == "n":
            cursor.refuse(number, now + 1)
            cursor.park(most)
        elif step == "w":
            cursor.working(number, now + 50)
        elif step == "e":
            cursor.expire(now, most)
        elif step == "d":
            cursor.detach(now)
            cursor.park(most)
        waiting = {offset for _, offset in cursor._again}
        for offset in range(1, 13):
            known = offset in acknowledged or offset in cursor.parked
            assert known or offset in cursor.due or offset in waiting or offset >= cursor.next
        done = set(range(1, cursor.acknowledged + 1)) | cursor.exceptions
        assert done == acknowledged | {o for o in cursor.parked if o <= cursor.acknowledged}


def test_cumulative_acknowledgement_and_what_was_read_by_range() -> None:
    cursor = Cursor()
    assert cursor.take(10, 5, 0.0, 30.0, 100) == [1, 2, 3, 4, 5]
    assert cursor.acknowledge_to(7)
    assert cursor.acknowledged == 7 and not cursor.due
    assert cursor.take(10, 5, 0.0, 30.0, 100) == [8, 9]
    assert not cursor.acknowledge(10)  # one by one nobody acknowledges what was never sent


def test_what_was_under_way_comes_again_in_order() -> None:
    cursor = Cursor()
    cursor.take(10, 5, 0.0, 30.0, 100)
    cursor.acknowledge(2)
    cursor.detach(1.0)
    assert cursor.take(10, 9, 1.0, 30.0, 100) == [1, 3, 4, 5, 6, 7, 8, 9]
    assert cursor.redelivered(3) and not cursor.redelivered(6)


# --- custody -------------------------------------------------------------------------------------------


def test_custody_is_freed_by_number_and_names_what_is_needed() -> None:
    custody, source, other = Custody(), (1, 2), (3, 4)
    custody.take(source, Held(10, 5, 1, 5))
    custody.take(other, Held(15, 1, 1, 1))
    custody.take(source, Held(16, 2, 6, 7))
    assert custody.oldest() == 10 and custody.items == 8
    assert custody.settle(source, 4) and custody.oldest() == 10  # a piece goes as a whole
    assert custody.settle(source, 5) and custody.oldest() == 15
    assert not custody.settle(source, 5)
    custody.take(source, Held(20, 1, 5, 5))  # came again
    assert custody.items == 3
    assert custody.lose(15, 16) == [(source, Held(16, 2, 6, 7)), (other, Held(15, 1, 1, 1))]
    assert custody.oldest() is None and custody.items == 0


# --- the fold ------------------------------------------------------------------------------------------


def stream(number: int = 1) -> bytes:
    return encode_body(StreamBody(number, "quotes", 1, EVERYTHING, "key", "acked", 0.0, 0))


def pubs(wanted: list[Wanted], first: int = 1, items: int = 4, held: bool = True) -> bytes:
    return encode_pubs(PubsHead([Run(7, 8, first, first + items - 1, 0, items, held)], wanted), b"content")


@given(st.integers(1, 40), st.data())
def test_bit_lists(items: int, data: st.DataObject) -> None:
    wanted = sorted(data.draw(st.sets(st.integers(0, items - 1), min_size=1)))
    assert indexes(bits_of(wanted, items), items) == wanted


def test_fold_of_publications() -> None:
    contents = Contents()
    contents.take(STREAM, 1, 1, stream())
    contents.take(CURSOR, 2, 1, encode_body(CursorBody(1, "orders", "key", 0)))
    body = pubs([Wanted(1, 1, bits_of([1, 3], 4))])
    assert decode_head(body).wanted[0].offset == 1 and bytes(publications_of(body)) == b"content"
    contents.take(PUBS, 3, 4, body)
    log = contents.streams[1].log
    assert [(piece.offset, piece.position) for piece in log.pieces(1, 9)] == [(1, 4), (2, 6)]
    assert contents.sources == {(7, 8): 4} and contents.custody.oldest() == 3 and contents.needed(99) == 3
    contents.take(SETTLED, 7, 1, encode_body(Settled([(7, 8, 4)])))
    contents.finish()
    assert contents.needed(99) == 4  # the stream's
    contents.streams[1].cursors["orders"][1].take(9, 9, 0.0, 1.0, 9)
    contents.streams[1].cursors["orders"][1].acknowledge_to(2)
    contents.trim_acknowledged()
    assert contents.needed(99) == 99 and log.next == 3


def test_offsets_are_never_given_twice_although_a_record_is_lost() -> None:
    contents = Contents()
    contents.take(STREAM, 1, 1, stream())
    contents.take(HOLE, 2, 4, b"")
    contents.take(PUBS, 6, 4, pubs([Wanted(1, 5)]))
    pieces = list(contents.streams[1].log.pieces(1, 99))
    assert [(p.offset, p.position, p.items) for p in pieces] == [(1, LOST, 4), (5, 6, 4)]
    assert contents.lost == [(2, 5)]


def test_nor_are_those_that_a_cursor_has_given() -> None:
    """What comes next would have an offset that its reader has acknowledged, and never be given to it."""
    contents = Contents()
    contents.take(STREAM, 1, 1, stream())
    contents.take(HOLE, 2, 4, b"")
    contents.take(CURSOR, 6, 1, encode_body(CursorBody(1, "orders", "key", 2, exceptions=[4])))
    assert contents.streams[1].log.next == 5
    contents.take(CURSOR, 7, 1, encode_body(CursorBody(1, "orders", "key", 2, exceptions=[4], parked=[5])))
    assert contents.streams[1].log.next == 6


def test_where_topics_have_an_order_their_last_numbers_are_kept() -> None:
    """One of a second topic may come after a later one of the first: that says nothing of it."""
    contents = Contents()
    contents.take(STREAM, 1, 1, stream())
    head = TopicsHead([Run(7, 8, 5, 9, 0, 4, False)], [Wanted(1, 1)], [(7, 8, 1, 9), (7, 8, 2, 6)])
    contents.take(PUBS, 2, 4, encode_pubs(head, b"content"))
    contents.take(PUBS, 6, 1, encode_pubs(head, b"content"))
    assert contents.sources == {(7, 8, 1): 9, (7, 8, 2): 6} and contents.unnamed == {7}
    again = Contents()
    for kind, body in contents.checkpoint():
        again.take(kind, 0, 1, body)
    assert again.sources == contents.sources


def test_checkpoint_says_everything_but_the_places() -> None:
    contents = Contents()
    contents.take(STREAM, 1, 1, stream())
    contents.take(CURSOR, 2, 1, encode_body(CursorBody(1, "orders", "key", 0)))
    contents.take(ADVERT, 3, 1, encode_body(Advert(7, 8, "quotes", [EVERYTHING], EVERYTHING)))
    contents.take(PUBS, 4, 4, pubs([Wanted(1, 1)]))
    contents.take(PUBS, 8, 4, pubs([Wanted(1, 5)], first=5))
    contents.take(SETTLED, 12, 1, encode_body(Settled([(7, 8, 4)])))
    cursor = contents.streams[1].cursors["orders"][1]
    cursor.take(9, 6, 0.0, 1.0, 9)
    for offset in (1, 2, 4):
        cursor.acknowledge(offset)
    again = Contents()
    for kind, body in contents.checkpoint():
        again.take(kind, 0, 1, body)
    assert again.sources == contents.sources and again.adverts == contents.adverts
    body = cursor_body(again.streams[1], "orders")
    assert (body.acknowledged, body.exceptions) == (2, [4])
    assert again.streams[1].log.next == 9
    again.take(PUBS, 8, 4, pubs([Wanted(1, 5)], first=5))
    again.finish()
    contents.finish()
    assert again.custody.held == contents.custody.held
