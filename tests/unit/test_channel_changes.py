"""A channel without `new`: what changes between two executions is delivered, whoever runs them."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from grapevine.client.session.channels import _unpack
from grapevine.client.session.comparing import Runs, compared, read_state
from grapevine.client.session.driving import ROW_BYTES
from grapevine.wire.driving import STATE, rows_of, run_of

ROWS = st.dictionaries(st.integers(1, 4), st.lists(st.integers(0, 3), max_size=6))


def runs(result: dict[int, list[int]], at: float) -> Runs:
    return [
        run_of(be, [msgspec.msgpack.encode((at, {"id": i})) for i in rows])
        for be, rows in sorted(result.items())
    ]


def by_set(found: Runs) -> dict[int, list[bytes]]:
    return {run.be: rows_of(run) for run in found}


@given(st.lists(ROWS, max_size=6))
def test_changes_add_up_to_the_last_result(results: list[dict[int, list[int]]]) -> None:
    held: dict[int, Counter[int]] = {be: Counter() for be in range(1, 5)}
    state: list[bytes] = []
    for at, result in enumerate(results):
        found = by_set(compared(read_state(state), runs(result, float(at)), range(1, 5), float(at)))
        state = found.pop(STATE, [])
        for be, rows in found.items():
            for packed in map(_unpack, rows):
                assert packed.executed_at == at
                held[be][packed.row["id"]] += -1 if packed.removed else 1
        for be in held:
            assert +held[be] == Counter(result.get(be, [])) and min(held[be].values(), default=0) >= 0


def test_nothing_new_is_nothing() -> None:
    first = compared({}, runs({7: [1, 2]}, 1.0), [7], 1.0)
    assert [run.be for run in first] == [STATE, 7]
    again = compared(read_state(rows_of(first[0])), runs({7: [2, 1]}, 2.0), [7], 2.0)
    assert [run.be for run in again] == [STATE], "the order is no change"


def test_a_set_that_left_is_forgotten() -> None:
    first = compared({}, runs({7: [1]}, 1.0), [7], 1.0)
    assert compared(read_state(rows_of(first[0])), [], [8], 2.0) == []


def test_a_result_that_is_more_than_a_message_is_compared_in_parts() -> None:
    many = [msgspec.msgpack.encode((1.0, {"id": i, "text": "x" * 100_000})) for i in range(100)]
    first = by_set(compared({}, [run_of(7, many)], [7], 1.0))
    assert max(map(len, first[STATE])) <= ROW_BYTES and len(first[STATE]) > 1
    again = compared(read_state(first[STATE]), [run_of(7, many[1:])], [7], 2.0)
    ((gone,),) = [rows_of(run) for run in again if run.be != STATE]
    assert _unpack(gone).removed and _unpack(gone).row["id"] == 0
