"""Pictures of the other settings: paths in the mesh, fanouts, covering, PlanetLab's brokers, wall posts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.reproduce.multipath_datasets import CAPS, WALL
from tools.reproduce.multipath_panels import COLOURS, along, lines
from tools.reproduce.row import Row

Paint = Callable[[Any, list[Row]], None]
SIZE, EVALUATIONS = "covering set size", "predicate evaluations"


def more_pictures(rows: list[Row]) -> dict[str, Paint]:
    wall: dict[str, Paint] = {"wall": _wall} if any(r.setting.startswith(WALL) for r in rows) else {}
    return {"paths": _paths, "fanout": _fanouts, "covering": _covering, "planetlab": _planetlab} | wall


def _paths(panels: Any, rows: list[Row]) -> None:
    for axes, dataset in zip(panels, ("C1/DT1", "C2/DT3")):
        lines(axes, along(rows, dataset, " X=", "paths between brokers X hops apart"))
        axes.set_yscale("log")
        axes.set(
            title=f"{dataset}: ways in the mesh", xlabel="hops apart on the tree", ylabel="paths, median"
        )
    panels[0].legend(loc="upper left", frameon=False)


def _fanouts(panels: Any, rows: list[Row]) -> None:
    """Of the datasets that were swept; the quick form sweeps one."""
    metric = "delivered at the edge, per cent"
    for axes, dataset in zip(panels, ("C1/DT1", "C2/DT3")):
        points = along(rows, dataset, " fanout=", metric)
        axes.set_visible(bool(points))
        lines(axes, points)
        axes.set(title=f"{dataset}, uplinks of 0.25", xlabel="fanout", ylabel="delivered, %", ylim=(0, 102))
    if panels[0].get_visible():
        panels[0].legend(loc="upper left", frameon=False, ncols=2)


def _covering(panels: Any, rows: list[Row]) -> None:
    found = {
        metric: [r for r in rows if r.figure == "12" and r.metric.startswith(metric)]
        for metric in (SIZE, EVALUATIONS)
    }
    for (metric, wanted), colour in zip(found.items(), (COLOURS["S2"], COLOURS["S1"])):
        x = [float(row.setting.rpartition("=")[2]) for row in wanted]
        panels[0].plot(x, [row.ours for row in wanted], marker="o", markersize=3, color=colour, label=metric)
        paper = [(at, row.paper) for at, row in zip(x, wanted) if row.paper is not None]
        panels[0].plot(*zip(*paper), linestyle="dotted", marker="x", color=colour, label="paper")
    panels[0].set(title="C3/DT-C", xlabel="fanout", ylabel="% of fanout 5", ylim=(95, None))
    panels[0].legend(loc="upper right", frameon=False)
    links = [r for r in rows if r.figure == "12" and r.metric == "soft links a broker"]
    x = [float(row.setting.rpartition("=")[2]) for row in links]
    panels[1].plot(x, [row.ours for row in links], marker="o", markersize=3, color=COLOURS["S2"])
    panels[1].set(title="links that S2 keeps", xlabel="fanout", ylabel="soft links a broker", ylim=(0, None))


def _planetlab(panels: Any, rows: list[Row]) -> None:
    for axes, dataset in zip(panels, ("CPL/DT4", "CPL/DT5")):
        _curve(axes, rows, dataset)
    panels[1].legend(loc="lower right", frameon=False)


def _wall(panels: Any, rows: list[Row]) -> None:
    _curve(panels[0], rows, WALL)
    panels[0].legend(loc="lower right", frameon=False)
    wanted = [
        row
        for row in rows
        if row.metric == "most deliveries over S0, per cent" and row.setting.startswith(WALL)
    ][1:]
    for at, row in enumerate(wanted):
        if row.paper is not None:
            bar = panels[1].bar(at - 0.2, row.paper, 0.38, color="#d5d5d5", label=None if at else "paper")
            panels[1].bar_label(bar, fmt="%.0f", fontsize=8, color="#666666")
        bar = panels[1].bar(at + 0.2, row.ours, 0.38, color=COLOURS[row.setting.rpartition(" ")[2]])
        panels[1].bar_label(bar, fmt="%.0f", fontsize=8)
    panels[1].set_xticks(range(len(wanted)), [row.setting.rpartition(" ")[2] for row in wanted])
    panels[1].set(title="most deliveries over S0's, %")
    panels[1].grid(False, axis="x")
    panels[1].legend(loc="upper right", frameon=False)


def _curve(axes: Any, rows: list[Row], dataset: str) -> None:
    lines(axes, along(rows, dataset, " cap=", "delivered of what was due, per cent"))
    axes.set_xscale("log", base=2)
    shown = (CAPS[0], 0.5, 1.0, CAPS[-1])
    axes.set_xticks(shown, [f"{cap:g}" for cap in shown])
    axes.set(title=dataset, xlabel="uplink, times what S0 needs", ylabel="delivered, %", ylim=(0, 102))
