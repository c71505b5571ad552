"""The data source `grapevine` with a pace: rows wait in the writer, where nothing stands between them and the broker.

Options beside those of `grapevine`: `rate` (rows a second), or `speed` with the seconds in the last column,
which is no attribute.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grapevine.spark.source import GrapevineDataSource
from grapevine.spark.writers import BatchWriter, Fed, StreamWriter
from pipeline.pace import Pace, by_rate, by_time

NAME = "grapevine-paced"
RATE, SPEED = "rate", "speed"


class PacedDataSource(GrapevineDataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        pace, schema = self._split(schema)
        return PacedBatchWriter(super().writer(schema, overwrite), pace)

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        pace, schema = self._split(schema)
        return PacedStreamWriter(super().streamWriter(schema, overwrite), pace)

    def _split(self, schema: Any) -> tuple[Pace, Any]:
        """The pace, and the schema without its time; the options are then those of `grapevine`."""
        from pyspark.sql.types import StructType

        said = {key.lower(): value for key, value in self.options.items()}
        rate, speed = said.pop(RATE, None), said.pop(SPEED, None)
        self.options = said
        if rate is not None:
            return by_rate(float(rate)), schema
        assert speed is not None, "a rate or a speed"
        return by_time(len(schema.fields) - 1, float(speed)), StructType(schema.fields[:-1])


class PacedBatchWriter(BatchWriter):
    def __init__(self, plain: BatchWriter, pace: Pace) -> None:
        self.__dict__.update(plain.__dict__)
        self.pace = pace

    def write(self, iterator: Iterator[Any]) -> Fed:
        return super().write(self.pace(iterator))


class PacedStreamWriter(StreamWriter):
    def __init__(self, plain: StreamWriter, pace: Pace) -> None:
        self.__dict__.update(plain.__dict__)
        self.pace = pace

    def write(self, iterator: Iterator[Any]) -> Fed:
        return super().write(self.pace(iterator))
