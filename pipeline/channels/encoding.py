"""Rows of an execution from Arrow to what is kept of them, by back-end subscription, without a Python object
for each row.

A row is `(time, {column: value})` in msgpack, which is the pieces of its columns one after the other. The
same value stands in many rows, and the same row in the results of many sets: each distinct value is encoded
once, then each distinct pair of neighbours is joined once, column by column, and rows are numbers until the
end.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from grapevine.client.session.driving import Runs
from grapevine.wire.driving import Run, array_head
from pipeline.channels.rewrite import BE, ROW

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 1 << 16  # numbers below this are sorted fastest


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else repr(value)


encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


class Pieces(NamedTuple):
    """Of each row the number of its piece."""

    distinct: pa.Array  # large_binary
    of_row: Any  # numpy


def runs_of(table: pa.Table, ordered: bool, at: float) -> Runs:
    """Rows by back-end subscription, in the query's order where it has one."""
    import numpy as np

    if not len(table):
        return []
    ids, of_row = _sets_of(table[BE])
    order = np.argsort(of_row, kind="stable")
    if ordered:
        order = np.lexsort((table[ROW].to_numpy(), of_row))
    ends = np.cumsum(np.bincount(of_row, minlength=len(ids)))
    columns = table.drop_columns([BE, *([ROW] if ordered else [])])
    rows = _rows(columns, at)
    return list(_cut(rows.distinct.take(_array(rows.of_row[order])), ids.tolist(), ends))


def _sets_of(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """Ids of the sets, without sign and rising, and for each row the number of its set."""
    import numpy as np

    found = column.combine_chunks().dictionary_encode()
    ids = found.dictionary.to_numpy().view(np.uint64)
    rising = np.argsort(ids)
    number = np.empty(len(ids), np.uint16 if len(ids) < FEW else np.int64)
    number[rising] = np.arange(len(ids))
    return ids[rising], number[found.indices.to_numpy()]


def _rows(columns: pa.Table, at: float) -> Pieces:
    """Whole rows: each as bytes of msgpack, which begin with their length."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    names = columns.column_names
    head = array_head(2) + encode(at) + _map_head(len(names))
    found = [_pieces(columns[name], encode(name)) for name in names]
    rows = reduce(_joined, found) if found else Pieces(_binary([b""]), np.zeros(len(columns), np.int64))
    lengths = pc.binary_length(rows.distinct).to_numpy() + len(head)
    sizes, of_row = np.unique(lengths, return_inverse=True)
    heads = _binary(_bytes_head(size) + head for size in sizes.tolist())
    begun = heads.take(pa.array(of_row.reshape(-1)))
    return Pieces(pc.binary_join_element_wise(begun, rows.distinct, _nothing()), rows.of_row)


def _pieces(column: pa.ChunkedArray, key: bytes) -> Pieces:
    import numpy as np
    import pyarrow as pa

    whole = column.combine_chunks()
    kind = whole.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return Pieces(_binary(key + encode(value) for value in whole.to_pylist()), np.arange(len(whole)))
    if pa.types.is_float64(kind):  # 0.0 and -0.0 are equal, and two values
        whole = whole.view(pa.int64())
    found = whole.dictionary_encode(null_encoding="encode")
    values = found.dictionary.view(kind) if pa.types.is_float64(kind) else found.dictionary
    return Pieces(_binary(key + encode(value) for value in values.to_pylist()), found.indices.to_numpy())


def _joined(one: Pieces, other: Pieces) -> Pieces:
    import numpy as np
    import pyarrow.compute as pc

    pairs = _array(one.of_row.astype(np.int64) * len(other.distinct) + other.of_row).dictionary_encode()
    first, second = np.divmod(pairs.dictionary.to_numpy(), len(other.distinct))
    taken = one.distinct.take(_array(first)), other.distinct.take(_array(second))
    return Pieces(pc.binary_join_element_wise(*taken, _nothing()), pairs.indices.to_numpy())


def _cut(rows: pa.Array, ids: list[int], ends: Any) -> Iterable[Run]:
    """`rows` are sorted by set, one after the other in memory."""
    import numpy as np

    _, offsets, data = rows.buffers()
    starts = np.frombuffer(offsets, np.int64, len(rows) + 1, rows.offset * 8)
    heads = np.concatenate([[0], np.cumsum(_head_sizes(np.diff(starts)))])
    content, first = memoryview(data) if data is not None else memoryview(b""), 0
    for be, end in zip(ids, ends.tolist()):
        begin, stop = int(starts[first]), int(starts[end])
        size = stop - begin - int(heads[end] - heads[first])
        yield Run(be, end - first, size, array_head(end - first) + content[begin:stop].tobytes())
        first = end


def _head_sizes(lengths: Any) -> Any:
    """Of rows that are so long with their heads: 2, 3 or 5 bytes."""
    import numpy as np

    return np.where(lengths < (1 << 8) + 2, 2, np.where(lengths < (1 << 16) + 3, 3, 5))


def _bytes_head(size: int) -> bytes:
    if size < 1 << 8:
        return b"\xc4" + size.to_bytes(1, "big")
    return b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")


def _map_head(size: int) -> bytes:
    if size < 16:
        return bytes((0x80 | size,))
    return b"\xde" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xdf" + size.to_bytes(4, "big")


def _binary(values: Iterable[bytes]) -> pa.Array:
    import pyarrow as pa

    return pa.array(list(values), pa.large_binary())


def _nothing() -> pa.Scalar:
    import pyarrow as pa

    return pa.scalar(b"", pa.large_binary())


def _array(values: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(values)
