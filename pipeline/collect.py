"""SPEC S3: the delivery logs of all brokers as one collection of Parquet, again and again (`pubctl collect`).

The driver looks at the segments and cuts what is new into pieces of whole lines; tasks read and convert them.
Nothing is shuffled and nothing is held: memory does not grow with the logs. The logs must be visible to the
executors under the same path.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.collection import Collection, Manifest, Reading
from pipeline.segments import Piece, Segment, find, groups, pieces
from pipeline.trouble import NOT_FOUND, Trouble

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

DAMAGED_SHOWN = 5


class Log(msgspec.Struct):
    """Where a broker's segments lie."""

    broker: str
    directories: list[Path]


class Found(msgspec.Struct):
    """What there is to collect."""

    segments: list[Segment]
    fresh: list[Piece]
    looked_ns: dict[str, int]
    missing: dict[str, str]  # broker -> why there is no log of it
    torn: int = 0


class Collected(msgspec.Struct):
    directory: str
    run: int | None  # None: nothing was new
    events: int
    total: int  # events in the collection
    rows: list[dict[str, Any]]  # one a broker
    missing: dict[str, str]
    damaged: list[str]  # the first lines that are no events, in words
    damaged_lines: int
    torn_lines: int
    seconds: float


def collect(spark: SparkSession, logs: Iterable[Log], to: Path) -> Collected:
    began = time.monotonic()
    with Collection(to) as collection:
        before = collection.manifest
        found = look(logs, before)
        if not found.looked_ns:
            why = "; ".join(found.missing.values()) or "no broker was named"
            raise Trouble(f"no delivery log to collect: {why}", NOT_FOUND)
        manifest = advanced(before, found)
        events, damaged, places = write(spark, found.fresh, collection.staging)
        manifest.events += events
        manifest.damaged += damaged
        if manifest != before:
            collection.commit(msgspec.structs.replace(manifest, run=before.run + 1))
        return Collected(
            str(to),
            collection.manifest.run if found.fresh else None,
            events,
            manifest.events,
            rows(found, before),
            found.missing,
            [told(place) for place in places[:DAMAGED_SHOWN]],
            damaged,
            found.torn,
            round(time.monotonic() - began, 3),
        )


# --- what is new ----------------------------------------------------------------------------------


def look(logs: Iterable[Log], before: Manifest) -> Found:
    found = Found([], [], {}, {})
    for log in logs:
        looked_ns = time.time_ns()
        try:
            segments = [segment for segment in find(log.directories) if segment.broker == log.broker]
        except OSError as error:
            found.missing[log.broker] = f"{log.broker}: {error.filename or log.directories}: {error.strerror}"
            continue
        if not log.directories:
            found.missing[log.broker] = f"{log.broker}: no delivery log"
            continue
        found.looked_ns[log.broker] = looked_ns
        for segment in segments:
            done = before.done(log.broker, segment.key)
            found.torn += bool(segment.torn and done < segment.whole + segment.torn)
            found.fresh += pieces(segment, done)
            found.segments.append(segment)
    return found


def advanced(before: Manifest, found: Found) -> Manifest:
    """The positions after this run. A torn last line is passed, so that it is told once."""
    manifest = msgspec.json.decode(msgspec.json.encode(before), type=Manifest)
    for broker, looked_ns in found.looked_ns.items():
        manifest.brokers.setdefault(broker, Reading(0)).looked_ns = looked_ns
    for segment in found.segments:
        done = manifest.brokers[segment.broker].segments
        done[segment.key] = max(segment.whole + segment.torn, done.get(segment.key, 0))
    manifest.torn += found.torn
    return manifest


# --- reading and writing --------------------------------------------------------------------------


def write(spark: SparkSession, fresh: list[Piece], to: Path) -> tuple[int, int, list[str]]:
    """Events written, lines set aside, and places of the first of those."""
    if not fresh:
        return 0, 0, []
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation("collect")
    events = read(spark, fresh).observe(
        seen,
        F.count("event").alias("events"),
        F.sum("damaged").alias("damaged"),
        F.collect_list("place").alias("places"),
    )
    t = F.expr("timestamp_micros(t_ns div 1000)")
    kept = events.where("event is not null").drop("damaged", "place")
    kept = kept.withColumn("t", t).withColumn("date", F.date_format("t", "yyyy-MM-dd"))
    names = [name for name in kept.columns if name not in ("t", "t_ns")]
    kept.select("t", "t_ns", *names).write.partitionBy("date", "broker").parquet(str(to.absolute()))
    return seen.get["events"], seen.get["damaged"] or 0, sorted(seen.get["places"])


def read(spark: SparkSession, fresh: list[Piece]) -> DataFrame:
    from pipeline.lines import FOUND_DDL

    tasks = groups(fresh)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pipeline.lines import read

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(tasks[number])

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, FOUND_DDL)


def told(place: str) -> str:
    from pipeline.lines import line_number

    path, _, position = place.rpartition("\n")
    return f"{path}, line {line_number(path, int(position))}: not an event, left out"


def rows(found: Found, before: Manifest) -> list[dict[str, Any]]:
    listed = []
    for broker in found.looked_ns:
        mine = [segment for segment in found.segments if segment.broker == broker]
        fresh = sum(max(0, s.whole - before.done(broker, s.key)) for s in mine)
        listed.append({"broker": broker, "state": "collected", "segments": len(mine), "bytes": fresh})
    listed += [{"broker": broker, "state": why} for broker, why in found.missing.items()]
    return listed


# --- by spark-submit ------------------------------------------------------------------------------


def main() -> int:
    from pipeline.submitted import collect_command, run

    return run(collect_command)


if __name__ == "__main__":
    sys.exit(main())
