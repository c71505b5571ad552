"""How the demo's feeds are published: by Spark jobs, or by clients where there is no Spark.

Both know how much was sent, when they are done, and what went wrong; both end when they are told to.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

import grapevine
from pipeline.trouble import Trouble
from tools.pubctl.demo.audience import Published, Speaker
from tools.pubctl.demo.scene import FEEDS, Feed
from tools.pubctl.demo.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_S = 30.0
MASTER = "local[4]"  # three feeds at once, each waits most of the time
START_S = 300.0  # twelve where nothing else runs


class Feeds(Protocol):
    def enter(self) -> None: ...
    def start(self) -> None: ...
    def going(self) -> bool: ...
    def sent(self, brokers: list[dict[str, Any]]) -> int: ...
    def finish(self) -> None: ...
    def stop(self) -> None: ...
    def undelivered(self) -> dict[str, str]: ...


class ClientFeeds:
    def __init__(self, stage: Stage, published: Published, rate: float) -> None:
        self.stage = stage
        self.published = published
        self.rate = rate
        self.speakers: list[Speaker] = []

    def enter(self) -> None:
        for feed in FEEDS:
            client = grapevine.connect(self.stage.address(feed.broker), name=feed.name, keys=self.stage.keys)
            client.advertise(feed.advertisement)
            self.speakers.append(Speaker(client, self.published[feed.name], self.rate * feed.share))

    def start(self) -> None:
        for speaker in self.speakers:
            speaker.start()

    def going(self) -> bool:
        return any(speaker.is_alive() for speaker in self.speakers)

    def sent(self, brokers: list[dict[str, Any]]) -> int:
        return sum(speaker.sent for speaker in self.speakers)

    def finish(self) -> None:
        for speaker in self.speakers:
            speaker.finish(SETTLE_S)

    def stop(self) -> None:
        for speaker in self.speakers:
            speaker.stop()

    def undelivered(self) -> dict[str, str]:
        return {speaker.name: speaker.undelivered for speaker in self.speakers if speaker.undelivered}


class SparkFeeds:
    """Spark takes some seconds to start, so it starts beside the brokers."""

    def __init__(self, stage: Stage, published: Published, rate: float) -> None:
        self.stage = stage
        self.rate = rate
        self.spark: SparkSession | None = None
        self._files = {feed.name: write(stage.directory, feed, published[feed.name]) for feed in FEEDS}
        self._published: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._stack = ExitStack()
        self._opening = threading.Thread(target=self._open, daemon=True)
        self._jobs = [threading.Thread(target=self._feed, args=(feed,), daemon=True) for feed in FEEDS]
        self._opening.start()

    def _open(self) -> None:
        from grapevine.spark.session import SHORT_LIVED
        from pipeline.session import opened

        try:
            self.spark = self._stack.enter_context(opened("grapevine demo", MASTER, **SHORT_LIVED))
        except Trouble as trouble:
            self._troubles["spark"] = str(trouble)

    def enter(self) -> None:
        self._opening.join(START_S)
        if self.spark is None:
            raise Trouble(self._troubles.get("spark", f"Spark is not there after {START_S:g} s"))

    def start(self) -> None:
        for job in self._jobs:
            job.start()

    def _feed(self, feed: Feed) -> None:
        from pipeline.ingest import Wanted
        from pipeline.ingest import feed as run

        assert self.spark is not None
        wanted = Wanted(
            str(self._files[feed.name]),
            self.stage.address(feed.broker),
            rate=self.rate * feed.share,
            name=feed.name,
            advertise=feed.advertisement,
            keys=str(self.stage.keys),
            trusted=True,
        )
        try:
            self._published[feed.name] = run(self.spark, wanted).published
        except Trouble as trouble:
            self._troubles[feed.name] = str(trouble)

    def going(self) -> bool:
        return any(job.is_alive() for job in self._jobs)

    def sent(self, brokers: list[dict[str, Any]]) -> int:
        """What the brokers have accepted; at the end, what the jobs say."""
        if len(self._published) == len(FEEDS):
            return sum(self._published.values())
        return sum(row["accepted"] for row in brokers)

    def finish(self) -> None:
        for job in self._jobs:
            job.join()

    def stop(self) -> None:
        self._opening.join(START_S)
        self._stack.close()

    def undelivered(self) -> dict[str, str]:
        return dict(self._troubles)


def write(directory: Path, feed: Feed, contents: list[Any]) -> Path:
    """What a feed will say, as the file that Spark reads."""
    path = directory / f"{feed.name}.jsonl"
    path.write_bytes(msgspec.json.Encoder().encode_lines(contents))
    return path
