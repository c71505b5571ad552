"""Reading deliveries as a stream, best effort: what comes while the query runs.

The subscriber lives with the query, on the driver; a batch's rows travel to the tasks inside their
partitions. An offset counts rows received. Nothing is kept for a query that is not there: after a restart
rows come from the new subscription on, and a batch that was planned before and not finished cannot be read
again: that is an error, unless failOnDataLoss is false. What a broker keeps is read by `replay`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

import grapevine
from grapevine.client.session.message import Message
from grapevine.errors import Error
from grapevine.spark.options import ReadOptions, client_keys
from grapevine.spark.schema import NUMBERS, SchemaError

MESSAGE_SCHEMA = (
    "publisher STRING, sequence BIGINT, accepted_at TIMESTAMP, hops INT, broker STRING, "
    "attributes MAP<STRING, STRING>, payload BINARY"
)
ABOUT = {  # columns about the delivery itself, and the types that they may have
    "publisher": ("string",),
    "sequence": ("bigint",),
    "accepted_at": ("timestamp", "double"),
    "hops": ("int", "bigint"),
    "broker": ("string",),
    "attributes": ("map<string,string>",),
    "payload": ("binary", "string"),
}
KINDS = (*NUMBERS, "string", "boolean")
BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
PARTITION_ROWS = 10_000
HELD_ROWS = 1_000_000  # received and not yet read; more are the query's own loss


class DataLoss(Error):
    """Rows that a batch was planned with are gone."""


def check_schema(schema: Any, about: Mapping[str, tuple[str, ...]] = ABOUT) -> None:
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name in about:
            if kind not in about[field.name]:
                right = " or ".join(about[field.name])
                raise SchemaError(f"column {field.name!r} is of type {kind}: it is {right}")
        elif field.dataType.typeName() not in KINDS:
            raise SchemaError(
                f"column {field.name!r} is of type {kind}: attributes are numbers, strings, booleans"
            )


class Rows(InputPartition):  # type: ignore[misc]
    """Rows that were received, for a task to pass on."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows


class StreamReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self.options = options
        self.columns = [(field.name, field.dataType.typeName()) for field in schema.fields]
        self._client: grapevine.Client | None = None
        self._subscription: grapevine.Subscription | None = None
        self._rows: deque[tuple[Any, ...]] = deque()
        self._first = 0  # offset of the first row held
        self._dropped = 0

    def __getstate__(self) -> dict[str, Any]:
        """What a task is sent: how to read, not who listens."""
        return {"options": self.options, "columns": self.columns}

    # --- on the driver ----------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:
        self._listen()
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.rows_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        self._listen()
        begin = int(start["rows"])
        if not self._rows and self._first < begin:
            self._first = begin  # after a restart: offsets go on
        self._receive()
        end = max(self._first + len(self._rows), begin)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return {"rows": end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        begin, stop = int(start["rows"]), int(end["rows"])
        if begin < self._first or stop > self._first + len(self._rows):
            if self.options.fail_on_data_loss:
                raise DataLoss(
                    f"rows {begin} to {stop} were received before this query was restarted and are gone: "
                    "set failOnDataLoss to false to go on without them"
                )
            self._first = max(self._first, stop if not self._rows else self._first)
            begin = max(begin, self._first)
        held = list(self._rows)
        rows = held[begin - self._first : max(stop - self._first, 0)]
        return [Rows(rows[at : at + PARTITION_ROWS]) for at in range(0, len(rows), PARTITION_ROWS)]

    def commit(self, end: dict[str, int]) -> None:
        done = int(end["rows"])
        while self._rows and self._first < done:
            self._rows.popleft()
            self._first += 1

    def stop(self) -> None:
        if self._client is not None:
            self._client.close(0)
            self._client = self._subscription = None

    def _listen(self) -> None:
        if self._client is None:
            options = self.options
            self._client = grapevine.connect(
                options.brokers,
                name=options.name or None,
                keys=client_keys(options.keys),
                timeout=options.timeout_s,
            )
            self._subscription = self._client.subscribe(options.filter, timeout=options.timeout_s)

    def _receive(self) -> None:
        assert self._subscription is not None
        while len(self._rows) < HELD_ROWS and (batch := self._subscription.next_batch(10_000, timeout=0)):
            self._rows.extend(map(self._row, batch))
        dropped = self._subscription.dropped
        if dropped > self._dropped and self.options.fail_on_data_loss:
            lost, self._dropped = dropped - self._dropped, dropped
            raise DataLoss(f"{lost} deliveries were dropped because this query was too slow for them")
        self._dropped = dropped

    def _row(self, message: Message) -> tuple[Any, ...]:
        return tuple(column(message, name, kind) for name, kind in self.columns)

    # --- in a task --------------------------------------------------------------------------------

    def read(self, partition: Rows) -> Iterator[tuple[Any, ...]]:
        return iter(partition.rows)


def column(message: Message, name: str, kind: str) -> Any:
    """What a delivery has in a column of this name and Spark type."""
    if name == "attributes":
        return {key: _text(value) for key, value in message.attributes.items()}
    if name == "accepted_at" and kind == "timestamp":
        return datetime.fromtimestamp(message.accepted_at, UTC)
    if name == "payload" and kind == "string":
        return message.payload.decode(errors="replace")
    if name in ABOUT:
        return getattr(message, name)
    return attribute(message.attributes.get(name), kind)


def attribute(value: Any, kind: str) -> Any:
    """The value if it is of the column's type and within its range; null if it is not, or missing."""
    if kind == "string":
        return value if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind in ("float", "double"):
        return float(value)
    bound = 2 ** BITS[kind]
    return int(value) if -bound <= value < bound and value == int(value) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
