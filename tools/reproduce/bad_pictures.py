"""BAD's figures in pictures: loads of brokers over time, migrations by placement, what thresholds do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.reproduce.row import Row

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "svg.hashsalt": "bad",
}
COLOURS = {"No LB": "#7f7f7f", "LDM": "#0072b2", "SDM": "#e69f00", "LDM+GSH": "#009e73", "SDM+GSH": "#cc3377"}
PRINTED = " as printed"
Values = dict[tuple[str, str], float]


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    values = {(row.setting, row.metric): row.ours for row in rows}
    drawn = []
    with matplotlib.rc_context(STYLE):
        for name, (panels, paint) in PICTURES.items():
            if name == "thresholds" and not any("alpha=" in row.setting for row in rows):
                continue
            plot, axes = pyplot.subplots(1, panels, figsize=(9.6, 2.9), layout="constrained")
            paint(axes, values)
            path = directory / f"bad-{name}.svg"
            plot.savefig(path, metadata={"Date": None})
            pyplot.close(plot)
            drawn.append(path)
    return drawn


def _brokers(axes: Any, values: Values, setting: str, metric: str) -> None:
    lines: dict[int, list[tuple[int, float]]] = {}
    for (where, what), value in values.items():
        if what == metric and where.startswith(f"{setting} broker="):
            number, minute = where.removeprefix(f"{setting} broker=").split(" minute=")
            lines.setdefault(int(number), []).append((int(minute), value))
    for broker in sorted(lines):
        axes.plot(*zip(*sorted(lines[broker])), linewidth=1.2, marker="o", markersize=2)
    axes.set(title=setting.partition(" ")[2], xlabel="minute", ylim=(0, None))


def _loads(begin: str, metric: str, policies: tuple[str, ...]) -> Callable[[Any, Values], None]:
    def paint(panels: Any, values: Values) -> None:
        for axes, policy in zip(panels, policies):
            _brokers(axes, values, f"{begin} {policy}", metric)
        panels[0].set_ylabel(metric)
        top = max(axes.get_ylim()[1] for axes in panels)
        for axes in panels:
            axes.set_ylim(0, top)

    return paint


def _comparison(placed: str) -> Callable[[Any, Values], None]:
    def paint(panels: Any, values: Values) -> None:
        for axes, metric in zip(panels, ("max load, kB/s", "cov", "migrations")):
            for at, (policy, colour) in enumerate(COLOURS.items()):
                begin = f"test-bed {placed} {policy}"
                axes.bar(at + 0.2, values[begin, metric], 0.38, color=colour)
                if metric != "migrations":
                    axes.bar(at - 0.2, values[begin + PRINTED, metric], 0.38, color="#d5d5d5")
                else:  # a loop that never ends has no number
                    axes.bar(at - 0.2, min(values[begin + PRINTED, metric], 2000), 0.38, color="#d5d5d5")
            axes.set_xticks(range(len(COLOURS)), list(COLOURS), fontsize=7)
            axes.set(title=f"{placed}: {metric}")
            axes.grid(False, axis="x")
        panels[2].set_xlabel("grey: as printed (cut at 2,000)", fontsize=7)

    return paint


def _placements(panels: Any, values: Values) -> None:
    for axes, scheme in zip(panels, ("LDM", "SDM")):
        for at, placed in enumerate(("RND", "RR", "NR")):
            bar = axes.bar(
                at, values[f"test-bed {placed} {scheme}", "migrations"], 0.5, color=COLOURS[scheme]
            )
            axes.bar_label(bar, fmt="%.0f", fontsize=8)
        axes.set_xticks(range(3), ["RND", "RR", "NR"])
        axes.set(title=scheme, ylabel="migrations")
        axes.grid(False, axis="x")


def _thresholds(panels: Any, values: Values) -> None:
    for axes, metric in zip(panels, ("cov", "migrations")):
        lines: dict[float, list[tuple[float, float]]] = {}
        for (where, what), value in values.items():
            if what == metric and " alpha=" in where:
                given, alpha = where.partition("beta=")[2].split(" alpha=")
                lines.setdefault(float(given), []).append((float(alpha), value))
        for beta, points in sorted(lines.items()):
            axes.plot(*zip(*sorted(points)), marker="o", markersize=3, label=f"beta {beta:g} MB/s")
        axes.set(xlabel="alpha", ylabel=metric, ylim=(0, None))
    panels[0].legend(frameon=False)


PICTURES: dict[str, tuple[int, Callable[[Any, Values], None]]] = {
    "5": (3, _loads("test-bed RND", "load, kB/s", ("No LB", "LDM", "SDM"))),
    "6": (3, _comparison("RND")),
    "7": (3, _loads("test-bed RR", "load, kB/s", ("No LB", "LDM", "SDM"))),
    "8": (3, _loads("test-bed NR", "load, kB/s", ("No LB", "LDM", "SDM"))),
    "9": (2, _loads("test-bed NR", "load, kB/s", ("LDM+GSH", "SDM+GSH"))),
    "10-11": (3, _comparison("NR")),
    "12": (2, _placements),
    "13": (4, _loads("simulation NR", "load, MB/s", ("No LB", "LDM", "GSH", "GSH" + PRINTED))),
    "thresholds": (2, _thresholds),
}
