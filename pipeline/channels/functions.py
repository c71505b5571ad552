"""What a channel's query may call beside Spark's own: near and nearest; and the grid that makes near a join.

near(latitude, longitude, latitude, longitude, km): within that great-circle distance; numbers that are no
position are near nothing, as in filters. nearest(Dataset, latitude, longitude, n): the n rows of a static
dataset that are nearest, each a struct of its columns and `km`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from grapevine.filters.geo import EARTH_RADIUS_KM, circle_spans, is_position

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

KM_PER_DEGREE = math.pi * EARTH_RADIUS_KM / 180
DEGREES_MIN = 0.005
STRIDE = 1 << 20  # cells of one row of latitude: more than 360 / DEGREES_MIN
CELLS_A_SET = 64
NOWHERE = -1  # the cell of a set that is no position
AT_ONCE = 1024  # rows whose distances are in memory at a time


def near_sql(a: str, b: str, c: str, d: str, km: str) -> str:
    h = (
        f"(POWER(SIN(RADIANS(({c}) - ({a})) / 2), 2)"
        f" + COS(RADIANS({a})) * COS(RADIANS({c})) * POWER(SIN(RADIANS(({d}) - ({b})) / 2), 2))"
    )
    # IF, not LEAST: that takes 1 for a distance that is null.
    distance = f"2 * {EARTH_RADIUS_KM} * ASIN(SQRT(IF({h} > 1, 1, {h})))"
    places = " AND ".join(
        f"({value}) BETWEEN -{most} AND {most}" for value, most in ((a, 90), (b, 180), (c, 90), (d, 180))
    )
    return f"({places} AND {distance} <= ({km}))"


def cell_sql(latitude: str, longitude: str, degrees: float) -> str:
    """Must agree with `cell`."""
    row, column = (f"CAST(FLOOR(({each}) / {degrees!r}) AS BIGINT)" for each in (latitude, longitude))
    return f"({row} * {STRIDE} + {column})"


def cell(latitude: float, longitude: float, degrees: float) -> int:
    return math.floor(latitude / degrees) * STRIDE + math.floor(longitude / degrees)


def cells(latitude: float, longitude: float, km: float, degrees: float) -> list[int]:
    """Every cell that the circle may touch; over the date line and around a pole too. One at least, so that
    no set disappears from the table."""
    if not is_position(latitude, longitude) or not km >= 0:
        return [NOWHERE]
    (south, north), spans = circle_spans(latitude, longitude, km)
    rows = range(math.floor(south / degrees), math.floor(north / degrees) + 1)
    found = {
        row * STRIDE + column
        for row in rows
        for west, east in spans
        for column in range(math.floor(west / degrees), math.floor(east / degrees) + 1)
    }
    return sorted(found)


def cell_count(latitude: float, longitude: float, km: float, degrees: float) -> int:
    if not is_position(latitude, longitude) or not km >= 0:
        return 1
    (south, north), spans = circle_spans(latitude, longitude, km)
    rows = math.floor(north / degrees) - math.floor(south / degrees) + 1
    return rows * sum(math.floor(east / degrees) - math.floor(west / degrees) + 1 for west, east in spans)


def cell_degrees(circles: Sequence[tuple[float, float, float]]) -> float:
    """The median radius, and coarser while that makes too many cells of large circles."""
    radii = [km for _, _, km in circles if math.isfinite(km) and km > 0]
    degrees = max(DEGREES_MIN, median(radii) / KM_PER_DEGREE if radii else 0.0)
    while sum(cell_count(*circle, degrees) for circle in circles) > CELLS_A_SET * len(circles) + 10_000:
        degrees *= 2
    return degrees


def nearest_name(dataset: str) -> str:
    return f"__nearest_{dataset}"


def nearest_rows(latitudes: Any, longitudes: Any, lat: Any, lon: Any, count: int) -> tuple[Any, Any]:
    """Indexes of the nearest positions and their distances, row by row (n x count), nearest first; ties by
    index. numpy arrays all."""
    import numpy as np

    a, b = np.radians(latitudes), np.radians(longitudes)
    phi, lam = np.radians(lat)[:, None], np.radians(lon)[:, None]
    h = np.sin((phi - a) / 2) ** 2 + np.cos(phi) * np.cos(a) * np.sin((lam - b) / 2) ** 2
    count = min(count, len(a))
    best = np.argsort(h, axis=1, kind="stable")[:, :count]
    near = np.take_along_axis(h, best, axis=1)
    return best, 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(near, 1.0)))


def register_nearest(spark: SparkSession, name: str, table: pa.Table, schema: str) -> None:
    """`table` has latitude and longitude in columns `lat` and `lon`; `schema` is its columns as Spark's."""
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    sent = spark.sparkContext.broadcast(table)

    def nearest(lat: pa.Array, lon: pa.Array, count: pa.Array) -> pa.Array:
        return nearest_array(sent.value, lat, lon, count)

    nearest.__annotations__ = dict.fromkeys(("lat", "lon", "count", "return"), pa.Array)  # not as text
    spark.udf.register(nearest_name(name), arrow_udf(nearest, f"array<struct<{schema}, km double>>"))


def nearest_array(table: pa.Table, lat: pa.Array, lon: pa.Array, count: pa.Array) -> pa.Array:
    """A list for each row, of as many as it asks for; nothing near a place that is null or none."""
    import numpy as np
    import pyarrow as pa

    x, y, north, east = (_floats(each) for each in (lat, lon, table["lat"], table["lon"]))
    table, north, east = table.filter(pa.array(_places(north, east))), *_of_places(north, east)
    asked = np.array([max(each or 0, 0) for each in count.to_pylist()], np.int64)
    lengths = np.where(_places(x, y), np.minimum(asked, len(north)), 0)
    at: list[Any] = [np.zeros(0, np.int64)]
    away: list[Any] = [np.zeros(0)]
    for begin in range(0, len(x), AT_ONCE):
        here = begin + np.flatnonzero(lengths[begin : begin + AT_ONCE])
        if len(here):
            best, km = nearest_rows(north, east, x[here], y[here], int(lengths[here].max()))
            mine = np.arange(best.shape[1]) < lengths[here][:, None]
            at.append(best[mine])
            away.append(km[mine])
    taken = table.take(pa.array(np.concatenate(at), pa.int64()))
    columns = [*(each.combine_chunks() for each in taken.columns), pa.array(np.concatenate(away))]
    fields = [*table.schema, pa.field("km", pa.float64())]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=fields))


def _floats(column: Any) -> Any:
    """NaN for null."""
    import numpy as np

    return np.array([math.nan if each is None else float(each) for each in column.to_pylist()], float)


def _places(latitudes: Any, longitudes: Any) -> Any:
    return (abs(latitudes) <= 90) & (abs(longitudes) <= 180)


def _of_places(latitudes: Any, longitudes: Any) -> tuple[Any, Any]:
    mine = _places(latitudes, longitudes)
    return latitudes[mine], longitudes[mine]


def set_rows(
    sets: Iterable[tuple[int, Sequence[Any]]], names: Sequence[str], circle: Any, degrees: float
) -> dict[str, list[Any]]:
    """`__sets` by columns: (be, values) each once, or once for each cell of its circle."""
    columns: dict[str, list[Any]] = {"__be": [], **{f"__p_{name}": [] for name in names}}
    if circle is not None:
        columns["__cell"] = []
    for be, values in sets:
        found: list[int | None] = [None]
        if circle is not None:
            found = list(cells(*circle_of(names, values, circle), degrees))
        for each in found:
            columns["__be"].append(be)
            for name, value in zip(names, values):
                columns[f"__p_{name}"].append(value)
            if circle is not None:
                columns["__cell"].append(each)
    return columns


def circle_of(names: Sequence[str], values: Sequence[Any], circle: Any) -> tuple[float, float, float]:
    by = dict(zip(names, values))
    km = by[circle.km] if isinstance(circle.km, str) else circle.km
    return float(by[circle.latitude]), float(by[circle.longitude]), float(km)
