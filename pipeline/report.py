"""SPEC S3: a collection as figures, tables and one page (`pubctl report`)."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.analysis import Analysis, Figures, Progress, Row
from pipeline.collection import Collection
from pipeline.page import page
from pipeline.sizing import sized
from pipeline.steps import moment_ns
from pipeline.trouble import NOT_FOUND, Trouble

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Wanted(msgspec.Struct):
    collection: Path
    to: Path = Path("report.html")
    tables: Path | None = None
    step_s: float | None = None
    since: str | None = None
    until: str | None = None
    title: str = "What the overlay did"


class Reported(msgspec.Struct):
    figures: Figures
    summary: Row


def report(spark: SparkSession, wanted: Wanted, progress: Progress = lambda name: None) -> Reported:
    began = time.monotonic()
    collection = Collection(wanted.collection)
    manifest = collection.manifest
    looked_ns = {name: reading.looked_ns for name, reading in manifest.brokers.items()}
    analysis = Analysis(within(collection.events(spark), wanted), looked_ns, progress)
    with sized(spark, manifest.events):
        found = analysis.run(wanted.step_s)
    if not found.totals["events"]:
        when = " in that time" if wanted.since or wanted.until else ""
        raise Trouble(f"no events in {wanted.collection}{when}", NOT_FOUND)
    found.totals |= {"torn_lines": manifest.torn, "damaged_lines": manifest.damaged}
    try:
        wanted.to.parent.mkdir(parents=True, exist_ok=True)
        wanted.to.write_text(page(found, wanted.title))
        if wanted.tables is not None:
            write_tables(analysis.tables, found, wanted.tables)
    except OSError as error:
        raise Trouble(f"{error.filename} cannot be written: {error.strerror}") from None
    tables = str(wanted.tables.absolute()) if wanted.tables else None
    summary = {"page": str(wanted.to.absolute()), "tables": tables, "step_s": found.step_s, **found.totals}
    return Reported(found, summary | {"seconds": round(time.monotonic() - began, 3)})


def within(events: DataFrame, wanted: Wanted) -> DataFrame:
    from pyspark.sql import functions as F

    if wanted.since:
        events = events.where(F.col("t_ns") >= moment_ns(wanted.since, "--since"))
    if wanted.until:
        events = events.where(F.col("t_ns") < moment_ns(wanted.until, "--until"))
    return events


# --- tables ---------------------------------------------------------------------------------------


def write_tables(tables: dict[str, DataFrame], found: Figures, to: Path) -> None:
    """One CSV file each. Those that may have any number of rows come from Spark row by row."""
    to.mkdir(parents=True, exist_ok=True)
    for name in ("brokers", "links", "timeline"):
        write_csv(to / f"{name}.csv", iter(getattr(found, name)))
    from pipeline.figures import plain

    for name, table in tables.items():
        write_csv(to / f"{name}.csv", (plain(row.asDict()) for row in table.toLocalIterator()))


def write_csv(path: Path, rows: Any) -> None:
    with open(path, "w", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(
                    file, list(row), lineterminator="\n", restval="", extrasaction="ignore"
                )
                writer.writeheader()
            writer.writerow(row)


def main() -> int:
    from pipeline.submitted import report_command, run

    return run(report_command)


if __name__ == "__main__":
    sys.exit(main())
