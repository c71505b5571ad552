"""Reading streams that brokers keep: by offsets, so that whatever is read again is the same.

An offset of the query is {stream: [version, offset]}, the next offset to be read. A batch is cut into ranges;
each task fetches its own from the stream's home, and moves nothing there: a task that runs again, or twice at
once, reads the same. With a durable name what a batch has committed is acknowledged, and the broker may let
go of it. Offsets that are gone (expired, damaged, of a stream that was made anew) are a DataLoss, unless
failOnDataLoss is false.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from grapevine.client.session.message import Message
from grapevine.filters import parse
from grapevine.spark.connection import tell
from grapevine.spark.options import EARLIEST, LATEST, ReplayOptions
from grapevine.spark.reading import ABOUT, BITS, MESSAGE_SCHEMA, DataLoss, attribute, column
from grapevine.spark.stream_link import StreamLink
from grapevine.wire import decode_publications
from grapevine.wire.streams import StreamGap, StreamState

REPLAY_SCHEMA = f"stream STRING, offset BIGINT, {MESSAGE_SCHEMA}"
ABOUT_REPLAY = {**ABOUT, "stream": ("string",), "offset": ("bigint",)}
FETCH_ROWS = 4_096
NUMBER = (pa.int64(), pa.float64())
NATURAL: dict[str, tuple[pa.DataType, ...]] = {  # what values of a kind become by themselves
    **dict.fromkeys(BITS, (pa.int64(),)),
    "float": NUMBER,
    "double": NUMBER,
    "string": (pa.string(),),
    "boolean": (pa.bool_(),),
}

Offsets = dict[str, list[int]]  # stream -> [version, next offset]


@dataclass(frozen=True)
class Range(InputPartition):  # type: ignore[misc]
    """Offsets of a stream, for one task; the stream's home goes along."""

    stream: str
    first: int
    end: int
    home: str


def cut(first: int, end: int, most: int) -> list[tuple[int, int]]:
    """The range in parts of at most so many."""
    return [(low, min(low + most, end)) for low in range(first, end, most)]


def limited(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """Where a batch of at most so many rows ends: every stream has an equal share, and what others leave."""
    chosen: dict[str, int] = {}
    left = most
    waiting = sorted(ends, key=lambda name: (ends[name] - begins[name], name))
    for place, name in enumerate(waiting):
        share = left // (len(waiting) - place)
        chosen[name] = min(ends[name], begins[name] + share)
        left -= chosen[name] - begins[name]
    return chosen


class Replay:
    """What batch and stream share; tasks have a copy of it."""

    def __init__(self, options: ReplayOptions, schema: Any) -> None:
        self.options = options
        self.columns = [(field.name, field.dataType.typeName()) for field in schema.fields]
        self.arrow = to_arrow_schema(schema)
        self._link: StreamLink | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_link": None}

    def link(self) -> StreamLink:
        if self._link is None:
            self._link = StreamLink(self.options.brokers, self.options.keys, self.options.timeout_s)
        return self._link

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    # --- on the driver ----------------------------------------------------------------------------

    def states(self, start: str = "new", at: float = 0.0) -> list[StreamState]:
        """Of all streams; a durable name is made if there is none, and says where it stands."""
        options = self.options
        wanted = parse(options.filter) if options.filter else None
        return [
            self.link().state(stream, options.durable, wanted, start, at)
            for stream in options.streams or ("",)
        ]

    def begin(self, said: Mapping[str, int] | int, at_s: float | None) -> Offsets:
        """Where to start: at what is said for all or for each stream, or with what came at a time or later.
        A durable name that stands somewhere goes on from there."""
        start = "time" if at_s is not None else "first" if said == EARLIEST else "new"
        offsets: Offsets = {}
        for state in self.states(start, at_s or 0.0):
            named = said.get(state.stream, LATEST) if isinstance(said, Mapping) else said
            asked = self.options.durable or at_s is not None
            if isinstance(said, Mapping) and named >= 0:
                offset = max(named, 1)
            elif asked:
                offset = state.acknowledged + 1
            else:
                offset = state.first if named == EARLIEST else state.end
            offsets[state.stream] = [state.version, offset]
        return offsets

    def ends(self) -> Offsets:
        return {state.stream: [state.version, state.end] for state in self.states()}

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        firsts = {state.stream: (state.version, state.first) for state in self.states()}
        found = []
        for stream, (version, stop) in end.items():
            known, begin = start.get(stream, (version, 1))
            if firsts.get(stream, (0, 0))[0] != version:
                self._lose(stream, begin, stop - 1, "its stream was made anew")
                continue
            if known != version:
                self._lose(stream, begin, 0, "its stream was made anew")
                begin = firsts[stream][1]
            parts = cut(begin, stop, self.options.partition_rows)
            found += [Range(stream, *part, self.link().home) for part in parts]
        return found

    # --- in a task --------------------------------------------------------------------------------

    def read(self, range: Range) -> Iterator[pa.RecordBatch]:
        link = StreamLink(self.options.brokers, self.options.keys, self.options.timeout_s)
        link.home = range.home
        try:
            at = range.first
            while at < range.end:
                fetched = link.fetch(range.stream, at, min(range.end - at, FETCH_ROWS))
                for gap in fetched.gaps:
                    self._lose(range.stream, *gap_of(gap))
                names = link.names
                messages = [Message(p, b"", names) for p in decode_publications(fetched.publications)]
                if messages:
                    yield self._batch(range.stream, messages, fetched.offsets)
                last = max((*fetched.offsets, *(gap.last for gap in fetched.gaps)), default=0)
                if last < at:
                    self._lose(range.stream, at, range.end - 1, "they are not there")
                    return
                at = last + 1
        finally:
            link.close()

    def _batch(self, stream: str, messages: list[Message], offsets: Sequence[int]) -> pa.RecordBatch:
        rows = [message.attributes for message in messages]
        found = []
        for (name, kind), field in zip(self.columns, self.arrow):
            if name == "offset":
                array = pa.array(offsets, type=field.type)
            elif name == "stream":
                array = pa.array([stream] * len(messages), type=field.type)
            elif name in ABOUT:
                array = pa.array([column(message, name, kind) for message in messages], type=field.type)
            else:
                array = attributes([row.get(name) for row in rows], kind, field.type)
            found.append(array)
        return pa.RecordBatch.from_arrays(found, schema=self.arrow)

    def _lose(self, stream: str, first: int, last: int, why: str) -> None:
        which = f"offset {first} on" if last < first else f"offsets {first} to {last}"
        text = f"stream {stream}: {which}: {why}"
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{text}; set failOnDataLoss to false to go on without them")
        tell(f"{text}: left out")


def attributes(values: list[Any], kind: str, type: pa.DataType) -> pa.Array:
    """One attribute of many rows. Values that are all of the column's kind go as they are, which Arrow sees
    faster than we; where any is not, each is looked at."""
    try:
        array = pa.array(values)
        if array.type in NATURAL[kind]:
            return array.cast(type)
    except (pa.ArrowException, OverflowError):
        pass
    return pa.array([attribute(value, kind) for value in values], type=type)


def gap_of(gap: StreamGap) -> tuple[int, int, str]:
    return gap.first, gap.last, f"gone ({gap.reason})"


def _from(start: Offsets, stream: str, version: int, end: int) -> int:
    """Where the next batch of a stream begins; a stream that was made anew is judged by `ranges`."""
    known, offset = start.get(stream, (version, 1))
    return min(offset, end) if known == version else end


class ReplayStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, options: ReplayOptions, schema: Any) -> None:
        self.replay = Replay(options, schema)
        self._available: Offsets | None = None  # where a query with the trigger availableNow ends

    def prepareForTriggerAvailableNow(self) -> None:
        self.initialOffset()  # a durable name is made where the query begins, not where the stream ends
        self._available = self.replay.ends()

    def initialOffset(self) -> Offsets:
        options = self.replay.options
        return self.replay.begin(LATEST if options.starting is None else options.starting, options.starting_s)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.replay.options.rows_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        ends = self.replay.ends() if self._available is None else self._available
        if isinstance(limit, ReadMaxRows):
            begins = {name: _from(start, name, *end) for name, end in ends.items()}
            stops = limited(begins, {name: end for name, (_, end) in ends.items()}, limit.max_rows)
            return {name: [version, stops[name]] for name, (version, _) in ends.items()}
        return ends

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return self.replay.ranges(start, end)

    def commit(self, end: Offsets) -> None:
        if durable := self.replay.options.durable:
            for stream, (_, offset) in end.items():
                self.replay.link().acknowledge(stream, durable, offset - 1)

    def stop(self) -> None:
        self.replay.close()

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:
        return self.replay.read(partition)


class ReplayBatch(DataSourceReader):  # type: ignore[misc]
    """What the streams have now, or up to the offsets said."""

    def __init__(self, options: ReplayOptions, schema: Any) -> None:
        self.replay = Replay(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        options, replay = self.replay.options, self.replay
        start = replay.begin(EARLIEST if options.starting is None else options.starting, options.starting_s)
        ends = replay.ends()
        for stream, offset in (options.ending or {}).items():
            if stream in ends and offset >= 0:
                ends[stream][1] = min(offset, ends[stream][1])
        try:
            return replay.ranges(start, ends)
        finally:
            replay.close()

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:
        return self.replay.read(partition)
