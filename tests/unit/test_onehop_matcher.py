"""A matcher's sets, a publisher's stage, packed clients: the parts under the one-hop overlay."""

from __future__ import annotations

from struct import pack
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grapevine.filters import Filter, parse
from grapevine.filters.evaluate import matches
from grapevine.wire.messages import Publication
from grapevine.wire.onehop import Placement, Registered, Span
from matching.index import Index
from matching.scan import Scan
from overlay.links.incoming import Incoming
from overlay.links.settling import Settling
from overlay.onehop.packed import pack_clients, unpack_clients
from overlay.onehop.sets import Sets
from overlay.onehop.stage import Group, Slot, Stage
from tests.strategies import attributes, filters

DIMENSIONS = ("a", "b")
WHOLE = ((Span(),), (Span(),))
HOME = 7


def sets(segments: Any = WHOLE, make: Any = Scan) -> Sets:
    made = Sets(DIMENSIONS, make)
    made.set_segments(segments)
    made.link_up(HOME, 1)
    return made


def place(held: Sets, serial: int, form: Filter, client: int = 1) -> None:
    held.place(HOME, Placement(serial, client, serial, form))


def found(held: Sets, dimension: int, content: Any) -> set[tuple[int, int]]:
    """(client, label) of every match."""
    pairs = set()
    for home in held.match(dimension, [(0, content)]):
        for client, labels in unpack_clients(home.clients[0]):
            pairs |= {(client, int.from_bytes(labels[n : n + 4], "little")) for n in range(0, len(labels), 4)}
    return pairs


@given(st.lists(filters(), max_size=6), st.lists(attributes(), max_size=6))
def test_every_set_finds_what_brute_force_finds(forms: list[Filter], contents: list[dict[str, Any]]) -> None:
    held = sets(make=Index)
    for serial, form in enumerate(forms, 1):
        place(held, serial, form, client=serial % 3)
    for content in contents:
        wanted = {(n % 3, n) for n, form in enumerate(forms, 1) if matches(form, content)}
        assert found(held, 0, content) == found(held, 1, content) == wanted
    held.validate()


def test_a_copy_is_in_the_sets_whose_segments_it_meets() -> None:
    held = sets(((Span(None, 10),), (Span(20, None),)))
    place(held, 1, parse("a > 5 and b < 10"))
    place(held, 2, parse("a > 50 and b > 30"))
    place(held, 3, parse("a > 50 and b < 10"))
    assert held.sizes() == [1, 1]
    held.validate()


def test_what_is_not_placed_again_goes_with_the_next_registration() -> None:
    held = sets()
    place(held, 1, parse("a = 1"))
    place(held, 2, parse("a = 1"))
    held.filled(HOME, 1, 10)
    assert held.registered(1) == (Registered(HOME, 10),) and held.registered(2) == ()
    held.link_up(HOME, 1)
    place(held, 2, parse("a = 1"))
    assert found(held, 0, {"a": 1}) == {(1, 1), (1, 2)}, (
        "the last registration stands until the next is filled"
    )
    held.filled(HOME, 1, 11)
    assert found(held, 0, {"a": 1}) == {(1, 2)} and held.registered(1) == (Registered(HOME, 11),)
    held.validate()


def test_a_home_that_lived_again_has_nothing_here() -> None:
    held = sets()
    place(held, 1, parse("a = 1"))
    held.link_up(HOME, 2)
    assert not found(held, 0, {"a": 1}) and held.registered(0) == ()
    held.validate()


def test_a_smaller_segment_drops_what_it_does_not_meet() -> None:
    held = sets()
    for serial, low in enumerate((0, 10, 20), 1):
        place(held, serial, parse(f"a >= {low} and a < {low + 5} and b = 1"))
    held.set_segments(((Span(None, 10),), ()))
    held.trim(HOME, [1, 2, 3])
    assert held.sizes() == [1, 0] and list(held.homes[HOME].copies) == [1]
    held.validate()


@given(
    st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4))
    )
)
def test_clients_are_packed_and_taken_apart(clients: list[tuple[int, list[int]]]) -> None:
    given_ = [(number, pack(f"<{len(labels)}I", *labels)) for number, labels in clients]
    assert list(unpack_clients(pack_clients(given_))) == given_


@given(st.binary(max_size=40))
def test_whatever_a_peer_packs_is_taken_apart_without_a_mistake(packed: bytes) -> None:
    assert all(labels and not len(labels) % 4 for _, labels in unpack_clients(packed))


def staged(ordered: bool, count: int) -> tuple[Stage, list[Slot], Settling]:
    incoming = Incoming(100, lambda: None)
    record = Settling(incoming)
    record.pending = 1
    incoming.received = count
    incoming.settle_after(record)
    stage = Stage((1, 1), SimpleNamespace(), ordered)  # type: ignore[arg-type]
    group = Group(record, count)
    slots = [Slot(Publication(b"", b"", n), (), group, stage, 0.0) for n in range(1, count + 1)]
    for slot in slots:
        stage.add(slot)
    return stage, slots, record


def answer(stage: Stage, slot: Slot) -> list[int]:
    slot.matches = {}
    stage.answered(slot)
    released = stage.releasable()
    for one in released:
        one.group.release(1)
    return [one.publication.sequence for one in released]


def test_only_the_answered_prefix_is_released() -> None:
    stage, slots, record = staged(True, 3)
    assert answer(stage, slots[1]) == [] and answer(stage, slots[0]) == [1, 2] and record.pending == 1
    assert answer(stage, slots[2]) == [3] and record.pending == 0 and not stage.slots


def test_without_order_whatever_is_answered_goes() -> None:
    stage, slots, record = staged(False, 3)
    assert answer(stage, slots[1]) == [2] and answer(stage, slots[2]) == [3] and record.pending == 1
    assert answer(stage, slots[0]) == [1] and record.pending == 0 and not stage.slots
