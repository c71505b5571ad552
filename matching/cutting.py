"""What several stores found, sorted by group and cut at the borders into packed labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from matching import kernel
from matching.row import Row

LABEL = np.dtype("<u4")
_Integers = npt.NDArray[Any]
_Part = tuple[_Integers, _Integers]  # groups, labels


def cut(parts: list[_Part], rows: list[Row], ordered: bool) -> list[tuple[int, bytes]]:
    """`ordered`: a single part is sorted by group already."""
    groups, labels = _joined(parts, rows)
    if rows or len(parts) > 1 or not ordered:
        order = groups.argsort(kind="stable")
        groups, labels = groups[order], labels[order]
    return _pieces(groups, labels)


def distinct(parts: list[_Part], rows: list[Row]) -> _Part:
    """Of what may be there twice, each once, sorted by group."""
    groups, labels = _joined(parts, rows)
    pairs = np.unique(groups.astype(np.uint64) << np.uint64(32) | labels)
    return (pairs >> np.uint64(32)).astype(np.int64), pairs.astype(LABEL)


def _joined(parts: list[_Part], rows: list[Row]) -> _Part:
    if rows:
        listed = np.array([row.group for row in rows], np.int64)
        parts = [*parts, (listed, np.array([row.label for row in rows], LABEL))]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _pieces(groups: _Integers, labels: _Integers) -> list[tuple[int, bytes]]:
    if (compiled := kernel.module) is not None and groups.dtype.itemsize == 8:
        return compiled.pieces(groups, labels)  # type: ignore[no-any-return]
    if not len(groups):
        return []
    starts = (groups[1:] != groups[:-1]).nonzero()[0] + 1
    row = labels.tobytes()
    if not len(starts):
        return [(int(groups[0]), row)]
    names = [int(groups[0]), *groups[starts].tolist()]
    borders = [0, *(starts * 4).tolist(), len(row)]
    return [(name, row[a:b]) for name, a, b in zip(names, borders, borders[1:])]
