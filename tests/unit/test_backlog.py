"""A slow subscriber's backlog against the obvious list, and its policies when it is full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from grapevine.wire.messages import DISCONNECT, DROP_NEWEST, DROP_OLDEST, Publication
from overlay.data.backlog import Backlog, weigh
from overlay.data.deliveries import Deliveries
from overlay.links.incoming import Incoming
from overlay.links.settling import Settling

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "take", "take bytes", "drop oldest", "drop newest", "shed oldest", "shed newest"]
        ),
        st.integers(0, 6),
    ),
    max_size=30,
)
PLENTY = 1 << 40


def publications(first: int, count: int) -> tuple[list[Publication], list[bytes]]:
    numbers = range(first, first + count)
    made = [Publication(b"", bytes(n % 5 * 100), n) for n in numbers]
    return made, [n.to_bytes(4, "little") for n in numbers]


def least(model: list[int], size: int) -> int:
    """So many of the first have `size` bytes together, or all of them."""
    count = 0
    while size > 0 and count < len(model):
        size -= weigh([Publication(b"", bytes(model[count] % 5 * 100), 0)])
        count += 1
    return count


@given(STEPS)
def test_is_a_queue_with_two_ends(steps: list[tuple[str, int]]) -> None:
    backlog, model, made = Backlog(), list[int](), 0
    for step, count in steps:
        if step == "append":
            backlog.append(*publications(made, count))
            model += range(made, made + count)
            made += count
        elif step == "take":
            taken, ids = backlog.take(count, PLENTY)
            assert [p.sequence for p in taken] == model[:count]
            assert [int.from_bytes(i, "little") for i in ids] == model[:count]
            del model[:count]
        elif step == "take bytes":
            taken, _ = backlog.take(100, count * 200)
            assert [p.sequence for p in taken] == model[: least(model, count * 200)]
            del model[: len(taken)]
        elif step.startswith("shed"):
            newest = step == "shed newest"
            gone = least(model[::-1] if newest else model, count * 200)
            assert backlog.drop_bytes(count * 200, newest) == gone
            del model[slice(len(model) - gone, None) if newest else slice(gone)]
        elif count <= len(model):
            backlog.drop(count, step == "drop newest")
            del model[slice(count) if step == "drop oldest" else slice(len(model) - count, None)]
        assert len(backlog) == len(model)
        assert backlog.size == weigh(list(backlog))
        assert [p.sequence for p in backlog] == model


def test_equal_lists_of_several_backlogs_are_weighed_once() -> None:
    """A reader that stops costs the others next to nothing, thirty of them as well."""
    slow = [Backlog() for _ in range(3)]
    many, ids = publications(0, 6)
    for backlog in slow:
        backlog.append(many.copy(), ids)
        backlog.drop(2, newest=False)
    assert len({id(piece.whole) for backlog in slow for piece in backlog._pieces}) == 1
    other = Backlog()
    other.append(many[1:], ids[1:])
    assert other.size == weigh(many[1:])


def full(on_slow: int) -> Deliveries:
    """Credit for two, room for three, seven to deliver."""
    deliveries = Deliveries(on_slow, 3)
    deliveries.limit = 2
    deliveries.queue, deliveries.ids = publications(1, 7)
    deliveries.seal()
    return deliveries


def test_the_oldest_or_the_newest_go() -> None:
    for policy, kept in ((DROP_OLDEST, [5, 6, 7]), (DROP_NEWEST, [3, 4, 5])):
        deliveries = full(policy)
        assert [p.sequence for p in deliveries.backlog] == kept
        assert deliveries.dropped == 2 and not deliveries.overrun
        assert [p.sequence for chunk in deliveries.take(10) for p in chunk.publications] == [1, 2]


def test_or_the_subscriber() -> None:
    assert full(DISCONNECT).overrun


def test_bytes_apply_as_the_number_does() -> None:
    """What is under way counts twice, since the transport copies it."""
    big = [Publication(b"", bytes(1_000_000), n) for n in range(1, 31)]
    for policy in (DROP_OLDEST, DROP_NEWEST):
        deliveries = Deliveries(policy, 1000, 10_000_000)
        deliveries.limit = 1000
        deliveries.queue, deliveries.ids = big[:1], [b""]
        deliveries.seal()
        (chunk,) = deliveries.take(10)
        chunk.pack(Raw(bytes(1_250_000)))
        deliveries.weigh()
        assert deliveries.limit == 1, "an eighth is under way: what comes waits"
        deliveries.queue, deliveries.ids = big[1:], [b""] * 29
        deliveries.seal()
        left = [p.sequence for p in deliveries.backlog]
        assert left == ([*range(24, 31)] if policy == DROP_OLDEST else [*range(2, 9)])
        assert deliveries.backlog.size + 2 * deliveries.weight() <= 10_000_000
        assert deliveries.dropped == 29 - len(left)
        assert deliveries.marked(1, 1, 1000)
        deliveries.seal()
        assert [p.sequence for chunk in deliveries.take(10) for p in chunk.publications] == left[:2]


def test_what_waits_in_the_backlog_holds_nobody() -> None:
    """DECISIONS 2: only what is in flight does."""
    deliveries = Deliveries(DROP_OLDEST, 10)
    deliveries.limit = 2
    in_flight, waiting = Settling(Incoming(10, lambda: None)), Settling(Incoming(10, lambda: None))
    for record, first in ((in_flight, 1), (waiting, 4)):
        more, ids = publications(first, 3)
        deliveries.queue += more
        deliveries.ids += ids
        deliveries.hold(record)
        deliveries.seal()
        list(deliveries.take(10))
    assert (in_flight.pending, waiting.pending) == (1, 0)
