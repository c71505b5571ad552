"""Soft links in pictures: yields beside the paper's, path lengths, delay, traffic, deliveries over uplinks.

Each of these pictures has the sparse dataset on its left and the dense one on its right; a strategy has one
colour in all of them. Those of the other settings are in multipath_settings_pictures.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.reproduce.multipath_panels import COLOURS, STYLE, along, lines
from tools.reproduce.multipath_settings_pictures import more_pictures
from tools.reproduce.row import Row

DATASETS = {"C1/DT1": "C1/DT1, sparse", "C1/DT2": "C1/DT2, dense"}


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    with matplotlib.rc_context(STYLE):
        for name, paint in (PICTURES | more_pictures(rows)).items():
            plot, panels = pyplot.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
            paint(panels, rows)
            path = directory / f"multipath-{name}.svg"
            plot.savefig(path, metadata={"Date": None})
            pyplot.close(plot)
            drawn.append(path)
    return drawn


def _yields(panels: Any, rows: list[Row]) -> None:
    for axes, (dataset, title) in zip(panels, DATASETS.items()):
        wanted = [r for r in rows if r.metric == "yield in per cent" and r.setting.startswith(dataset)]
        for at, row in enumerate(wanted):
            strategy = row.setting.rpartition(" ")[2]
            if row.paper is not None:
                bar = axes.bar(at - 0.2, row.paper, 0.38, color="#d5d5d5", label="paper" if not at else None)
                axes.bar_label(bar, fmt="%.0f", fontsize=8, color="#666666")
            bar = axes.bar(at + 0.2, row.ours, 0.38, color=COLOURS[strategy])
            axes.bar_label(bar, fmt="%.0f", fontsize=8)
        axes.set_xticks(range(len(wanted)), [row.setting.rpartition(" ")[2] for row in wanted])
        axes.set(title=title, ylabel="yield, %", ylim=(0, 100))
        axes.grid(False, axis="x")
    panels[0].legend(loc="upper left", frameon=False)


def _hops(panels: Any, rows: list[Row]) -> None:
    for axes, (dataset, title) in zip(panels, DATASETS.items()):
        lines(axes, along(rows, dataset, " X=", "deliveries within X hops, per cent"))
        axes.set(title=title, xlabel="hops", ylabel="deliveries within, %", ylim=(0, 102))
    panels[1].legend(loc="lower right", frameon=False)


def _uplinks(panels: Any, rows: list[Row]) -> None:
    for axes, (dataset, title) in zip(panels, DATASETS.items()):
        lines(axes, along(rows, dataset, " cap=", "delivered of what was due, per cent"))
        axes.set_xscale("log", base=2)
        axes.set_xticks([0.25, 0.5, 1, 2], ["0.25", "0.5", "1", "2"])
        axes.set(title=title, xlabel="uplink, times what S0 needs", ylabel="delivered, %", ylim=(0, 102))
    panels[1].legend(loc="lower right", frameon=False)


def _delay_and_traffic(panels: Any, rows: list[Row]) -> None:
    for axes, metric in zip(panels, ("delay to S0's", "traffic to S0's")):
        wanted = [r for r in rows if r.metric == metric]
        for at, row in enumerate(wanted):
            strategy = row.setting.rpartition(" ")[2]
            bar = axes.bar(at + 0.2, row.ours, 0.38, color=COLOURS[strategy])
            axes.bar_label(bar, fmt="%.2f", fontsize=8)
            if row.paper is not None:
                bar = axes.bar(at - 0.2, row.paper, 0.38, color="#d5d5d5", label="paper" if not at else None)
                axes.bar_label(bar, fmt="%.2f", fontsize=8, color="#666666")
        axes.set_xticks(range(len(wanted)), [row.setting.rpartition(" ")[2] for row in wanted])
        axes.axhline(0.7, color="#999999", linewidth=0.8, linestyle="dashed")
        axes.set(title=f"C1/DT2: {metric}", ylim=(0, 1.15))
        axes.grid(False, axis="x")
    panels[0].legend(loc="upper right", frameon=False)


PICTURES: dict[str, Callable[[Any, list[Row]], None]] = {
    "yield": _yields,
    "hops": _hops,
    "delay-traffic": _delay_and_traffic,
    "uplink": _uplinks,
}
