"""Who of a group gets how many: against one message at a time, each to the least loaded with room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.journal.dealing import deal

members = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8)


def one_at_a_time(held: list[int], rooms: list[int], items: int) -> list[int]:
    dealt = [0] * len(held)
    for _ in range(items):
        able = [m for m in range(len(held)) if dealt[m] < rooms[m]]
        if not able:
            break
        dealt[min(able, key=lambda m: (held[m] + dealt[m], m))] += 1
    return dealt


@given(members, st.integers(0, 100))
def test_the_least_loaded_that_has_room(group: list[tuple[int, int]], items: int) -> None:
    held, rooms = [load for load, _ in group], [room for _, room in group]
    assert deal(held, rooms, items) == one_at_a_time(held, rooms, items)


def test_who_is_busy_waits_for_the_others() -> None:
    assert deal([5, 0, 0], [9, 9, 9], 4) == [0, 2, 2]
    assert deal([0, 0], [1, 9], 5) == [1, 4]
