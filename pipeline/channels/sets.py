"""The table of a channel's parameter sets, `__sets`, as Spark sees it.

Ids are 64 bits without sign on the wire and with one in Spark. The table is made again only when the set of
back-end subscriptions has changed, stays in memory, and is broadcast while it is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grapevine.wire.parameters import Parameter
from pipeline.channels.functions import cell_degrees, circle_of, set_rows
from pipeline.channels.rewrite import BE, CELL, PREFIX, SETS, Statement, with_cells

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIGN = 1 << 63
BROADCAST_BYTES = 64 << 20


def signed(be: int) -> int:
    return be - 2 * SIGN if be >= SIGN else be


def unsigned(be: int) -> int:
    return be + 2 * SIGN if be < 0 else be


def sets_table(
    spark: SparkSession,
    statement: Statement,
    parameters: Sequence[Parameter],
    sets: Mapping[int, Sequence[Any]],
) -> tuple[DataFrame, str]:
    """The table under its name, and the statement to run over it."""
    import pyarrow as pa

    names = [parameter.name for parameter in parameters]
    degrees = 1.0
    if statement.cells is not None and sets:
        degrees = cell_degrees([circle_of(names, values, statement.cells) for values in sets.values()])
    columns = set_rows(((signed(be), sets[be]) for be in sorted(sets)), names, statement.cells, degrees)
    kinds = {
        "string": pa.string(),
        "double": pa.float64(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    schema = [(BE, pa.int64()), *((PREFIX + each.name, kinds[each.type]) for each in parameters)]
    if statement.cells is not None:
        schema.append((CELL, pa.int64()))
    table = pa.table(columns, schema=pa.schema(schema))
    frame = spark.createDataFrame(table)
    if table.nbytes <= BROADCAST_BYTES:
        from pyspark.sql.functions import broadcast

        frame = broadcast(frame)
    frame.createOrReplaceTempView(SETS)
    return frame, with_cells(statement, degrees)
