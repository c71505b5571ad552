"""A channel's query for one parameter set over all rows that the back end keeps: `pubctl channel run`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grapevine.errors import ChannelError
from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.driving import Plan, Rows, RowsAsk, decode_body, encode_body
from pipeline.channels.execution import Executor
from pipeline.channels.rewrite import ALL, uses
from pipeline.channels.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from grapevine.client.sync import Client

EVERYTHING = 2**62
PULL_BYTES = 4 << 20


def run_once(
    client: Client,
    spark: SparkSession,
    channel: Channel,
    datasets: Mapping[str, Dataset],
    given: Mapping[str, object],
) -> list[dict[str, Any]]:
    tables = Tables()
    named = {table if table in datasets else table.removesuffix(ALL) for table in uses(channel.sql).tables}
    fed = [datasets[name] for name in sorted(named) if datasets[name].fed]
    cuts = tuple((each.name, 0, fetch(client, tables, each)) for each in fed)
    plan = Plan(channel.name, channel.version, 0, 0, time.time(), cuts)
    return Executor(spark, tables).run_one(channel, plan, datasets, given)


def fetch(client: Client, tables: Tables, dataset: Dataset) -> int:
    """All rows that are kept; the position of the last."""
    after = 0
    while True:
        asked = encode_body(RowsAsk(dataset.name, after, EVERYTHING, PULL_BYTES))
        answer = client.ask_back_end("rows", asked)
        if answer.outcome != "done":
            raise ChannelError(f"the back end says {answer.outcome}: {answer.text}")
        rows = decode_body(answer.body, Rows)
        tables.keep(dataset, rows.rows, rows.start)
        if not rows.rows:
            return after
        after = rows.through
