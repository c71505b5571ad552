"""The delivery logs of the demo, collected and reported by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.analysis import Row

TITLE = "A grapevine overlay at work"


def report(spark: SparkSession, directory: Path, page: Path) -> dict[str, Any]:
    """The page, and the same counts as a reader of the logs would have."""
    from pipeline.collect import collect
    from pipeline.places import under
    from pipeline.report import Wanted
    from pipeline.report import report as run

    collection = directory / "collected"
    collect(spark, under([directory]), collection)
    done = run(spark, Wanted(collection, page, title=TITLE))
    return {
        "events": counted(done.summary),
        "pure_forwards": done.summary["pure_forwards"],
        "brokers": {
            row["broker"]: counted(row) | {"pure": row["pure_forwards"]} for row in done.figures.brokers
        },
        "lost": done.summary["lost"],
        "duplicates": done.summary["duplicates"],
        "yield": done.summary["yield"],
    }


def counted(row: Row) -> dict[str, int]:
    return {
        "accept": row["accepted"],
        "forward": row["forwarded"],
        "deliver": row["delivered"],
        "drop": row["unmatched"] + row["repeats_dropped"],
    }
