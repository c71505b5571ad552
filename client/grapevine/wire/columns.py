"""An attribute as a column of a dataset: of the column's type, or null."""

from __future__ import annotations

from typing import Any

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
    """A timestamp is in microseconds since 1970."""
    if (
        value is None
        or not isinstance(value, _PYTHON[kind])
        or (isinstance(value, bool) and kind != "boolean")
    ):
        return None
    if kind == "timestamp":
        assert isinstance(value, int | float)
        return int(value * 1e6)
    if kind in ("int", "bigint"):
        limit = 2 ** (31 if kind == "int" else 63)
        return value if isinstance(value, int) and -limit <= value < limit else None
    return float(value) if kind in ("double", "float") else value  # type: ignore[arg-type]
