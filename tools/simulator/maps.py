"""Master overlay maps against the tree as it is, when the world is at rest: each holds its broker's
Delta-neighbourhood, with the right ways, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlay.softlinks.neighbourhoods import Neighbourhoods

if TYPE_CHECKING:
    from tools.simulator.tables import Comparison


def compare_maps(comparison: Comparison) -> None:
    for broker in comparison.brokers:
        core = comparison.core(broker)
        master = next(b for b in core.behaviours if isinstance(b, Neighbourhoods)).master
        if master.delta > 1 and master.via != (right := _ways(comparison, broker, master.delta)):
            names = {comparison.core(b).id: comparison.core(b).name for b in comparison.brokers}
            wrong = sorted(names.get(b, "?") for b, _ in master.via.items() ^ right.items())
            comparison.oracle.violation(f"the map of {core.name} is wrong about {', '.join(wrong)}")


def _ways(comparison: Comparison, start: int, delta: int) -> dict[int, int]:
    """By id: each broker within Delta hops, and the one before it."""
    ways: dict[int, int] = {}
    front, seen = [start], {start}
    for _ in range(delta):
        following = []
        for broker in front:
            for other in sorted(comparison.tree.get(broker, ())):
                if other not in seen:
                    seen.add(other)
                    ways[comparison.core(other).id] = comparison.core(broker).id
                    following.append(other)
        front = following
    return ways
