"""DYNATOPS in pictures: gains beside the paper's bounds, messages and delay by system, along the rate and
along c.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.reproduce.multipath_panels import STYLE
from tools.reproduce.row import Row

SYSTEMS = ("Bayeux", "TCO", "CHash", "BNR", "UP", "DYNATOPS", "ours")
COLOURS = dict(zip(SYSTEMS, ("#b2182b", "#2166ac", "#999999", "#92c5de", "#a6dba0", "#1b7837", "#762a83")))
PLACES = (
    "Bayeux(static)",
    "Bayeux(loc)",
    "Bayeux(loc+PNS)",
    "GeoPS",
    "DYNATOPS(BNR)",
    "DYNATOPS(UP)",
    "DYNATOPS",
)


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    with matplotlib.rc_context(STYLE):
        for name, paint in PICTURES.items():
            plot, panels = pyplot.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
            paint(panels, rows)
            path = directory / f"dynatops-{name}.svg"
            plot.savefig(path, metadata={"Date": None})
            pyplot.close(plot)
            drawn.append(path)
    return drawn


def _values(rows: list[Row], pattern: str, metric: str) -> dict[str, float]:
    """By what the pattern's group says."""
    found = {}
    for row in rows:
        match = re.fullmatch(pattern, row.setting)
        if match and row.metric == metric:
            found[match[1]] = row.ours
    return found


def _bars(axes: Any, values: dict[str, float], order: tuple[str, ...], title: str, ylabel: str) -> None:
    names = [name for name in order if name in values]
    bars = axes.bar(names, [values[name] for name in names], color=[COLOURS.get(n, "#1b7837") for n in names])
    axes.bar_label(bars, fmt="%.1f", fontsize=8)
    axes.set(title=title, ylabel=ylabel)
    axes.tick_params(axis="x", labelrotation=30)
    axes.grid(False, axis="x")


def _multimodal(panels: Any, rows: list[Row]) -> None:
    for axes, (metric, unit) in zip(panels, (("messages", "messages an event"), ("delay", "hops to a user"))):
        values = _values(rows, r"multimodal rate=0.1 (\w+)", metric)
        _bars(axes, values, SYSTEMS, f"multimodal: {metric}", unit)


def _rates(panels: Any, rows: list[Row]) -> None:
    for axes, metric in zip(panels, ("messages", "delay")):
        for system in SYSTEMS:
            values = _values(rows, rf"multimodal rate=([\d.]+) {system}", metric)
            points = sorted((float(rate), value) for rate, value in values.items())
            axes.plot(*zip(*points), marker="o", color=COLOURS[system], label=system) if points else None
        axes.set(title=metric, xlabel="changes per user and hour", ylim=(0, None))
    panels[1].legend(frameon=False, fontsize=7)


def _location(panels: Any, rows: list[Row]) -> None:
    for axes, (metric, unit) in zip(
        panels, (("messages", "messages an event"), ("delay_ms", "ms to a user"))
    ):
        _bars(axes, _values(rows, r"location c=10 (\S+)", metric), PLACES, f"location: {metric}", unit)


def _clusters(panels: Any, rows: list[Row]) -> None:
    for axes, metric in zip(panels, ("management", "messages")):
        values = _values(rows, r"location c=(\d+) w_l=0", metric)
        points = sorted((int(size), value) for size, value in values.items())
        axes.plot(*zip(*points), marker="o", color=COLOURS["DYNATOPS"]) if points else None
        axes.set(title=f"DYNATOPS: {metric}", xlabel="brokers of a cluster", ylim=(0, None))


PICTURES: dict[str, Callable[[Any, list[Row]], None]] = {
    "multimodal": _multimodal,
    "rates": _rates,
    "location": _location,
    "clusters": _clusters,
}
