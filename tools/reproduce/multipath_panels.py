"""What the soft links' pictures share: a colour for each strategy, curves over a number in the setting."""

from __future__ import annotations

from typing import Any

from tools.reproduce.row import Row

Points = dict[str, dict[float, float]]  # strategy -> x -> value
COLOURS = {"S0": "#7f7f7f", "S1": "#e69f00", "S2": "#0072b2", "SH": "#009e73", "SD": "#cc3377"}
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "svg.hashsalt": "multipath",
}


def along(rows: list[Row], dataset: str, mark: str, metric: str) -> Points:
    found: Points = {}
    for row in rows:
        if row.metric == metric and row.setting.startswith(dataset) and mark in row.setting:
            name, _, x = row.setting.removeprefix(dataset + " ").partition(mark)
            found.setdefault(name, {})[float(x)] = row.ours
    return found


def lines(axes: Any, points: Points) -> None:
    for name, values in points.items():
        dashed = "dashed" if name == "SH" else "solid"  # it lies on S2 where nothing is short
        axes.plot(
            *zip(*sorted(values.items())),
            marker="o",
            markersize=3,
            linestyle=dashed,
            color=COLOURS[name],
            label=name,
        )
