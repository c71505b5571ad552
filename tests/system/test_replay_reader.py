"""The Spark reader of streams as Spark calls it, without Spark: offsets, ranges, commits, broker dead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark`")
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

import grapevine
from grapevine.spark.options import ReplayOptions, read_options
from grapevine.spark.reading import DataLoss
from grapevine.spark.replay import Offsets, ReplayBatch, ReplayStream
from grapevine.spark.stream_link import StreamGone, StreamLink
from tests.system.overlay import Daemon, Overlay
from tests.system.test_pubctl import Pubctl

SCHEMA = StructType(
    [
        StructField("stream", StringType()),
        StructField("offset", LongType()),
        StructField("row", LongType()),
        StructField("publisher", StringType()),
    ]
)
FILTER = "job = 'kept'"


@pytest.fixture
def home(overlay: Overlay) -> Daemon:
    """It keeps a stream; a neighbour, named first, does not."""
    home = overlay.start("b1")
    overlay.start("b2", "b1")
    Pubctl(home.keys, home.address)("stream", "add", "kept", FILTER, "--yes")
    publish(home, range(40))
    return home


def publish(home: Daemon, rows: range) -> None:
    with grapevine.connect(home.address, keys=home.keys, name="writer") as client:
        for row in rows:
            client.publish({"job": "kept", "row": row}, b"x")
        client.flush(timeout=60)


def options(overlay: Overlay, **said: str) -> ReplayOptions:
    addresses = f"{overlay['b2'].address},{overlay['b1'].address}"
    found = read_options(
        {"brokers": addresses, "keys": str(overlay["b1"].keys), "partitionRows": "10", **said}
    )
    assert isinstance(found, ReplayOptions)
    return found


def rows(reader: ReplayStream | ReplayBatch, ranges: Any) -> list[int]:
    return [row["row"] for part in ranges for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_batch_is_read_again_the_same_and_the_home_may_die(overlay: Overlay, home: Daemon) -> None:
    reader = ReplayStream(options(overlay, stream="kept", durable="job", startingOffsets="earliest"), SCHEMA)
    start: Offsets = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(25))
    assert rows(reader, reader.partitions(start, end)) == list(range(25))
    home.kill()
    home.start().ready()
    assert rows(reader, reader.partitions(start, end)) == list(range(25))
    reader.commit(end)
    reader.stop()
    again = ReplayStream(options(overlay, stream="kept", durable="job"), SCHEMA)
    begun = again.initialOffset()
    assert begun == end, "a durable name goes on where it was acknowledged"
    rest = again.latestOffset(begun, ReadMaxRows(25))
    assert rows(again, again.partitions(begun, rest)) == list(range(25, 40))
    assert again.latestOffset(rest, ReadMaxRows(25)) == rest
    again.stop()


def test_publishers_are_named_after_they_left(overlay: Overlay, home: Daemon) -> None:
    home.kill()
    home.start().ready()
    batch = ReplayBatch(options(overlay, stream="kept"), SCHEMA)
    parts = [row for part in batch.partitions() for table in batch.read(part) for row in table.to_pylist()]
    assert parts == [
        {"stream": "kept", "offset": row + 1, "row": row, "publisher": "writer"} for row in range(40)
    ]


def test_acknowledged_is_what_there_is_at_most(overlay: Overlay, home: Daemon) -> None:
    link = StreamLink((home.address,), str(home.keys), 10.0)
    assert link.state("kept", "far").acknowledged == 40
    link.acknowledge("kept", "far", 40)
    with pytest.raises(StreamGone, match="no stream other"):
        link.state("other")
    publish(home, range(40, 42))
    link.acknowledge("kept", "far", 41)
    assert link.state("kept", "far").acknowledged == 41
    link.close()


def test_what_is_gone_is_a_loss_unless_said_otherwise(overlay: Overlay, home: Daemon) -> None:
    strict = ReplayStream(options(overlay, stream="kept", startingOffsets="earliest"), SCHEMA)
    start = strict.initialOffset()
    pubctl = Pubctl(home.keys, home.address)
    pubctl("stream", "rm", "kept", "--yes")
    pubctl("stream", "add", "kept", FILTER, "--yes")
    publish(home, range(3))
    end = strict.latestOffset(start, ReadMaxRows(25))
    with pytest.raises(DataLoss, match="made anew"):
        strict.partitions(start, end)
    strict.stop()
    lenient = ReplayStream(options(overlay, stream="kept", failOnDataLoss="false"), SCHEMA)
    assert rows(lenient, lenient.partitions(start, end)) == [0, 1, 2]
    lenient.stop()


def test_a_durable_name_with_a_filter_makes_its_stream(overlay: Overlay, tmp_path: Path) -> None:
    home = overlay.start("b1")
    overlay.start("b2", "b1")
    alone = options(overlay, durable="mine", filter=FILTER, brokers=home.address)
    reader = ReplayStream(alone, SCHEMA)
    start = reader.initialOffset()
    publish(home, range(5))
    end = reader.latestOffset(start, ReadMaxRows(100))
    assert rows(reader, reader.partitions(start, end)) == list(range(5))
    reader.stop()
