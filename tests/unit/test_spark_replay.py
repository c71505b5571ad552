"""Offsets, ranges and options of the replayable reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs the extra `spark`")

import pyarrow as pa

from grapevine.spark.options import (
    EARLIEST,
    LATEST,
    OptionError,
    ReadOptions,
    ReplayOptions,
    read_options,
)
from grapevine.spark.reading import KINDS, attribute
from grapevine.spark.replay import attributes, cut, limited

BROKERS = {"brokers": "tcp://127.0.0.1:7470"}
LENGTHS = st.dictionaries(st.sampled_from("abcde"), st.tuples(st.integers(1, 50), st.integers(0, 40)))
VALUES = (
    st.none()
    | st.booleans()
    | st.text(max_size=3)
    | st.integers(-300, 300)
    | st.integers(-(2**70), 2**70)
    | st.integers(-3, 3).map(float)
    | st.floats(allow_nan=False)
)
OF_ONE_KIND = st.one_of(
    st.lists(st.none() | kind, max_size=8)
    for kind in (st.booleans(), st.text(max_size=3), st.integers(-300, 300), st.floats(allow_nan=False))
)
ARROW = {"byte": "int8", "short": "int16", "integer": "int32", "long": "int64", "float": "float32"}


@given(st.lists(VALUES, max_size=8) | OF_ONE_KIND, st.sampled_from(KINDS))
def test_a_column_is_its_values_one_by_one(values: list[Any], kind: str) -> None:
    type = pa.type_for_alias(ARROW.get(kind, {"boolean": "bool"}.get(kind, kind)))
    one_by_one = pa.array([attribute(value, kind) for value in values], type=type)
    assert attributes(values, kind, type).equals(one_by_one)


@given(st.integers(1, 100), st.integers(0, 100), st.integers(1, 30))
def test_parts_are_the_range(first: int, length: int, most: int) -> None:
    parts = cut(first, first + length, most)
    assert [n for low, high in parts for n in range(low, high)] == list(range(first, first + length))
    assert all(0 < high - low <= most for low, high in parts)


@given(LENGTHS, st.integers(0, 100))
def test_a_limit_is_used_up_and_shared(streams: dict[str, tuple[int, int]], most: int) -> None:
    begins = {name: first for name, (first, _) in streams.items()}
    ends = {name: first + length for name, (first, length) in streams.items()}
    chosen = limited(begins, ends, most)
    rows = {name: chosen[name] - begins[name] for name in streams}
    assert sum(rows.values()) == min(most, sum(length for _, length in streams.values()))
    assert all(0 <= rows[name] <= length for name, (_, length) in streams.items())
    cut_short = [rows[name] for name, (_, length) in streams.items() if rows[name] < length]
    assert not cut_short or max(rows.values()) - min(cut_short) <= 1


def replay(**said: str) -> ReplayOptions:
    options = read_options({**BROKERS, **said})
    assert isinstance(options, ReplayOptions)
    return options


def test_a_stream_or_a_durable_name_is_replayed() -> None:
    assert replay(stream="a", streams="b, a").streams == ("a", "b")
    assert replay(durable="job", filter="class = 'X'").streams == ()
    assert isinstance(read_options({**BROKERS, "filter": "class = 'X'"}), ReadOptions)


def test_where_to_start() -> None:
    assert replay(stream="a").starting is None
    assert replay(stream="a", startingOffsets="Earliest").starting == EARLIEST
    assert replay(stream="a", endingOffsets="latest").ending is None
    assert replay(stream="a", startingOffsets='{"a": 17, "b": -1}').starting == {"a": 17, "b": LATEST}
    assert replay(stream="a", startingTimestamp="1700000000500").starting_s == 1700000000.5


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"stream": "a", "filter": "x = 1"}, "a stream has its own"),
        ({"durable": "job"}, "option filter is missing"),
        ({"stream": "a", "startingOffsets": "soon"}, "earliest, latest, or"),
        ({"stream": "a", "startingOffsets": '{"a": -3}'}, "earliest, latest, or"),
        ({"stream": "a", "startingOffsets": "latest", "startingTimestamp": "1"}, "one of them"),
        ({"stream": "a", "endingOffsets": "earliest"}, "latest, or offsets by stream"),
        ({"filter": "x = 1", "startingTimestamp": "1"}, "name a stream"),
        ({"filter": "x = 1", "startingOffsets": "earliest"}, "'earliest': it is latest"),
    ],
)
def test_mistakes_say_what_there_is(said: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        read_options({**BROKERS, **said})
