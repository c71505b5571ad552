"""What the paper says in words of its other settings, as bars: C2/DT3, CPL, fanouts and covering.

It prints no numbers for them but two of figure 12 and two of DT-FB; those stand beside ours in the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tools.reproduce.multipath_figures import Bar, Figures

DELIVERED = "delivered of what was due, per cent"


def trends(figures: Figures) -> Iterator[Bar]:
    yield from _growing(figures, "C2/DT3", "most deliveries over S0, per cent", ("S0", "S1", "S2"), "")
    for dataset in ("CPL/DT4", "CPL/DT5"):
        yield from _growing(figures, dataset, DELIVERED, ("S0", "S1", "S2"), " cap=0.5")
    metric = "delivered at the edge, per cent"
    for strategy in ("S1", "S2", "SH"):
        narrow, wide = (figures.ours(f"C1/DT1 {strategy} fanout={f}", metric) for f in (5, 35))
        yield Bar(f"C1/DT1 {strategy}: {metric}, fanout 35 above 5", wide, narrow, wide > narrow)
    for metric in ("covering set size", "predicate evaluations"):
        value = figures.ours("C3/DT-C fanout=10", f"{metric}, per cent of fanout 5")
        yield Bar(f"C3/DT-C: {metric} at fanout 10, per cent of fanout 5", value, 100.0, value > 100.0)


def _growing(
    figures: Figures, dataset: str, metric: str, strategies: tuple[str, ...], cap: str
) -> Iterator[Bar]:
    for less, more in pairwise(strategies):
        low, high = (figures.ours(f"{dataset} {strategy}{cap}", metric) for strategy in (less, more))
        yield Bar(f"{dataset}{cap}: {metric}, {more} above {less}", high, low, high > low)
