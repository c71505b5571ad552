"""POP and GRAPE in pictures: curves over X, reductions beside the paper's, weights, thresholds, pauses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.reproduce.row import Row

_ALONG = re.compile(r"(?P<name>.*?)\s*X=(?P<x>\d+)$")
COLOURS = {"baseline": "0.55", "POP": "tab:orange", "load100": "tab:blue", "delay100": "tab:green"}
# figure -> (title, the axis, what a value is multiplied by)
TITLES = {
    "5a": ("Message rate", "messages/s per broker", 1.0),
    "5b": ("Input utilisation", "% of a broker's time", 100.0),
    "5c": ("Delivery delay", "ms", 1.0),
    "5d": ("Hops", "hops of a delivery", 1.0),
    "5e": ("Memory for relocation", "% of the tables, fullest broker", 100.0),
    "5f": ("Message overhead", "% of publication messages", 100.0),
    "5g": ("Delivery delay, random workload", "ms", 1.0),
    "5a random": ("Message rate, random workload", "messages/s per broker", 1.0),
}
SHORT = {"message_rate": "message rate", "input_utilisation": "input", "delay_ms": "delay"}
Lines = dict[str, dict[int, float]]  # algorithm -> X -> value


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    with matplotlib.rc_context({"svg.hashsalt": "grape", "svg.fonttype": "none"}):
        for name, paint in _plans(rows):
            plot, axes = pyplot.subplots(figsize=(6, 4))
            paint(axes)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color="0.9")
            axes.set_axisbelow(True)
            path = directory / f"grape-{name}.svg"
            plot.savefig(path, bbox_inches="tight", metadata={"Date": None})
            pyplot.close(plot)
            drawn.append(path)
    return drawn


def _plans(rows: list[Row]) -> Iterator[tuple[str, Any]]:
    for figure, (title, label, scale) in TITLES.items():
        lines = curves_of(rows, figure)
        if any(len(points) > 1 for points in lines.values()):
            paint = lambda axes, p=lines, t=title, y=label, s=scale: _curves(axes, p, t, y, s)  # noqa: E731
            yield figure.replace(" ", "-"), paint
    if any(row.figure == "headline" for row in rows):
        yield "reductions", lambda axes: _reductions(axes, rows)
    for figure, title in (("5h", "Weights"), ("6d-6g", "GRAPE's threshold"), ("6h", "POP's threshold")):
        if len(tradeoff(rows, figure)) > 1:
            yield figure, lambda axes, f=figure, t=title: _tradeoff(axes, tradeoff(rows, f), t)
    if any(row.figure == "6c" for row in rows):
        yield "6c", lambda axes: _waits(axes, rows)


def curves_of(rows: list[Row], figure: str) -> Lines:
    found: Lines = {}
    for row in rows:
        match = _ALONG.match(row.setting)
        if row.figure == figure and match is not None and match["name"] in COLOURS:
            found.setdefault(match["name"], {})[int(match["x"])] = row.ours
    return found


def _curves(axes: Any, lines: Lines, title: str, label: str, scale: float) -> None:
    for name, points in lines.items():
        along, values = zip(*sorted(points.items()))
        scaled = [scale * value for value in values]
        axes.plot(along, scaled, marker="o", markersize=3, color=COLOURS[name], label=name)
    axes.set(title=title, xlabel="X: brokers with subscribers of a publisher", ylabel=label)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)


def _reductions(axes: Any, rows: list[Row]) -> None:
    wanted = [row for row in rows if row.figure == "headline" and row.metric != "overhead"]
    named: set[str] = set()
    for at, row in enumerate(wanted):
        name = row.setting
        axes.bar(at - 0.2, row.paper or 0, 0.4, color="0.75", label=None if named else "paper")
        label = None if name in named else name
        bar = axes.bar(at + 0.2, row.ours, 0.4, color=COLOURS[name], label=label)
        axes.bar_label(bar, fmt="%.0f", fontsize=8)
        named.add(name)
    axes.set_xticks(range(len(wanted)), [SHORT[row.metric] for row in wanted], fontsize=8)
    axes.set(title="Reductions against the baseline, each at its best X", ylabel="%", ylim=(0, 115))
    axes.legend(frameon=False, loc="upper center", ncols=4, fontsize=8)


def tradeoff(rows: list[Row], figure: str) -> dict[str, tuple[float, float]]:
    """Name of a setting -> (message rate, delay)."""
    values = {(row.setting, row.metric): row.ours for row in rows if row.figure == figure}
    names = dict.fromkeys(setting for setting, _ in values)
    return {
        name.partition(" X=")[0]: (values[name, "message_rate"], values[name, "delay_ms"]) for name in names
    }


def _tradeoff(axes: Any, points: dict[str, tuple[float, float]], title: str) -> None:
    """Rate against delay; the names of settings that came out the same stand together."""
    together: dict[tuple[float, float], list[str]] = {}
    for name, (rate, delay_ms) in points.items():
        axes.plot(rate, delay_ms, "o", color="tab:green" if name.startswith("delay") else "tab:blue")
        together.setdefault((round(rate, 1), round(delay_ms, 0)), []).append(name.rpartition("=")[2])
    for (rate, delay_ms), names in together.items():
        axes.annotate(", ".join(names), (rate, delay_ms), (5, 5), textcoords="offset points", fontsize=8)
    axes.set(title=f"{title}, X = 16", xlabel="messages/s per broker", ylabel="delivery delay in ms")
    axes.margins(0.15)


def _waits(axes: Any, rows: list[Row]) -> None:
    found = [row for row in rows if row.figure == "6c"]
    hops = [int(row.setting.split()[0]) for row in found]
    bars = axes.bar(hops, [row.ours for row in found], color="tab:blue")
    axes.bar_label(bars, [row.note.split()[3] for row in found], fontsize=7, color="0.4")
    axes.set_xticks(hops)
    axes.set(
        title="How long a publisher is held back",
        xlabel="hops of the path",
        ylabel="s, mean of so many moves",
    )
