"""An attribute as a column of a dataset: of the column's type, or null."""

from __future__ import annotations

from typing import Any

from grapevine.wire.parameters import TIMES

_PYTHON: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "double": (int, float),
    "float": (int, float),
    "bigint": int,
    "int": int,
    "boolean": bool,
    "timestamp": (int, float),
}


def column_value(value: object, kind: str) -> Any:
    """A timestamp is in microseconds since 1970; seconds that are no time of the years 1 to 9999 are null."""
    if (
        value is None
        or not isinstance(value, _PYTHON[kind])
        or (isinstance(value, bool) and kind != "boolean")
    ):
        return None
    if kind == "timestamp":
        assert isinstance(value, int | float)
        return int(value * 1e6) if TIMES[0] <= value * 1e6 <= TIMES[1] else None
    if kind in ("int", "bigint"):
        limit = 2 ** (31 if kind == "int" else 63)
        return value if isinstance(value, int) and -limit <= value < limit else None
    return float(value) if kind in ("double", "float") else value  # type: ignore[arg-type]
