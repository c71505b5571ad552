"""`format("grapevine")`: a Spark data source in pure Python, to write publications and to read deliveries.

    df.writeStream.format("grapevine").option("brokers", "tcp://127.0.0.1:7470") \\
        .option("checkpointLocation", "...").start()
    spark.readStream.format("grapevine").option("brokers", ...).option("filter", "class = 'STOCK'").load()
    spark.readStream.format("grapevine").option("brokers", ...).option("stream", "quotes").load()

What can be wrong is found when a query is planned: an option, a column, its type, a filter, a broker that
does not answer.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from grapevine.errors import NotAllowed
from grapevine.spark.options import ReplayOptions, WriteOptions, read_options, write_options
from grapevine.spark.reading import MESSAGE_SCHEMA, StreamReader, check_schema
from grapevine.spark.replay import ABOUT_REPLAY, REPLAY_SCHEMA, ReplayBatch, ReplayStream
from grapevine.spark.schema import choose_columns
from grapevine.spark.writers import BatchWriter, StreamWriter


class GrapevineDataSource(DataSource):  # type: ignore[misc]
    options: Any  # Spark's: a mapping that does not care for capital letters

    @classmethod
    def name(cls) -> str:
        return "grapevine"

    def schema(self) -> str:
        return REPLAY_SCHEMA if isinstance(read_options(self.options), ReplayOptions) else MESSAGE_SCHEMA

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        options = write_options(self.options)
        if overwrite:
            raise NotAllowed("what is published cannot be overwritten: use mode('append')")
        writer = BatchWriter(options, choose_columns(schema, options))
        _reach(writer, options)
        return writer

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        options = write_options(self.options)
        writer = StreamWriter(options, choose_columns(schema, options))
        _reach(writer, options)
        return writer

    def streamReader(self, schema: Any) -> StreamReader | ReplayStream:
        options = read_options(self.options)
        if isinstance(options, ReplayOptions):
            check_schema(schema, ABOUT_REPLAY)
            return ReplayStream(options, schema)
        check_schema(schema)
        return StreamReader(options, schema)

    def reader(self, schema: Any) -> ReplayBatch:
        options = read_options(self.options)
        if not isinstance(options, ReplayOptions):
            raise NotAllowed(
                "deliveries that nobody keeps cannot be read as a batch: name a stream (option stream), "
                "use readStream, or read the delivery log"
            )
        check_schema(schema, ABOUT_REPLAY)
        return ReplayBatch(options, schema)


def _reach(writer: BatchWriter | StreamWriter, options: WriteOptions) -> None:
    """A broker that does not answer, or does not let us in, is told before any task starts."""
    with writer.feed.link() as link:
        link.connect()
