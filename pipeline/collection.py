"""What has been collected: a directory of Parquet, one subdirectory a run, and in it what that run had read.

A run writes beside the others and becomes part of them by one rename, events and reading positions together:
whatever ends a run in the middle leaves the collection as it was. Below a run lie `date=.../broker=...`. The
newest run's `_collected.json` says for every segment how much of it is here, and for every broker when its
log was last looked at.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.trouble import FAILED, NOT_FOUND, Trouble

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST = "_collected.json"
STAGING = "_unfinished"
LOCK = "_lock"
# The partition columns are named here: Spark would read a broker called 007 as the number 7.
EVENTS_DDL = (
    "t timestamp, t_ns long, event string, publisher string, seq long, to string, subscriptions array<long>, "
    "hops int, delay_us long, pure boolean, reason string, run int, date string, broker string"
)


class Reading(msgspec.Struct):
    """Of one broker."""

    looked_ns: int  # when its log was last looked at: what it logged until then is here
    segments: dict[str, int] = {}  # key -> bytes


class Manifest(msgspec.Struct):
    run: int = 0
    brokers: dict[str, Reading] = {}
    events: int = 0  # of all runs
    torn: int = 0
    damaged: int = 0

    def done(self, broker: str, key: str) -> int:
        reading = self.brokers.get(broker)
        return reading.segments.get(key, 0) if reading is not None else 0


class Collection:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = self._read()

    def runs(self) -> list[Path]:
        found = (path for path in self.directory.glob("run=*") if (path / MANIFEST).exists())
        return sorted(found, key=lambda path: int(path.name.partition("=")[2]))

    def _read(self) -> Manifest:
        runs = self.runs()
        if not runs:
            return Manifest()
        path = runs[-1] / MANIFEST
        try:
            return msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (OSError, msgspec.MsgspecError) as error:
            raise Trouble(f"{path}: not readable as what was collected: {error}", FAILED) from None

    # --- writing ----------------------------------------------------------------------------------

    def __enter__(self) -> Collection:
        """One writer at a time; what a run left that did not finish is removed."""
        import fcntl

        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Trouble(f"{self.directory} cannot be written: {error.strerror}", FAILED) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise Trouble(f"another collect writes to {self.directory}", FAILED) from None
        self.manifest = self._read()
        shutil.rmtree(self.staging, ignore_errors=True)
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)
        os.close(self._lock)

    @property
    def staging(self) -> Path:
        return self.directory / STAGING

    def commit(self, manifest: Manifest) -> Path:
        self.staging.mkdir(exist_ok=True)
        with open(self.staging / MANIFEST, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        place = self.directory / f"run={manifest.run:06d}"
        self.staging.rename(place)
        self.manifest = manifest
        return place

    # --- reading ----------------------------------------------------------------------------------

    def check(self) -> None:
        if not self.runs():
            raise Trouble(
                f"nothing is collected in {self.directory}: first `pubctl collect TOPOLOGY --to DIRECTORY`",
                NOT_FOUND,
            )

    def events(self, spark: SparkSession) -> DataFrame:
        self.check()
        return spark.read.schema(EVENTS_DDL).parquet(str(self.directory.absolute()))
