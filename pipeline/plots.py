"""Plots as SVG text, without a library: lines over time, bars, a grid of shades. Colours are the page's.

Everything that a colour or a height says can be read: axes carry units, and each mark has its numbers as a
tooltip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH = 560.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 10.0, 12.0, 28.0
TIPS = 600  # marks with a tooltip of their own

NOTHING = '<p class="none">Nothing to show: no client got anything in this time.</p>'

Show = Callable[[float], str]


class Line(NamedTuple):
    label: str
    colour: str  # a class of the page
    values: Sequence[float | None]


class Bar(NamedTuple):
    label: str  # below the bar, may be empty
    value: float
    tip: str


def short(value: float) -> str:
    """950, 12.3k, 4.56M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def duration(us: float) -> str:
    """Microseconds as one says them."""
    for limit, unit in ((60e6, "min"), (1e6, "s"), (1e3, "ms")):
        if abs(us) >= limit:
            return f"{us / limit:.3g} {unit}"
    return f"{us:.3g} µs"


# --- axes -----------------------------------------------------------------------------------------


def ticks(top: float, wanted: int = 4) -> list[float]:
    """From 0 to at least `top`, in steps of 1, 2 or 5."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / wanted
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return [step * number for number in range(ceil(top / step - 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """The powers of ten around what is shown."""
    return [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]


def clock(ns: float, span_s: float) -> str:
    at = datetime.fromtimestamp(ns / 1e9, UTC)
    if span_s > 3 * 86_400:
        return at.strftime("%d %b")
    return at.strftime("%H:%M") if span_s > 600 else at.strftime("%H:%M:%S")


def time_ticks(first_ns: float, last_ns: float, wanted: int = 6) -> list[float]:
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 6 * 3600, 12 * 3600, 86_400)
    span_s = (last_ns - first_ns) / 1e9
    step_s = next(
        (step for step in steps if span_s / step <= wanted), 86_400 * ceil(span_s / 86_400 / wanted)
    )
    start = ceil(first_ns / 1e9 / step_s)
    return [n * step_s * 1e9 for n in range(start, floor(last_ns / 1e9 / step_s) + 1)]


def svg(height: float, body: Iterable[str], label: str, width: float = WIDTH) -> str:
    inner = "\n".join(body)
    box = f"0 0 {width:.0f} {height:.0f}"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(label)}">\n{inner}\n</svg>'


def rect(x: float, y: float, wide: float, high: float, kind: str, tip: str = "", extra: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(0.0, wide):.1f}" height="{max(0.0, high):.1f}"'
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<rect {place} class="{kind}"{extra}>{title}</rect>'


def text(x: float, y: float, content: str, kind: str = "tick", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def _levels(values: Sequence[float], y: Callable[[float], float], show: Show) -> Iterator[str]:
    for value in values:
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" class="grid"/>'
        yield text(LEFT - 8, y(value) + 3.5, show(value), anchor="end")


# --- lines over time ------------------------------------------------------------------------------


def lines(
    at_ns: Sequence[float], series: Sequence[Line], show: Show, log: bool = False, height: float = 210.0
) -> str:
    """Values over time; None leaves a gap. With `log` the axis is one of powers of ten."""
    known = [value for line in series for value in line.values if value is not None]
    if not known:
        return NOTHING
    y, levels = _vertical(known, log, height)
    first, last = min(at_ns), max(at_ns)
    last = last if last > first else first + 1e9

    def x(ns: float) -> float:
        return LEFT + (ns - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def body() -> Iterator[str]:
        yield from _levels(levels, y, show)
        for ns in time_ticks(first, last):
            yield text(x(ns), height - 10, clock(ns, (last - first) / 1e9))
        for line in series:
            path = _path(
                [(x(ns), None if v is None else y(v)) for ns, v in zip(at_ns, line.values, strict=True)]
            )
            if line is series[0] and len(series) > 1:
                base = y(levels[0])
                yield _filled(path, base, line.colour)
            yield f'<path d="{path}" class="line {line.colour}"/>'
        if len(at_ns) <= TIPS:
            yield from _columns(at_ns, series, x, show, height)

    return svg(height, body(), ", ".join(line.label for line in series) + " over time")


def _vertical(known: list[float], log: bool, height: float) -> tuple[Callable[[float], float], list[float]]:
    inner = height - TOP - BOTTOM
    if log:
        positive = [max(1.0, value) for value in known]
        levels = log_ticks(min(positive), max(max(positive), 10 * min(positive)))
        low, high = log10(levels[0]), log10(levels[-1])
        return lambda value: TOP + inner * (1 - (log10(max(1.0, value)) - low) / (high - low)), levels
    levels = ticks(max(known))
    return lambda value: TOP + inner * (1 - value / levels[-1]), levels


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    parts = []
    pen = "M"
    for index, (x, y) in enumerate(points):
        if y is None:
            pen = "M"
            continue
        alone = pen == "M" and (index + 1 == len(points) or points[index + 1][1] is None)
        parts.append(f"{pen}{x:.1f} {y:.1f}{'h1.5' if alone else ''}")  # a line of one point is a dot
        pen = "L"
    return "".join(parts)


def _filled(path: str, base: float, colour: str) -> str:
    """The area below an unbroken line."""
    if path.count("M") != 1 or "L" not in path:
        return ""
    first, last = path[1:].partition(" ")[0], path.rpartition("L")[2].partition(" ")[0]
    return f'<path d="{path}L{last} {base:.1f}L{first} {base:.1f}Z" class="area {colour}"/>'


def _columns(
    at_ns: Sequence[float], series: Sequence[Line], x: Callable[[float], float], show: Show, height: float
) -> Iterator[str]:
    """Invisible columns that carry the numbers of their moment."""
    wide = (WIDTH - LEFT - RIGHT) / max(1, len(at_ns) - 1)
    for index, ns in enumerate(at_ns):
        said = [f"{line.label}: {show(v)}" for line in series if (v := line.values[index]) is not None]
        tip = "\n".join([clock(ns, 0), *said])
        yield rect(x(ns) - wide / 2, TOP, wide, height - TOP - BOTTOM, "touch", tip)


# --- bars -----------------------------------------------------------------------------------------


def bars(
    found: Sequence[Bar], colour: str, marks: Sequence[tuple[float, str]] = (), height: float = 210.0
) -> str:
    """Bars side by side; `marks` are upright lines at positions counted in bars."""
    if not any(bar.value for bar in found):
        return NOTHING
    levels = ticks(max(bar.value for bar in found))
    inner = height - TOP - BOTTOM
    wide = (WIDTH - LEFT - RIGHT) / len(found)

    def y(value: float) -> float:
        return TOP + inner * (1 - value / levels[-1])

    def body() -> Iterator[str]:
        yield from _levels(levels, y, short)
        for number, bar in enumerate(found):
            left, gap = LEFT + number * wide, min(3.0, wide * 0.16)
            top = y(bar.value)
            yield rect(left + gap / 2, top, wide - gap, TOP + inner - top, f"bar {colour}", bar.tip)
            if bar.label:
                yield text(left + wide / 2, height - 10, bar.label)
        for number, (position, label) in enumerate(marks):
            x = LEFT + position * wide
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + inner:.1f}" class="mark"/>'
            left = x > WIDTH - 95
            yield text(
                x - 5 if left else x + 5,
                TOP + 10 + 15 * number,
                label,
                "mark-label",
                "end" if left else "start",
            )

    return svg(height, body(), "bars")


# --- grids ----------------------------------------------------------------------------------------


class Cell(NamedTuple):
    row: int
    column: int
    share: float  # 0 to 1: how dark
    tip: str


def grid(
    rows: Sequence[str], columns: Sequence[str], cells: Iterable[Cell], left: float = 70.0, high: float = 26.0
) -> str:
    """A shade for each cell; a column's label is shown where it is not empty."""
    wide = (WIDTH - left - RIGHT) / max(1, len(columns))
    high = min(high, max(8.0, 330.0 / max(1, len(rows))))
    gap = 0.6 if wide > 7 else 0.0
    bottom = TOP + high * len(rows)

    def body() -> Iterator[str]:
        for number, name in enumerate(rows):
            y = TOP + (number + 0.5) * high
            if high >= 10 or number % 2 == 0:
                yield text(left - 8, y + 3.5, clipped(name, 11), anchor="end")
            yield rect(left, y - high / 2 + 1, WIDTH - left - RIGHT, high - 2, "bed")
        for cell in cells:
            shade = f' fill-opacity="{0.08 + 0.92 * cell.share:.2f}"'
            x, y = left + cell.column * wide, TOP + cell.row * high + 1
            yield rect(x, y, max(1.0, wide - gap), high - 2, "cell", cell.tip, shade)
        for number, name in enumerate(columns):
            if name:
                yield text(left + (number + 0.5) * wide, bottom + 16, clipped(name, 9))

    return svg(bottom + 24, body(), "grid")


def clipped(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
