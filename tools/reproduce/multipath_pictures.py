"""Soft links in pictures: yields beside the paper's, path lengths, deliveries against uplinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.reproduce.row import Row

Points = dict[str, dict[float, float]]  # strategy -> x -> value


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, paint in _plans(rows):
        plot, axes = pyplot.subplots(figsize=(6, 4))
        paint(axes)
        path = directory / f"multipath-{name}.png"
        plot.savefig(path, dpi=120, bbox_inches="tight")
        pyplot.close(plot)
        drawn.append(path)
    return drawn


def _plans(rows: list[Row]) -> Iterator[tuple[str, Any]]:
    for dataset in ("C1/DT1", "C1/DT2"):
        short = dataset.partition("/")[2].lower()
        yield f"yield-{short}", lambda axes, d=dataset: _yields(axes, rows, d)
        hops = _along(rows, dataset, " X=", "deliveries within X hops, per cent")
        yield f"hops-{short}", lambda axes, p=hops, d=dataset: _lines(axes, p, d, "hops", "deliveries, %")
        caps = _along(rows, dataset, " cap=", "delivered of what was due, per cent")
        label = "uplink, times what S0 needs"
        yield (
            f"uplink-{short}",
            lambda axes, p=caps, d=dataset, x=label: _lines(axes, p, d, x, "delivered, %"),
        )


def _along(rows: list[Row], dataset: str, mark: str, metric: str) -> Points:
    found: Points = {}
    for row in rows:
        if row.metric == metric and row.setting.startswith(dataset) and mark in row.setting:
            name, _, x = row.setting.removeprefix(dataset + " ").partition(mark)
            found.setdefault(name, {})[float(x)] = row.ours
    return found


def _lines(axes: Any, points: Points, title: str, x: str, y: str) -> None:
    for name, values in points.items():
        axes.plot(*zip(*sorted(values.items())), marker="o", markersize=3, label=name)
    axes.set(title=title, xlabel=x, ylabel=y, ylim=(0, 102))
    axes.legend()


def _yields(axes: Any, rows: list[Row], dataset: str) -> None:
    wanted = [r for r in rows if r.metric == "yield in per cent" and r.setting.startswith(dataset)]
    for at, row in enumerate(wanted):
        axes.bar(at - 0.2, row.paper or 0, 0.4, color="0.7", label="paper" if not at else None)
        axes.bar(at + 0.2, row.ours, 0.4, color="tab:blue", label="ours" if not at else None)
    axes.set_xticks(range(len(wanted)), [row.setting.rpartition(" ")[2] for row in wanted])
    axes.set(title=f"{dataset}: yield", ylabel="%", ylim=(0, 100))
    axes.legend()
