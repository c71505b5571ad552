"""How the work of a report is cut, by the number of events: at any size a task's share fits into memory.

Accounts are kept per publication, so their number grows with the logs. A table that does not fit is sorted on
disk instead, which is several times slower; enough partitions keep it whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION_EVENTS = 500_000
PARTITIONS = (4, 4_000)
SPLIT_BYTES = 24 << 20  # of Parquet for one task; a file counts as 4 MB more than it has
PERCENTILE_GROUPS = 4_096  # kept in memory by one task; Spark's 128 are fewer than a run has minutes


def settings(events: int) -> dict[str, str]:
    """Spark's settings for a report over so many events."""
    least, most = PARTITIONS
    return {
        "spark.sql.shuffle.partitions": str(min(most, max(least, events // PARTITION_EVENTS))),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        "spark.sql.files.maxPartitionBytes": str(SPLIT_BYTES),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(PERCENTILE_GROUPS),
    }


@contextmanager
def sized(spark: SparkSession, events: int) -> Iterator[None]:
    """A session that somebody else made is left as it was."""
    wanted = settings(events)
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
