"""Exclude lists beside publications: each list stands for all that follow each other with it (DECISIONS 18).

A publication itself does not carry its list, so one object can wait on several links, with other lists there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import Batch, ExcludingBatch, LaneBatch, Publication, Publish

Names = tuple[int, ...]


def part(exclusions: Sequence[Exclusion], low: int, high: int) -> list[Exclusion]:
    """Those of the publications from `low` to before `high`, counted from there."""
    return [
        Exclusion(max(each.start, low) - low, min(each.end, high) - low, each.names)
        for each in exclusions
        if each.start < high and each.end > low
    ]


def shifted(exclusions: Sequence[Exclusion], by: int) -> list[Exclusion]:
    """Those of publications behind `by` others."""
    return [Exclusion(each.start + by, each.end + by, each.names) for each in exclusions]


def of_batch(batch: Batch | Publish, repeated: int) -> list[Exclusion]:
    """Those of its publications but the first, which were here before."""
    if not isinstance(batch, ExcludingBatch | LaneBatch):
        return []
    return part(batch.exclusions, repeated, len(batch.publications)) if repeated else batch.exclusions


def stretches(
    publications: list[Publication], exclusions: Sequence[Exclusion]
) -> Iterator[tuple[Names, list[Publication]]]:
    """All the publications in their order, those together that have one list, or none."""
    place = 0
    for each in exclusions:
        if each.start > place:
            yield (), publications[place : each.start]
        yield each.names, publications[each.start : each.end]
        place = each.end
    if place < len(publications):
        yield (), publications[place:] if place else publications
