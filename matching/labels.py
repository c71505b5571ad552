"""Labels in the form in which they travel: little-endian u32, packed, one row of bytes for each group."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from sys import byteorder

LABEL_MASK = 0xFFFFFFFF


def packed(labels: Iterable[int]) -> bytes:
    row = array("I", labels)
    if byteorder == "big":
        row.byteswap()
    return row.tobytes()


def by_group(places: Iterable[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """(group, label) pairs, each once, as (group, packed labels), by group."""
    rows: dict[int, list[int]] = {}
    for group, label in places:
        rows.setdefault(group, []).append(label)
    return [(group, packed(rows[group])) for group in sorted(rows)]
