"""A query that reads a kept stream and says at which step of a batch it is, so that it can be killed there.

The source is the one that is shipped, under another name, with a gate at each step; the option `steps` names
the gate's directory. `Gate` says how who kills and who is killed meet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grapevine.spark.replay import Offsets, Range, ReplayStream
from grapevine.spark.source import GrapevineDataSource

SOURCE = "grapevine-steps"
STREAM = "stream STRING, offset LONG, row LONG"
STEPS = {
    "asking": "how far the stream is, is asked; the offsets of a batch are not decided",
    "planned": "the offsets are decided, the ranges are not cut",
    "fetching": "a task has a part of its range",
    "written": "a task has all of its range and has passed it on",
    "acknowledging": "the batch before is committed, its broker does not know",
    "acknowledged": "its broker knows",
}
HELD_MOST_S = 20.0


class Gate:
    """Who waits for a step writes its name to `wanted`. The process that comes to it says its id in
    `reached`, and waits until it is killed, or there is `go`."""

    def __init__(self, directory: Path) -> None:
        self.wanted, self.reached, self.go = (directory / each for each in ("wanted", "reached", "go"))

    def want(self, step: str) -> None:
        for path in (self.reached, self.go):
            path.unlink(missing_ok=True)
        draft = self.wanted.with_suffix(".new")
        draft.write_text(step)
        draft.rename(self.wanted)

    def who(self) -> int | None:
        """The process that has come to the step."""
        try:
            return int(self.reached.read_text() or 0) or None
        except FileNotFoundError:
            return None

    def at(self, step: str) -> None:
        """The process that calls this is at the step. Of several tasks one is held."""
        try:
            if self.wanted.read_text() != step:
                return
            self.wanted.rename(self.reached.with_suffix(".new"))
        except FileNotFoundError:
            return
        self.reached.with_suffix(".new").write_text(str(os.getpid()))
        self.reached.with_suffix(".new").rename(self.reached)
        deadline = time.monotonic() + HELD_MOST_S
        while not self.go.exists() and time.monotonic() < deadline:
            time.sleep(0.005)


class SteppingStream(ReplayStream):
    def __init__(self, steps: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gate = Gate(Path(steps))

    def latestOffset(self, start: Offsets, limit: Any) -> Offsets:
        self.gate.at("asking")
        return super().latestOffset(start, limit)

    def partitions(self, start: Offsets, end: Offsets) -> Any:
        self.gate.at("planned")
        return super().partitions(start, end)

    def read(self, partition: Range) -> Iterator[Any]:
        for batch in super().read(partition):
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            self.gate.at("fetching")
            yield batch.slice(half)
        self.gate.at("written")

    def commit(self, end: Offsets) -> None:
        self.gate.at("acknowledging")
        super().commit(end)
        self.gate.at("acknowledged")


class SteppingSource(GrapevineDataSource):
    @classmethod
    def name(cls) -> str:
        return SOURCE

    def streamReader(self, schema: Any) -> SteppingStream:
        steps = self.options.pop("steps")
        shipped = super().streamReader(schema)
        assert isinstance(shipped, ReplayStream)
        return SteppingStream(steps, shipped.replay.options, schema)


def replay(spark: Any, options: dict[str, str], rows: str, checkpoint: str) -> None:
    """All that the stream has, into a directory of Parquet files."""
    spark.dataSource.register(SteppingSource)
    read = spark.readStream.format(SOURCE).schema(STREAM).options(**options).load()
    writer = read.writeStream.format("parquet").option("path", rows).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
