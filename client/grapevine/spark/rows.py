"""Arrow batches to publications: whole columns at a time as far as columns go.

What a broker would refuse is found here, with the number of its row. Checks are per column; only packing the
attributes is per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from grapevine.errors import Error
from grapevine.filters.limits import ATTRIBUTE_CHARS
from grapevine.spark.options import OMIT
from grapevine.spark.schema import Columns
from grapevine.wire.limits import ATTRIBUTE_BYTES, PAYLOAD_BYTES

Row = tuple[bytes, bytes]  # packed attributes, payload


class RowError(Error, ValueError):
    """A row that cannot be published."""


class RowEncoder:
    """Rows of one partition, in order; counts them for the messages."""

    def __init__(self, columns: Columns, nulls: str, place: str) -> None:
        self.columns = columns
        self.omits = nulls == OMIT
        self.place = place  # for messages: which partition of what
        self.rows = 0
        names = [name for _, name in columns.attributes]
        fields = [f"a{number}" for number in range(len(names))]
        self._pack = msgspec.msgpack.Encoder().encode
        # A struct with the attributes as its fields packs faster than a dict made for each row.
        self._record = msgspec.defstruct(
            "Attributes", [(field, Any) for field in fields], rename=dict(zip(fields, names)), gc=False
        )

    def encode(self, batch: pa.RecordBatch) -> list[Row]:
        lists = [self._values(batch.column(place), name) for place, name in self.columns.attributes]
        pack, record = self._pack, self._record
        packed = [pack(record(*row)) for row in zip(*lists)]
        payloads = self._payloads(batch)
        self._check_sizes(packed, payloads)
        self.rows += batch.num_rows
        return list(zip(packed, payloads))

    def _wrong(self, row: int, text: str) -> RowError:
        return RowError(f"row {self.rows + row + 1} of {self.place}: {text}")

    def _values(self, column: pa.Array, name: str) -> list[Any]:
        if column.null_count:
            if not self.omits:
                row = pc.index(column.is_null(), True).as_py()
                raise self._wrong(
                    row, f"attribute {name!r} is null; option nullAttributes=omit leaves it out"
                )
        if pa.types.is_floating(column.type):
            self._check_floats(column, name)
        elif not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            self._check_texts(column, name)
        values: list[Any] = column.to_pylist()
        if column.null_count:
            values = [msgspec.UNSET if value is None else value for value in values]
        return values

    def _check_floats(self, column: pa.Array, name: str) -> None:
        bad = pc.is_nan(column)
        if pc.any(bad).as_py():
            row = pc.index(bad.fill_null(False), True).as_py()
            raise self._wrong(row, f"attribute {name!r} is NaN, which nothing can be compared with")

    def _check_texts(self, column: pa.Array, name: str) -> None:
        lengths = pc.utf8_length(column)
        longest = pc.max(lengths).as_py() or 0
        if longest > ATTRIBUTE_CHARS:
            row = pc.index(lengths, longest).as_py()
            text = f"attribute {name!r} has {longest} characters, the limit is {ATTRIBUTE_CHARS}"
            raise self._wrong(row, text)

    def _payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        if self.columns.payload is None:
            return [b""] * batch.num_rows
        column = batch.column(self.columns.payload)
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        payloads: list[bytes] = (column.fill_null(b"") if column.null_count else column).to_pylist()
        return payloads

    def _check_sizes(self, packed: list[bytes], payloads: list[bytes]) -> None:
        for texts, limit, what in (
            (packed, ATTRIBUTE_BYTES, "attributes"),
            (payloads, PAYLOAD_BYTES, "payload"),
        ):
            if texts and max(map(len, texts)) > limit:
                row = next(index for index, text in enumerate(texts) if len(text) > limit)
                raise self._wrong(row, f"its {what} are {len(texts[row])} bytes, the limit is {limit}")


PIECE_ROWS = 4_096
PIECE_BYTES = 1024 * 1024
_pack_rows = msgspec.msgpack.Encoder().encode


def pieces(rows: list[Row]) -> Iterator[tuple[int, bytes]]:
    """(rows, content) of pieces for a broker's stage: publications without what the broker fills in."""
    start = size = 0
    for index, (attributes, payload) in enumerate(rows):
        size += len(attributes) + len(payload) + 12
        if size >= PIECE_BYTES or index - start + 1 >= PIECE_ROWS:
            yield index + 1 - start, _piece(rows[start : index + 1])
            start, size = index + 1, 0
    if start < len(rows):
        yield len(rows) - start, _piece(rows[start:])


def _piece(rows: list[Row]) -> bytes:
    return _pack_rows([(attributes, payload, 0) for attributes, payload in rows])
