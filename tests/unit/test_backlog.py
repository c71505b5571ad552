"""A slow subscriber's backlog against the obvious list, and its policies when it is full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grapevine.wire.messages import DISCONNECT, DROP_NEWEST, DROP_OLDEST, Publication
from overlay.clients.backlog import Backlog
from overlay.clients.deliveries import Deliveries
from overlay.links.incoming import Incoming
from overlay.links.settling import Settling

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "take", "drop_oldest", "drop_newest"]), st.integers(0, 6)),
    max_size=30,
)


def publications(first: int, count: int) -> tuple[list[Publication], list[bytes]]:
    numbers = range(first, first + count)
    return [Publication(b"", b"", n) for n in numbers], [n.to_bytes(4, "little") for n in numbers]


@given(STEPS)
def test_is_a_queue_with_two_ends(steps: list[tuple[str, int]]) -> None:
    backlog, model, made = Backlog(), list[int](), 0
    for step, count in steps:
        if step == "append":
            backlog.append(*publications(made, count))
            model += range(made, made + count)
            made += count
        elif step == "take":
            taken, ids = backlog.take(count)
            assert [p.sequence for p in taken] == model[:count]
            assert [int.from_bytes(i, "little") for i in ids] == model[:count]
            del model[:count]
        elif count <= len(model):
            getattr(backlog, step)(count)
            del model[slice(count) if step == "drop_oldest" else slice(len(model) - count, None)]
        assert len(backlog) == len(model)
        assert [p.sequence for p in backlog] == model


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
