"""Feeding: what a task does with its partition, and what the driver does when all tasks are done.

*stage* (the default): a task puts its rows on the broker's disk under an attempt of its own, the driver's
commit has one attempt of each partition published. Whatever runs twice, one of it counts. *number*: a task
publishes at once as (query, partition), its rows numbered (batch, row); what the broker knows to be settled
is skipped when the task runs again. That is right only if a second run has the same rows in the same order.

Spark copies a writer to its tasks, and makes another for the commit: it holds nothing but what it was told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from grapevine.errors import Error
from grapevine.spark.connection import tell
from grapevine.spark.feeding import FeedLink, Stage
from grapevine.spark.numbered import Numbered
from grapevine.spark.options import STAGE, WriteOptions
from grapevine.spark.rows import RowEncoder, pieces
from grapevine.spark.schema import Columns
from grapevine.wire.feeding import ONCE, StagedPart

QUERY_ID = "sql.streaming.queryId"  # what Spark tells the tasks of a micro-batch
BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class Fed(WriterCommitMessage):  # type: ignore[misc]
    """What a task has done."""

    query: str
    partition: int
    attempt: int
    rows: int
    again: bool = False  # the batch was committed before: nothing of this run is wanted


class Feed:
    """What batch and stream share."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        self.options = options
        self.columns = columns

    def link(self) -> FeedLink:
        return FeedLink(self.options.brokers, self.options.keys, self.options.timeout_s)

    def publisher(self, query: str) -> str:
        return self.options.publisher or f"spark-{query}"

    def task(self, iterator: Iterator[Any], query: str, batch: int) -> Fed:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        place = f"partition {partition} of batch {batch}, query {query}"
        encoder = RowEncoder(self.columns, self.options.null_attributes, place)
        if self.options.once == STAGE:
            return self._stage(iterator, encoder, query, batch, partition)
        return self._number(iterator, encoder, query, batch, partition)

    def _stage(
        self, iterator: Iterator[Any], encoder: RowEncoder, query: str, batch: int, partition: int
    ) -> Fed:
        with self.link() as link:
            stage = Stage(link, query, batch, partition)
            for arrow in iterator:
                for rows, content in pieces(encoder.encode(arrow)):
                    stage.send(rows, content)
            stage.finish()
        return Fed(query, partition, stage.attempt, stage.rows, stage.again)

    def _number(
        self, iterator: Iterator[Any], encoder: RowEncoder, query: str, batch: int, partition: int
    ) -> Fed:
        name = f"{self.publisher(query)}/{partition}"
        with Numbered(self.options, self.link(), name, query, batch) as numbered:
            for arrow in iterator:
                numbered.publish(encoder.encode(arrow))
            numbered.finish()
        return Fed(query, partition, 0, encoder.rows)

    def commit_all(self, fed: list[Fed], batch: int) -> None:
        if self.options.once != STAGE or not fed:
            return
        query = fed[0].query
        parts = [StagedPart(one.partition, one.attempt, one.rows) for one in fed]
        with self.link() as link:
            state = link.commit(query, batch, self.publisher(query), self.options.advertisement, parts)
        if state.refused or state.text:
            text = f"{state.refused} of {state.rows} rows did not reach every subscriber. {state.text}"
            tell(f"batch {batch} of query {query}: {text}")
        elif any(one.again for one in fed):
            tell(f"batch {batch} of query {query} was published before: nothing is published again")

    def abort_all(self, query: str, batch: int) -> None:
        """Only for tidiness: what is left goes by age, or with the query's next commit."""
        if self.options.once == STAGE:
            try:
                with self.link() as link:
                    link.abort(query, batch)
            except Error:
                pass


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        self.feed = Feed(options, columns)
        self.query = options.query or f"{ONCE}{uuid4()}"
        self.batch = options.batch

    def write(self, iterator: Iterator[Any]) -> Fed:
        return self.feed.task(iterator, self.query, self.batch)

    def commit(self, messages: list[Fed | None]) -> None:
        self.feed.commit_all([message for message in messages if message is not None], self.batch)

    def abort(self, messages: list[Fed | None]) -> None:
        self.feed.abort_all(self.query, self.batch)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        self.feed = Feed(options, columns)

    def write(self, iterator: Iterator[Any]) -> Fed:
        context = TaskContext.get()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if not query or batch is None:
            raise RuntimeError("Spark does not say which query and batch this task is of")
        return self.feed.task(iterator, query, int(batch))

    def commit(self, messages: list[Fed | None], batchId: int) -> None:
        self.feed.commit_all([message for message in messages if message is not None], batchId)

    def abort(self, messages: list[Fed | None], batchId: int) -> None:
        for query in {message.query for message in messages if message is not None}:
            self.feed.abort_all(query, batchId)
