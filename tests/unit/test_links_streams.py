"""The two halves of a link session by themselves: positions, retention, credit, settling, cuts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.wire import decode, decode_publications, encode, encode_publications
from grapevine.wire.limits import CUTS
from grapevine.wire.messages import CUT_LINK_LOST, RESENT, Cut, Marks, Publication
from overlay.links import outgoing
from overlay.links.incoming import Incoming
from overlay.links.outgoing import Chunk, Outgoing
from overlay.links.settling import CutIndex, Settling, cuts_of


def publication(sequence: int, publisher: int = 1) -> Publication:
    return Publication(b"\x80", b"", sequence, 0, publisher, 9)


def stream(*sequences: int, limit: int = 100) -> Outgoing:
    out = Outgoing()
    out.limit = limit
    out.queue += [publication(n) for n in sequences]
    out.seal()
    return out


def sequences(out: Outgoing) -> list[int]:
    return [p.sequence for chunk in out.take(1000) for p in chunk.publications]


def incoming(window: int = 10) -> Incoming:
    return Incoming(window, lambda: None)


@pytest.fixture(params=["objects", "bytes"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has left stays as it was, or as the bytes it left in."""
    if request.param == "bytes":
        take = Outgoing.take

        def packing(self: Outgoing, most: int) -> Iterator[Chunk]:
            for chunk in take(self, most):
                yield chunk
                chunk.pack(encode_publications(chunk.publications))

        monkeypatch.setattr(Outgoing, "take", packing)


def test_sealed_in_chunks_that_leave_as_they_are() -> None:
    out = Outgoing()
    out.limit = 100
    out.queue += [publication(n) for n in range(1, 6)]
    out.ids += [b"%d" % n for n in range(1, 6)]
    out.seal(2)
    assert [(c.first, c.last, c.ids) for c in out.retained] == [
        (1, 2, [b"1", b"2"]),
        (3, 4, [b"3", b"4"]),
        (5, 5, [b"5"]),
    ]
    assert list(out.take(2)) == list(out.retained) and out.next == 6


def test_bytes_are_read_once_however_many_wait_for_what_is_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost link asks for each wait's publications by themselves."""
    read: list[bytes] = []

    def reading(packed: bytes) -> list[Publication]:
        read.append(packed)
        return decode_publications(packed)

    monkeypatch.setattr(outgoing, "decode_publications", reading)
    out, records = Outgoing(), [Settling(incoming()) for _ in range(5)]
    out.limit = 100
    for sequence, record in enumerate(records, 1):
        out.queue.append(publication(sequence))
        out.hold(record)
    out.seal()
    for chunk in out.take(100):
        chunk.pack(encode_publications(chunk.publications))
    out.give_up()
    assert [record.cuts for record in records] == [[Cut(1, 9, n, n, CUT_LINK_LOST)] for n in range(1, 6)]
    assert len(read) == 1


@pytest.mark.usefixtures("kept")
class TestOutgoing:
    def test_credit_keeps_the_rest_here(self) -> None:
        out = stream(1, 2, 3, 4, 5, limit=3)
        assert sequences(out) == [1, 2, 3]
        assert sequences(out) == []
        assert out.marked(3, 0, 5)
        assert sequences(out) == [4, 5]

    def test_chunks_of_at_most(self) -> None:
        out = stream(1, 2, 3, 4, 5)
        assert [len(chunk.publications) for chunk in out.take(2)] == [2, 2, 1]

    def test_resume_sends_again_after_what_was_received(self) -> None:
        out = stream(1, 2, 3, 4)
        sequences(out)
        out.marked(2, 1, 100)
        out.resume(2, 100)
        again = [p for chunk in out.take(10) for p in chunk.publications]
        assert [p.sequence for p in again] == [3, 4]
        assert not any(p.flags & RESENT for p in again)

    def test_a_greeting_that_claims_more_than_was_sent_skips_nothing(self) -> None:
        out = stream(1, 2, 3, limit=2)
        sequences(out)
        out.resume(50, 100)
        assert out.sent == 2 and sequences(out) == [3]
        out.queue.append(publication(4))
        out.seal()
        assert sequences(out) == [4]

    def test_new_epoch_sends_everything_unsettled_marked_as_sent_before(self) -> None:
        out = stream(1, 2, 3, limit=2)
        sequences(out)
        out.marked(2, 1, 2)
        out.new_epoch(100)
        chunks = list(out.take(10))
        assert chunks[0].first - out.base == 1
        again = [p for chunk in chunks for p in chunk.publications]
        assert [(p.sequence, bool(p.flags & RESENT)) for p in again] == [(2, True), (3, False)]

    def test_marks_that_claim_too_much_are_refused(self) -> None:
        out = stream(1, 2)
        sequences(out)
        assert not out.marked(3, 0, 100)
        assert not out.marked(1, 2, 100)
        assert out.settled == 0

    def test_given_up_positions_are_cut_for_the_records_that_wait(self) -> None:
        source = incoming()
        source.take(1, 3)
        out = stream()
        record = Settling(source)
        out.queue += [publication(7), publication(8), publication(9)]
        out.hold(record)
        source.settle_after(record)
        out.seal()
        sequences(out)
        out.marked(1, 1, 100)
        assert source.settled == 0
        out.give_up()
        assert source.settled == 3
        assert source.cuts == [Cut(1, 9, 8, 9, CUT_LINK_LOST)]

    def test_a_peers_cuts_go_to_the_record_they_belong_to(self) -> None:
        first, second = incoming(), incoming()
        out = stream()
        for source, sequence in ((first, 1), (second, 2)):
            source.take(1, 1)
            record = Settling(source)
            out.queue.append(publication(sequence))
            out.hold(record)
            source.settle_after(record)
        out.seal()
        sequences(out)
        out.cut_by((Cut(1, 9, 2, 2, CUT_LINK_LOST),), 2)
        out.marked(2, 2, 100)
        assert (first.settled, first.cuts) == (1, [])
        assert (second.settled, second.cuts) == (1, [Cut(1, 9, 2, 2, CUT_LINK_LOST)])

    def test_cuts_in_several_frames_count_when_the_mark_moves(self) -> None:
        source, out = incoming(), stream()
        source.take(1, 3)
        record = Settling(source)
        out.queue += [publication(n) for n in (1, 2, 3)]
        out.hold(record)
        source.settle_after(record)
        out.seal()
        sequences(out)
        assert out.cut_by((Cut(1, 9, 1, 1, CUT_LINK_LOST),), 0, 1)
        assert out.marked(3, 0, 100) and not record.cuts
        assert out.cut_by((Cut(1, 9, 3, 3, CUT_LINK_LOST),), 3)
        assert out.marked(3, 3, 100)
        assert [(c.first, c.last) for c in source.cuts] == [(1, 1), (3, 3)]

    def test_a_peer_that_cuts_more_than_there_is_is_not_believed(self) -> None:
        out = stream(1, 2)
        sequences(out)
        endless = tuple(Cut(n, 9, 1, 1, CUT_LINK_LOST) for n in range(CUTS))
        assert out.cut_by(endless, 0, CUTS)
        assert not out.cut_by(endless, 0, 2 * CUTS)
        assert not out.cuts


class TestIncoming:
    def test_repeated_positions_are_dropped_by_their_number(self) -> None:
        source = incoming()
        assert source.take(1, 3) == 0
        assert source.take(2, 3) == 2
        assert source.received == 4
        assert source.take(1, 2) == 2
        assert source.received == 4

    def test_a_gap_or_too_much_is_a_disagreement(self) -> None:
        source = incoming(window=3)
        assert source.take(2, 1) == -1
        assert source.take(1, 4) == -1
        assert source.take(1, 3) == 0

    def test_the_mark_passes_in_order_only(self) -> None:
        source = incoming()
        early, late = Settling(source), Settling(source)
        for record in (early, late):
            source.take(source.received + 1, 2)
            record.pending = 1
            source.settle_after(record)
        late.release()
        assert source.settled == 0
        early.release()
        assert source.settled == 4

    def test_what_waits_for_nothing_does_not_overtake(self) -> None:
        source = incoming()
        source.take(1, 1)
        waiting = Settling(source)
        waiting.pending = 1
        source.settle_after(waiting)
        source.take(2, 1)
        source.settle_after(Settling(source))
        assert source.settled == 0
        waiting.release()
        assert source.settled == 2

    def test_cuts_are_repeated_until_they_were_seen(self) -> None:
        source = incoming()
        source.take(1, 2)
        record = Settling(source)
        record.cuts = cuts_of([publication(1), publication(2), publication(5)], CUT_LINK_LOST)
        source.settle_after(record)
        marks = source.marks(1, 0)
        assert [(c.first, c.last) for c in marks.cuts] == [(1, 2), (5, 5)]
        source.cuts_taken(1)
        again = source.marks(1, 0)
        assert ([c.first for c in again.cuts], again.cuts_first) == ([5], 1)

    def test_more_cuts_than_a_frame_holds_go_one_frame_after_the_other(self) -> None:
        """They were listed all at once before: no peer could decode the marks, and none the greeting that
        was to resume the session."""
        source = incoming(window=2 * CUTS + 10)
        source.take(1, 2 * CUTS + 4)
        record = Settling(source)
        record.cuts = cuts_of([publication(2 * n) for n in range(1, 2 * CUTS + 3)], CUT_LINK_LOST)
        source.settle_after(record)
        told: list[Cut] = []
        while source.settled < source.received or source.cuts:
            marks = decode(encode(source.marks(1, 0)))
            assert isinstance(marks, Marks) and marks.cuts_first == len(told)
            told += marks.cuts
            whole = len(told) == 2 * CUTS + 2
            assert (marks.settled, marks.cuts_open) == ((source.received, 0) if whole else (0, len(told)))
            source.cuts_taken(len(told))
        assert [c.first for c in told] == [2 * n for n in range(1, 2 * CUTS + 3)]

    def test_a_peer_that_never_takes_its_cuts_stops_at_its_credit(self) -> None:
        source = incoming(window=CUTS)
        for n in range(1, 3 * CUTS):
            if source.take(n, 1) < 0:
                break
            record = Settling(source)
            record.cuts = cuts_of([publication(2 * n)], CUT_LINK_LOST)
            source.settle_after(record)
        assert (source.settled, source.received, len(source.cuts)) == (CUTS, 2 * CUTS, CUTS)
        source.list_all()  # nobody is left to take them
        assert source.settled == 2 * CUTS and not source.records

    def test_a_new_epoch_orphans_the_old_records(self) -> None:
        source = incoming()
        source.take(1, 1)
        record = Settling(source)
        record.pending = 1
        source.settle_after(record)
        source.new_epoch()
        record.release()
        assert (source.received, source.settled) == (0, 0)


CUT_LISTS = st.lists(
    st.builds(
        lambda publisher, first, length, reason: Cut(publisher, 9, first, first + length, reason),
        st.integers(1, 2),
        st.integers(1, 30),
        st.integers(0, 9),
        st.integers(1, 3),
    )
)


class TestCuts:
    @given(CUT_LISTS, st.integers(1, 2), st.integers(1, 40))
    def test_an_index_knows_what_some_cut_names(self, cuts: list[Cut], publisher: int, sequence: int) -> None:
        reasons = {c.reason for c in cuts if c.publisher == publisher and c.first <= sequence <= c.last}
        found = CutIndex(cuts).reason(publication(sequence, publisher))
        assert found in reasons if reasons else found is None

    @given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9))))
    def test_ranges_name_what_was_given_and_nothing_else(self, given: list[tuple[int, int]]) -> None:
        cuts = cuts_of([publication(sequence, publisher) for publisher, sequence in given], CUT_LINK_LOST)
        named = [(c.publisher, sequence) for c in cuts for sequence in range(c.first, c.last + 1)]
        assert sorted(named) == sorted(given)

    def test_publishers_that_take_turns_are_one_range_each(self) -> None:
        turns = [publication(n, publisher) for n in range(1, 50) for publisher in (1, 2, 3)]
        assert [(c.first, c.last) for c in cuts_of(turns, CUT_LINK_LOST)] == [(1, 49)] * 3


def test_over_its_bytes_nothing_more_leaves_until_some_are_settled() -> None:
    """Resent after a break all the same: what has to leave again is not under way."""
    out = Outgoing(1_000)
    out.limit = 100
    for n in range(1, 5):
        out.queue.append(Publication(b"\x80", bytes(400), n, 0, 1, 9))
        out.seal()
        if not out.still_heavy:
            for chunk in out.take(10):
                chunk.pack(encode_publications(chunk.publications))
    assert out.sent == 3 and out.sendable and out.heavy
    assert out.marked(3, 0, 100) and out.still_heavy, "received is not settled"
    assert out.marked(3, 1, 100) and not out.still_heavy
    assert sequences(out) == [4]
    out.new_epoch(100)
    assert not out.still_heavy and sequences(out) == [2, 3, 4]
    out.forget()
    assert out.weight() == 0


def test_who_waits_for_a_position_hears_once_that_it_is_settled_or_given_up() -> None:
    out, heard = Outgoing(), []
    out.when_settled(lambda: heard.append("nothing to wait for"))
    assert heard == ["nothing to wait for"]
    out.queue += [Publication(b"\x80", b"", n) for n in (1, 2)]
    out.when_settled(lambda: heard.append("two"))
    out.seal()
    out.queue.append(Publication(b"\x80", b"", 3))
    out.when_settled(lambda: heard.append("three"))
    out.seal()
    out.limit = 3
    assert [chunk.last for chunk in out.take(10)] == [2, 3]
    assert out.marked(2, 1, 10)
    assert heard[1:] == []
    assert out.marked(3, 2, 10)
    assert heard[1:] == ["two"]
    out.give_up()
    assert heard[1:] == ["two", "three"]
