"""BlueDove in pictures: scaling, policies, elasticity, workload. The paper's values in grey."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.reproduce.multipath_panels import STYLE
from tools.reproduce.row import Row

COLOURS = {"bluedove": "#0072b2", "p2p": "#e69f00", "full": "#7f7f7f", "one": "#009e73", "overlap": "#0072b2"}
PLACEMENTS = ("one", "overlap")


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": "bluedove"}):
        for name, paint in PICTURES.items():
            plot, panels = pyplot.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
            paint(panels, rows)
            path = directory / f"bluedove-{name}.svg"
            plot.savefig(path, metadata={"Date": None})
            pyplot.close(plot)
            drawn.append(path)
    return drawn


def _scaling(panels: Any, rows: list[Row]) -> None:
    for axes, placement in zip(panels, PLACEMENTS):
        for system in ("bluedove", "p2p", "full"):
            points = sorted(
                (int(row.setting.split()[1][2:]), row.ours)
                for row in rows
                if row.figure == "6a"
                and row.setting.startswith(placement + " ")
                and row.setting.endswith(system)
            )
            axes.plot(*zip(*points), marker="o", markersize=3, color=COLOURS[system], label=system)
        axes.set(title=f"copies: {placement}", xlabel="matchers", ylabel="messages/s", yscale="log")
    panels[0].legend(loc="upper left", frameon=False)


def _beside(axes: Any, found: list[tuple[str, Row]], title: str) -> None:
    for at, (_, row) in enumerate(found):
        if row.paper is not None:
            bar = axes.bar(at - 0.2, row.paper, 0.38, color="#d5d5d5", label=None if at else "paper")
            axes.bar_label(bar, fmt="%.2g", fontsize=8, color="#666666")
        bar = axes.bar(at + 0.2, row.ours, 0.38, color=COLOURS[row.setting.split()[0]])
        axes.bar_label(bar, fmt="%.2g", fontsize=8)
    axes.set_xticks(range(len(found)), [name for name, _ in found], fontsize=8)
    axes.set(title=title)
    axes.grid(False, axis="x")


def _policies(panels: Any, rows: list[Row]) -> None:
    for axes, placement in zip(panels, PLACEMENTS):
        found = [
            (f"{row.metric.split()[-1]}\n{row.setting.partition('=')[2]}", row)
            for row in rows
            if row.figure == "7" and row.setting.startswith(f"{placement} mu=") and " over " in row.metric
        ]
        _beside(axes, found, f"adaptive over others, copies: {placement}")
        axes.tick_params(axis="x", labelrotation=90)


def _workloads(panels: Any, rows: list[Row]) -> None:
    for axes, figure in zip(panels, ("11b", "11c")):
        wanted = [r for r in rows if r.figure == figure and "P2P" not in r.metric]
        _beside(axes, [(row.setting.replace(" ", "\n"), row) for row in wanted], f"Fig. {figure}")


def _dimensions(panels: Any, rows: list[Row]) -> None:
    for axes, placement in zip(panels, PLACEMENTS):
        wanted = [r for r in rows if r.figure == "11a" and r.setting.startswith(placement + " ")]
        _beside(axes, [(row.setting.split()[1], row) for row in wanted], f"dimensions, copies: {placement}")


def _elasticity(panels: Any, rows: list[Row]) -> None:
    for axes, policy in zip(panels, ("adaptive", "price")):
        mark = f"overlap {policy} second="
        points = [
            (float(row.setting.removeprefix(mark)), row.ours) for row in rows if row.setting.startswith(mark)
        ]
        axes.plot(*zip(*points), color="#0072b2", linewidth=1)
        axes.set(title=f"a matcher joins when saturated: {policy}", xlabel="s", ylabel="mean response, s")


PICTURES: dict[str, Callable[[Any, list[Row]], None]] = {
    "scaling": _scaling,
    "policies": _policies,
    "dimensions": _dimensions,
    "workloads": _workloads,
    "elasticity": _elasticity,
}
