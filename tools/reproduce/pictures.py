"""Rows as curves: one picture a figure, X or a setting's number along, one line per algorithm."""

from __future__ import annotations

import re
from pathlib import Path

from tools.reproduce.row import Row

_ALONG = re.compile(r"(?P<name>.*?)\s*X=(?P<x>\d+)$")


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Figures of at least two points; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    for (figure, metric), lines in curves_of(rows).items():
        plot, axes = pyplot.subplots(figsize=(6, 4))
        for name, points in lines.items():
            along, values = zip(*sorted(points.items()))
            axes.plot(along, values, marker="o", markersize=3, label=name)
        axes.set_xlabel("X: brokers with subscribers")
        axes.set_ylabel(metric.replace("_", " "))
        axes.set_title(f"Figure {figure}")
        axes.set_ylim(bottom=0)
        axes.legend()
        path = directory / f"grape-{figure.replace(' ', '-')}-{metric}.png"
        plot.savefig(path, dpi=120, bbox_inches="tight")
        pyplot.close(plot)
        drawn.append(path)
    return drawn


def curves_of(rows: list[Row]) -> dict[tuple[str, str], dict[str, dict[int, float]]]:
    """(figure, metric) -> name -> X -> value, where there is more than one X."""
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for row in rows:
        if (match := _ALONG.match(row.setting)) is not None and match["name"]:
            lines = found.setdefault((row.figure, row.metric), {})
            lines.setdefault(match["name"], {})[int(match["x"])] = row.ours
    return {key: lines for key, lines in found.items() if any(len(points) > 1 for points in lines.values())}
