"""What the catalog of a data cluster holds: datasets and channels, as a channel file describes them.

A dataset is fed by publications that match its filter, or is a file; a keyed one is the latest row of each
key. A channel is a query with parameters that runs every `period_s` for all its parameter sets at once;
`period_s` 0 is continuous. In the query the names in `new` mean the rows since the last execution.
"""

from __future__ import annotations

import msgspec

from grapevine.wire.parameters import Parameter

CONTINUOUS = 0.0
# What a fed dataset has beside the columns that its file names, of every publication.
FED_COLUMNS = (
    ("publisher", "string"),
    ("sequence", "bigint"),
    ("accepted_at", "timestamp"),
    ("payload", "binary"),
)


class Dataset(msgspec.Struct, frozen=True, array_like=True):
    """Fed if `filter` is not empty, else static."""

    name: str
    filter: str = ""
    columns: tuple[tuple[str, str], ...] = ()  # name and Spark's type
    key: tuple[str, ...] = ()
    keep_s: float = 3600.0
    file: str = ""
    since: int = 0  # generation of the catalog: one that was dropped and made again is another

    @property
    def fed(self) -> bool:
        return bool(self.filter)

    def same_as(self, other: Dataset) -> bool:
        """But for when it was made."""
        return msgspec.structs.replace(self, since=0) == msgspec.structs.replace(other, since=0)


class Term(msgspec.Struct, frozen=True, array_like=True):
    """A parameter, or a value."""

    parameter: str = ""
    value: str | float | int | bool | None = None


class Column(msgspec.Struct, frozen=True, array_like=True):
    name: str
    alias: str
    type: str


class Comparison(msgspec.Struct, frozen=True, array_like=True):
    column: str
    type: str
    operator: str  # = <> < <= > >=
    term: Term


class Circle(msgspec.Struct, frozen=True, array_like=True):
    """near(latitude, longitude, north, east, km)"""

    latitude: str
    longitude: str
    north: Term
    east: Term
    km: Term


class Direct(msgspec.Struct, frozen=True, array_like=True):
    """A query that only filters the rows of its dataset: all of these must hold."""

    columns: tuple[Column, ...]
    comparisons: tuple[Comparison, ...]
    circles: tuple[Circle, ...]


class Channel(msgspec.Struct, frozen=True, array_like=True):
    name: str
    sql: str
    parameters: tuple[Parameter, ...] = ()
    period_s: float = 10.0
    new: tuple[str, ...] = ()
    keep_s: float = 86_400.0
    version: int = 1
    direct: Direct | None = None  # the back end runs it itself, without a driver

    def same_as(self, other: Channel) -> bool:
        """But for the version."""
        return msgspec.structs.replace(self, version=0) == msgspec.structs.replace(other, version=0)
