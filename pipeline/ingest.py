"""SPEC S2: rows to publications (`pubctl feed`), through the data source `grapevine`.

Without a checkpoint a feed is one batch: all of it is published, or nothing. With one it is a stream over the
files of the source: each is published once, whatever was interrupted in between, and new files are found when
the same command runs again, or as they come with `follow`. A rate or the data's own time is kept by one
writer that publishes as it goes, under numbers that a second run repeats.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.explained import BadRow, explained, raised
from pipeline.mapping import Attribute, Mapping, Time, from_file, from_words
from pipeline.session import activate
from pipeline.shaping import PAYLOAD, PROBLEM, TIME, planned, shaped
from pipeline.source import FILE, LINE, Source, opened, rows
from pipeline.trouble import USAGE, Trouble

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OBSERVED = "feed"
LOOK_S = 0.25
EVERY = "1 second"
SPLIT = "spark.sql.files.maxPartitionBytes"
WHOLE_FILES = str(1 << 40)  # a file is one split, so that its rows keep their order
Progress = Callable[[int, int | None], None]


class Wanted(msgspec.Struct):
    source: str
    broker: str  # addresses, separated by commas
    attributes: str = ""
    payload: str = ""
    mapping: Path | None = None
    format: str | None = None
    separator: str | None = None
    rate: float | None = None
    time_column: str | None = None
    speed: float | None = None
    checkpoint: Path | None = None
    follow: bool = False
    name: str = ""
    advertise: str = ""
    nulls: str = "fail"
    rejects: Path | None = None
    keys: str | None = None
    timeout_s: float = 30.0
    trusted: bool = False  # rows need no looking at before they go out at a pace


class Fed(msgspec.Struct):
    source: str
    files: int
    attributes: dict[str, str]
    published: int
    rejected: int
    seconds: float
    first_rejected: list[str] = []

    @property
    def rows_s(self) -> float:
        return self.published / self.seconds if self.seconds else 0.0


class Looked(msgspec.Struct):
    """What is known before there is a Spark."""

    mapping: Mapping
    source: Source
    attributes: list[Attribute]


def look(wanted: Wanted) -> Looked:
    """Every mistake that can be seen without Spark and without a broker."""
    check(wanted)
    mapping = mapping_of(wanted)
    source = opened(wanted.source, wanted.format, wanted.separator)
    return Looked(mapping, source, planned(source, mapping))


def feed(
    spark: SparkSession,
    wanted: Wanted,
    progress: Progress = lambda done, total: None,
    looked: Looked | None = None,
) -> Fed:
    """What was published. After a Trouble, the same call feeds what is left."""
    plan = Plan(spark, wanted, looked or look(wanted))
    began = time.monotonic()
    try:
        with plan.settings():
            published = plan.stream(progress) if wanted.checkpoint else plan.batch(progress)
        rejected, first = plan.reject()
    except Trouble:
        raise
    except Exception as error:
        raise explained(error, staged=not plan.paced) from error
    types: dict[str, str] = {attribute.name: attribute.type or "constant" for attribute in plan.attributes}
    seconds = round(time.monotonic() - began, 3)
    return Fed(wanted.source, len(plan.source.files), types, published, rejected, seconds, first)


def mapping_of(wanted: Wanted) -> Mapping:
    if wanted.mapping is not None and (wanted.attributes or wanted.payload):
        raise Trouble("--mapping says all: leave out --attributes and --payload", USAGE)
    mapping = from_file(wanted.mapping) if wanted.mapping else from_words(wanted.attributes, wanted.payload)
    if wanted.time_column:
        mapping.time = Time(wanted.time_column)
    if wanted.speed is not None and not mapping.time.column:
        raise Trouble("--speed: by which column? say --time-column", USAGE)
    if wanted.speed is None:
        mapping.time = Time()
    return mapping


def check(wanted: Wanted) -> None:
    for name, value in (("rate", wanted.rate), ("speed", wanted.speed)):
        if value is not None and value <= 0:
            raise Trouble(f"--{name} {value:g}: more than 0", USAGE)
    if wanted.rate is not None and wanted.speed is not None:
        raise Trouble("--rate or --speed, not both", USAGE)
    if wanted.time_column and wanted.speed is None:
        raise Trouble("--time-column: how fast? say --speed 1 for as it was", USAGE)
    if wanted.follow and wanted.checkpoint is None:
        raise Trouble("--follow needs --checkpoint: it says what was fed already", USAGE)


class Plan:
    def __init__(self, spark: SparkSession, wanted: Wanted, looked: Looked) -> None:
        self.spark = spark
        self.wanted = wanted
        self.mapping = looked.mapping
        self.source = looked.source
        self.attributes = looked.attributes
        self.paced = wanted.rate is not None or wanted.speed is not None
        activate(spark)

    @contextmanager
    def settings(self) -> Iterator[None]:
        """What pacing needs of the session, for as long as it takes."""
        if not self.paced:
            yield
            return
        from pipeline.paced import PacedDataSource

        self.spark.dataSource.register(PacedDataSource)
        before = self.spark.conf.get(SPLIT)
        self.spark.conf.set(SPLIT, WHOLE_FILES)
        try:
            yield
        finally:
            self.spark.conf.set(SPLIT, before)

    # --- rows -------------------------------------------------------------------------------------

    def shaped(self, stream: bool) -> DataFrame:
        table = rows(self.spark, self.source, stream, files_at_once=1 if self.paced else None)
        return shaped(table, self.source, self.mapping, self.attributes, self.wanted.nulls == "omit")

    def good(self, table: DataFrame) -> DataFrame:
        """Rows to publish. A bad one fails the job, unless there is a place for it."""
        from pyspark.sql import functions as F

        kept = [name for name in (PAYLOAD, TIME) if name in table.columns]
        names = [_quoted(attribute.name) for attribute in self.attributes]
        if self.wanted.rejects is not None:
            return table.where(F.col(PROBLEM).isNull()).select(*names, *kept)
        fail = raised(F.col(FILE), F.col(LINE), F.col(PROBLEM))
        first = F.when(F.col(PROBLEM).isNotNull(), fail).otherwise(F.col(names[0]))
        return table.select(first.alias(self.attributes[0].name), *names[1:], *kept)

    def in_order(self, table: DataFrame, stream: bool) -> DataFrame:
        """What is paced is one task's; by its time it is sorted, unless it is a stream, which cannot be."""
        if not self.paced:
            return table
        if TIME in table.columns and not stream:
            return table.repartition(1).sortWithinPartitions(TIME, *map(_quoted, table.columns))
        return table.coalesce(1)

    @property
    def format(self) -> str:
        return "grapevine-paced" if self.paced else "grapevine"

    def options(self) -> dict[str, str]:
        wanted = self.wanted
        given = {
            "brokers": wanted.broker,
            "payload": PAYLOAD,
            "nullAttributes": wanted.nulls,
            "advertise": wanted.advertise,
            "publisher": wanted.name,
            "once": "number" if self.paced else "stage",
            # Executors may have been started with another environment than this call.
            "keys": wanted.keys or os.environ.get("GRAPEVINE_KEYS", ""),
            "rate": str(wanted.rate or ""),
            "speed": str(wanted.speed or ""),
            "timeout": f"{wanted.timeout_s:g}",
        }
        return {key: value for key, value in given.items() if value}

    # --- batch ------------------------------------------------------------------------------------

    def batch(self, progress: Progress) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        table = self.shaped(stream=False)
        if self.paced and self.wanted.rejects is None and not self.wanted.trusted:
            self._look_first(table)
        seen = Observation(OBSERVED)
        count = F.count(F.lit(1)).alias("rows")
        ready = self.in_order(self.good(table).observe(seen, count), stream=False)
        progress(0, None)
        ready.write.format(self.format).mode("append").options(**self.options()).save()
        published = int(seen.get["rows"])
        progress(published, published)
        return published

    def _look_first(self, table: DataFrame) -> None:
        """What goes out at once cannot be taken back: bad rows are looked for before."""
        bad = table.where(f"{PROBLEM} is not null").select(FILE, LINE, PROBLEM).limit(1).collect()
        if bad:
            row = BadRow(bad[0][0], bad[0][1] or "", bad[0][2])
            raise Trouble(f"{row}; nothing was published")

    # --- stream -----------------------------------------------------------------------------------

    def stream(self, progress: Progress) -> int:
        from pyspark.sql import functions as F

        count = F.count(F.lit(1)).alias("rows")
        ready = self.in_order(self.good(self.shaped(stream=True)).observe(OBSERVED, count), stream=True)
        assert self.wanted.checkpoint is not None
        writer = ready.writeStream.format(self.format).options(**self.options())
        writer = writer.option("checkpointLocation", str(self.wanted.checkpoint.absolute()))
        trigger: dict[str, Any] = {"processingTime": EVERY} if self.wanted.follow else {"availableNow": True}
        query = writer.trigger(**trigger).start()
        counted: dict[int, int] = {}
        try:
            while not query.awaitTermination(LOOK_S):
                _count(query.recentProgress, counted)
                progress(sum(counted.values()), None)
        except KeyboardInterrupt:
            query.stop()
        _count(query.recentProgress, counted)
        return sum(counted.values())

    # --- what could not be published --------------------------------------------------------------

    def reject(self) -> tuple[int, list[str]]:
        """Bad rows of the whole source, as JSON lines with file, line and reason."""
        if self.wanted.rejects is None:
            return 0, []
        bad = self.shaped(stream=False).where(f"{PROBLEM} is not null")
        bad = bad.selectExpr(f"{FILE} file", f"{LINE} line", f"{PROBLEM} problem").persist()
        number = bad.count()
        if number:
            bad.write.mode("overwrite").json(str(self.wanted.rejects.absolute()))
        first = [str(BadRow(row[0], row[1] or "", row[2])) for row in bad.limit(5).collect()]
        bad.unpersist()
        return number, first


def _count(progress: list[Any], counted: dict[int, int]) -> None:
    for one in progress:
        seen = one.observedMetrics.get(OBSERVED)
        if seen is not None:
            counted[one.batchId] = int(seen["rows"])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def main() -> int:
    from pipeline.submitted import feed_command, run

    return run(feed_command)


if __name__ == "__main__":
    sys.exit(main())
