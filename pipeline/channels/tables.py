"""Datasets as an execution sees them: fed rows in the driver's memory as Arrow, files as Spark reads them.

An attribute becomes the column of its name if it has the column's type, else null. Rows that are older than a
dataset keeps, and that no execution needs any more, go. What is kept must fit into the driver's memory; on a
cluster rows go to the executors with the job, and a file must be where all of them see it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grapevine.wire import decode_attributes
from grapevine.wire.catalog import FED_COLUMNS, Channel, Dataset
from grapevine.wire.codec import Attributes
from grapevine.wire.columns import column_value
from grapevine.wire.driving import FedRow, Plan
from pipeline.channels.functions import register_nearest
from pipeline.channels.rewrite import ALL, uses

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

POSITION = "__position"
CHUNKS_MOST = 64
NUMBERS = ("int", "bigint", "float", "double")
Stamp = tuple[str, int, int]  # path, time and size of a file


def arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    return {
        "string": pa.string(),
        "double": pa.float64(),
        "float": pa.float32(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "binary": pa.binary(),
    }[kind]


def schema_of(dataset: Dataset) -> pa.Schema:
    import pyarrow as pa

    columns = (*dataset.columns, *FED_COLUMNS)
    return pa.schema([(POSITION, pa.int64()), *((name, arrow_type(kind)) for name, kind in columns)])


def table_of(dataset: Dataset, rows: Iterable[tuple[int, FedRow]]) -> pa.Table:
    import pyarrow as pa

    rows = list(rows)
    attributes = [decode_attributes(row.attributes) for _, row in rows]
    columns: dict[str, list[Any]] = {
        POSITION: [position for position, _ in rows],
        **{name: column_values(attributes, name, kind) for name, kind in dataset.columns},
        "publisher": [row.publisher_name for _, row in rows],
        "sequence": [row.sequence for _, row in rows],
        "accepted_at": [int(row.accepted_at * 1e6) for _, row in rows],
        "payload": [row.payload for _, row in rows],
    }
    return pa.table(columns, schema=schema_of(dataset))


PLAIN: dict[str, type] = {"string": str, "double": float, "float": float, "boolean": bool}


def column_values(attributes: list[Attributes], name: str, kind: str) -> list[Any]:
    """As `column_value` has them, which most are already."""
    plain = PLAIN.get(kind)
    values = [each.get(name) for each in attributes]
    return [value if type(value) is plain else column_value(value, kind) for value in values]


class Tables:
    """Several executions run at a time: a table is replaced, never changed."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, pa.Table]] = {}  # which of that name it is, and its rows
        self._files: dict[tuple[int, str], tuple[Stamp, DataFrame]] = {}  # by session: views are a session's
        self._registered: dict[tuple[int, str], Stamp] = {}
        self._lock = threading.Lock()

    def keep(self, dataset: Dataset, rows: tuple[tuple[int, FedRow], ...], start: int) -> int:
        """How many there are now."""
        import pyarrow as pa
        import pyarrow.compute as pc

        fresh = table_of(dataset, rows)
        with self._lock:
            since, held = self._held.get(dataset.name, (0, None))
            if held is not None and since == dataset.since and held.schema == fresh.schema:
                fresh = pa.concat_tables([held, fresh])
            if len(fresh) and fresh[POSITION][0].as_py() < start:
                fresh = fresh.filter(pc.greater_equal(fresh[POSITION], start))
            if fresh[POSITION].num_chunks > CHUNKS_MOST:  # one for each fetch
                fresh = fresh.combine_chunks()
            self._held[dataset.name] = (dataset.since, fresh)
            return len(fresh)

    def rows(self, dataset: Dataset, after: int, up_to: int) -> pa.Table:
        import pyarrow.compute as pc

        since, held = self._held.get(dataset.name, (0, None))
        if held is None or since != dataset.since:
            held = table_of(dataset, ())
        position = held[POSITION]
        return held.filter(pc.and_(pc.greater(position, after), pc.less_equal(position, up_to)))

    # --- what a query sees --------------------------------------------------------------------------------

    def bind(
        self, spark: SparkSession, channel: Channel, plan: Plan, datasets: Mapping[str, Dataset]
    ) -> None:
        """The tables that the channel's query names, as views of this session."""
        used = uses(channel.sql)
        cuts = {name: (after, up_to) for name, after, up_to in plan.cuts}
        for table in used.tables:
            name = table if table in datasets else table.removesuffix(ALL)
            dataset = datasets[name]
            if not dataset.fed:
                self._file(spark, dataset).createOrReplaceTempView(table)
                continue
            after, up_to = cuts[name]
            if table == name and name in channel.new:
                frame = frame_of(spark, self.rows(dataset, after, up_to))
            else:
                frame = self._all(spark, dataset, up_to, plan.at)
            frame.drop(POSITION).createOrReplaceTempView(table)
        for name in used.nearest:
            self._nearest(spark, datasets[name])

    def _file(self, spark: SparkSession, dataset: Dataset) -> DataFrame:
        """Read again when it has changed."""
        key, now = (id(spark), dataset.name), stamp(dataset)
        known = self._files.get(key)
        if known is None or known[0] != now:
            if known is not None:
                known[1].unpersist()
            known = self._files[key] = (now, read_file(spark, dataset).cache())
        return known[1]

    def _nearest(self, spark: SparkSession, dataset: Dataset) -> None:
        key, now = (id(spark), dataset.name), stamp(dataset)
        if self._registered.get(key) != now:
            frame = self._file(spark, dataset)
            kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
            if not all(kinds.get(each) in NUMBERS for each in ("lat", "lon")):
                found = ", ".join(f"{name} {kind}" for name, kind in kinds.items()) or "no columns"
                raise ValueError(f"nearest needs lat and lon, numbers, in {dataset.name}; it has {found}")
            # Names as a file has them: in backquotes.
            quoted = {name.replace("`", "``"): kind for name, kind in kinds.items()}
            schema = ", ".join(f"`{name}`: {kind}" for name, kind in quoted.items())
            register_nearest(spark, dataset.name, frame.toArrow(), schema)
            self._registered[key] = now

    def _all(self, spark: SparkSession, dataset: Dataset, up_to: int, at: float) -> DataFrame:
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.rows(dataset, 0, up_to)
        oldest = pa.scalar(int((at - dataset.keep_s) * 1e6), pa.timestamp("us", "UTC"))
        rows = rows.filter(pc.greater_equal(rows["accepted_at"], oldest))
        if dataset.key and len(rows):
            last = rows.group_by(list(dataset.key)).aggregate([(POSITION, "max")])[f"{POSITION}_max"]
            rows = rows.filter(pc.is_in(rows[POSITION], last))
        return frame_of(spark, rows)


def stamp(dataset: Dataset) -> Stamp:
    """A file with another time or size is another one; one that is not on this machine never changes."""
    path = Path(dataset.file)
    try:
        found = path.stat()
    except OSError:
        return dataset.file, 0, 0
    return dataset.file, found.st_mtime_ns, found.st_size


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


def read_file(spark: SparkSession, dataset: Dataset) -> DataFrame:
    path = Path(dataset.file)
    if path.suffix == ".parquet" or path.is_dir():
        return spark.read.parquet(str(path))
    return spark.read.option("header", "true").option("inferSchema", "true").csv(str(path))
