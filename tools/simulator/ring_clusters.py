"""Clusters in which a ring's users are placed: what a broker believes of another is what that one said."""

from __future__ import annotations

from collections.abc import Iterator

from overlay.chord.clusters import Cluster, Colleague
from overlay.chord.placing import Placement
from overlay.core import Core


def clusters_of(cores: list[Core]) -> dict[int, Cluster]:
    return {core.id: one for core in cores for one in core.behaviours if isinstance(one, Cluster)}


def placed(cores: list[Core]) -> dict[str, float]:
    found = [one for core in cores for one in core.behaviours if isinstance(one, Placement)]
    return {"placed": sum(one.moved for one in found)} if found else {}


def _beliefs(cores: list[Core]) -> Iterator[tuple[str, Cluster, Colleague]]:
    found = clusters_of(cores)
    for cluster in found.values():
        for broker, colleague in cluster.colleagues.items():
            if broker in found:
                yield f"{cluster.core.name} of {colleague.node.name}", found[broker], colleague


def not_up_to_date(cores: list[Core]) -> list[str]:
    return [
        f"{who}: not the last word" for who, other, one in _beliefs(cores) if one.version != other.version
    ]


def wrong_beliefs(cores: list[Core]) -> list[str]:
    return [
        f"{who}: {sorted(one.topics ^ other.told)[:3]} are not as it said"
        for who, other, one in _beliefs(cores)
        if one.version == other.version and one.topics != other.told
    ]
