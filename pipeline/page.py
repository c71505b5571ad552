"""The report as one page that opens without a network: plots and styles are inside it, nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from pipeline.analysis import LARGEST, Figures, Row
from pipeline.figures import DELAY_BINS
from pipeline.overlay_map import BROKERS_MAX, drawn
from pipeline.plots import Bar, Cell, Line, bars, clock, duration, grid, lines, short, time_ticks
from pipeline.tables import BROKERS, LINKS, PUBLISHERS, STEPS, SUBSCRIPTIONS, Column, table

HERE = Path(__file__).parent
MATRIX = 64  # brokers up to which links are drawn as a grid, where there are too many for a map
HEAT = 200  # rows of the picture of the load
TIMES = 1440  # rows of the table by time: a day of minutes

NONE = {
    "Brokers": "No broker logged anything.",
    "Publishers": "Nothing was published.",
    "Subscriptions": "No client got anything.",
    "Links": "No copy went from one broker to another.",
}
MARKS = {"good": "✓", "warn": "!", "bad": "✕"}  # what the colour says, as a shape
WORDS = (
    (
        "delay",
        "from the acceptance at the first broker to the delivery at the last. Between hosts it holds the "
        "difference of their clocks.",
    ),
    ("pure forwarding", "a copy passed on by a broker without a subscriber for it."),
    ("yield", "of the brokers that a publication reached over a link, those that had a subscriber for it."),
    (
        "lost",
        "copies that a broker sent and the next one never logged, judged only where its log was read "
        "afterwards. A broker that was killed takes its last lines along.",
    ),
    (
        "duplicates",
        "deliveries of a publication to a client beyond the number of its acceptances; with a subscription, "
        "those of its client.",
    ),
    ("in flight", "copies sent after the next broker's log was read; the next collect will find them."),
)


def page(found: Figures, title: str) -> str:
    return "\n".join(_page(found, title)) + "\n"


def _page(found: Figures, title: str) -> Iterator[str]:
    style, script = (HERE / "page.css").read_text(), (HERE / "page.js").read_text()
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>"
    yield from _header(found, title)
    yield from _tiles(found.totals)
    yield from _over_time(found)
    yield from _distributions(found)
    yield from _load(found)
    yield from _tables(found)
    yield from _notes()
    yield f"<footer>{escape(_made(found))}</footer>\n</main>\n<script>\n{script}</script>\n</body>\n</html>"


# --- the top --------------------------------------------------------------------------------------


def _header(found: Figures, title: str) -> Iterator[str]:
    totals = found.totals
    kind, verdict = judgement(totals)
    said = f"{_moment(totals['first_ns'])} to {_moment(totals['last_ns'])} UTC, {_span(totals['span_s'])}"
    yield f'<header><div><h1>{escape(title)}</h1><p class="when">{escape(said)}</p></div>'
    yield f'<div class="verdict {kind}">{MARKS[kind]} {escape(verdict)}</div></header>'
    for text in alerts(totals):
        yield f'<div class="alert">{escape(text)}</div>'


def judgement(totals: Row) -> tuple[str, str]:
    if totals["lost"] or totals["duplicates"]:
        copies, doubled = (
            counted(totals["lost"], "copy", "copies"),
            counted(totals["duplicates"], "duplicate"),
        )
        return "bad", f"{copies} lost, {doubled}"
    if totals["unseen"] or totals["unseen_brokers"]:
        return "warn", "nothing lost where there are logs"
    if not totals["delivered"]:
        return "warn", "nothing was delivered"
    return "good", "nothing lost, nothing doubled"


def alerts(totals: Row) -> list[str]:
    """What makes the figures doubtful."""
    told = []
    if not totals["delivered"]:
        told.append(
            "No client got anything: nobody was subscribed to what was published, or those who were are at "
            "brokers without a log."
        )
    if names := totals["unseen_brokers"]:
        told.append(f"There is no log of {', '.join(names)}: what they did is missing in every figure.")
    if totals["damaged_lines"] or totals["torn_lines"]:
        torn = counted(totals["torn_lines"], "torn line")
        told.append(f"Left out of the logs: {totals['damaged_lines']:,} damaged and {torn}.")
    if totals["early"]:
        early = counted(totals["early"], "delivery", "deliveries")
        why = "the clocks of the hosts differ, or a broker waited for its processor"
        told.append(f"{early} before the acceptance by the logs: {why}.")
    if totals["in_flight"]:
        told.append(
            f"{counted(totals['in_flight'], 'copy', 'copies')} still under way when the logs were read."
        )
    return told


def counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _tiles(totals: Row) -> Iterator[str]:
    delivered, accepted = totals["delivered"], totals["accepted"]
    each = f"{delivered / accepted:.2f} for each publication" if accepted else "deliveries"
    hops = "-" if totals["hops"] is None else f"{totals['hops']:.2f}"
    pure = f"{100 * totals['pure_forwards'] / totals['forwarded']:.0f} %" if totals["forwarded"] else "-"
    rate = accepted / totals["span_s"] if totals["span_s"] else 0.0
    tiles = [
        (short(accepted), f"publications, {short(rate)}/s"),
        (short(delivered), f"deliveries, {each}"),
        (_us(totals["delay_p50_us"]), "delay, median"),
        (_us(totals["delay_p99_us"]), "delay, 99th percentile"),
        (hops, "hops on average" + (f", {totals['hops_max']} at most" if totals["hops_max"] else "")),
        (_percent(totals["yield"]), "yield"),
        (pure, "of forwards were pure"),
        (f"{totals['lost']:,} / {totals['duplicates']:,}", "lost / duplicates"),
    ]
    yield '<div class="tiles">'
    for number, (value, label) in enumerate(tiles):
        bad = number == 7 and (totals["lost"] or totals["duplicates"])
        kind = "tile bad" if bad else "tile"
        mark = f"{MARKS['bad']} " if bad else ""
        yield f'<div class="{kind}"><b>{mark}{escape(value)}</b><span>{escape(label)}</span></div>'
    yield "</div>"


# --- plots ----------------------------------------------------------------------------------------


def _card(
    title: str, told: str, content: str, legend: tuple[tuple[str, str], ...] = (), small: str = ""
) -> str:
    marks = "".join(f'<span><i class="{colour}"></i>{escape(label)}</span>' for label, colour in legend)
    keys = f'<div class="legend">{marks}</div>' if legend else ""
    about = f"<p>{escape(told)}</p>" if told else ""
    heading = f"<h2>{escape(title)}{f'<small>{escape(small)}</small>' if small else ''}</h2>"
    return f'<section class="card">{heading}{about}{keys}{content}</section>'


def _over_time(found: Figures) -> Iterator[str]:
    steps = {row["step"]: row for row in found.timeline}
    numbers = list(range(min(steps), max(steps) + 1)) if len(steps) < 20_000 else sorted(steps)
    at_ns = [number * found.step_s * 1e9 for number in numbers]
    covered = [_covered_s(n, found) for n in numbers]
    rates = [
        Line(
            label, label, [steps.get(n, {}).get(label, 0) / s for n, s in zip(numbers, covered, strict=True)]
        )
        for label in ("accepted", "forwarded", "delivered")
    ]
    delays = [
        Line(label, colour, [steps.get(n, {}).get(key) for n in numbers])
        for label, colour, key in (
            ("median", "delivered", "delay_p50_us"),
            ("99th percentile", "pure", "delay_p99_us"),
        )
    ]
    step = _span(found.step_s)
    yield '<div class="pair">'
    yield _card(
        "Events a second",
        f"In steps of {step}.",
        lines(at_ns, rates, short),
        tuple((r.label, r.colour) for r in rates),
    )
    yield _card(
        "Delay of deliveries", f"In steps of {step}.", lines(at_ns, delays, duration, log=True),
        tuple((line.label, line.colour) for line in delays),
    )  # fmt: skip
    yield "</div>"


def _covered_s(step: int, found: Figures) -> float:
    """The first and the last step may be cut off: their rates are those of the part that there is."""
    start, end = step * found.step_s * 1e9, (step + 1) * found.step_s * 1e9
    part = min(end, found.totals["last_ns"]) - max(start, found.totals["first_ns"])
    return float(max(part / 1e9, found.step_s / 5))


def _distributions(found: Figures) -> Iterator[str]:
    by_bin: dict[int, int] = {}
    by_hops: dict[int, int] = {}
    for row in found.distribution:
        by_bin[row["bin"]] = by_bin.get(row["bin"], 0) + row["delivered"]
        by_hops[row["hops"]] = by_hops.get(row["hops"], 0) + row["delivered"]
    yield '<div class="pair">'
    yield _card("How long deliveries took", "Ten bars to a power of ten.", _delays(by_bin, found.totals))
    total = sum(by_hops.values()) or 1
    hops = [
        Bar(
            str(n),
            by_hops.get(n, 0),
            f"{n} hops: {by_hops.get(n, 0):,} ({100 * by_hops.get(n, 0) / total:.1f} %)",
        )
        for n in range(max(by_hops, default=0) + 1)
    ]
    yield _card(
        "How far they went", "Links between brokers on the way of a delivery.", bars(hops, "accepted")
    )
    yield "</div>"


def _delays(by_bin: dict[int, int], totals: Row) -> str:
    if not by_bin:
        return bars([], "delivered")
    low, high = min(by_bin), max(by_bin)
    found = []
    for number in range(low, high + 1):
        start, end = 10 ** (number / DELAY_BINS), 10 ** ((number + 1) / DELAY_BINS)
        round_one = number % DELAY_BINS == 0 or (high - low < 12 and number % DELAY_BINS in (3, 6))
        label = duration(float(f"{start:.1g}")) if round_one else ""
        amount = by_bin.get(number, 0)
        found.append(Bar(label, amount, f"{duration(start)} to {duration(end)}: {amount:,}"))
    marks = []
    for key, label in (("delay_p50_us", "p50"), ("delay_p99_us", "p99")):
        if totals[key] is not None:
            position = _log10(totals[key]) * DELAY_BINS - low
            marks.append((position, f"{label} {duration(totals[key])}"))
    return bars(found, "delivered", marks)


def _log10(value: float) -> float:
    from math import log10

    return log10(max(1.0, value))


def _load(found: Figures) -> Iterator[str]:
    if not found.load:
        return
    names = [row["broker"] for row in found.brokers][:HEAT]
    place = {name: number for number, name in enumerate(names)}
    first, last = min(row["step"] for row in found.load), max(row["step"] for row in found.load)
    step_ns = found.load_step_s * 1e9
    most = max(row["forwarded"] + row["delivered"] for row in found.load)
    cells = [
        Cell(
            place[row["broker"]],
            row["step"] - first,
            (row["forwarded"] + row["delivered"]) / most,
            f"{row['broker']} at {clock(row['step'] * step_ns, 0)}: "
            f"{row['forwarded'] / found.load_step_s:.0f}/s to brokers, "
            f"{row['delivered'] / found.load_step_s:.0f}/s to clients",
        )
        for row in found.load
        if row["broker"] in place
    ]
    labels = [""] * (last - first + 1)
    for ns in time_ticks(first * step_ns, (last + 1) * step_ns):
        if (column := int(ns // step_ns) - first) < len(labels):
            labels[column] = clock(ns, (last - first) * found.load_step_s)
    told = f"Copies sent to brokers and clients; the darkest is {short(most / found.load_step_s)} a second."
    matrix = _matrix(found)
    yield '<div class="pair">' if matrix else ""
    yield _card("Who was busy when", told, grid(names, labels, cells))
    yield matrix
    yield "</div>" if matrix else ""


def _matrix(found: Figures) -> str:
    """Who sends to whom: a map, with more brokers a grid, with too many nothing."""
    names = [row["broker"] for row in found.brokers]
    if not found.links or len(names) > MATRIX:
        return ""
    if len(names) <= BROKERS_MAX:
        told = (
            "Circles are as large as the copies sent, with deliveries below; lines as wide as the copies "
            "carried. Green brokers have subscribers for what reaches them, red ones "
            "only pass it on; the ring inside is open by the share that only passes."
        )
        return _card("The overlay", told, drawn(found.brokers, found.links))
    place = {name: number for number, name in enumerate(names)}
    most = max(row["forwarded"] for row in found.links)
    cells = [
        Cell(
            place[row["broker"]],
            place[row["to"]],
            row["forwarded"] / most,
            f"{row['broker']} to {row['to']}: {row['forwarded']:,} copies, {row['pure_forwards']:,} pure",
        )
        for row in found.links
    ]
    every = 1 + len(names) // 12
    labels = [name if number % every == 0 else "" for number, name in enumerate(names)]
    told = f"Copies from the broker of a row to that of a column; the darkest is {short(most)}."
    return _card("Who sent to whom", told, grid(names, labels, cells))


# --- tables ---------------------------------------------------------------------------------------


def _tables(found: Figures) -> Iterator[str]:
    totals = found.totals
    tables: tuple[tuple[str, list[Row], tuple[Column, ...], int], ...] = (
        ("Brokers", found.brokers, BROKERS, totals["brokers"]),
        ("Publishers", found.publishers, PUBLISHERS, totals["publishers"]),
        ("Subscriptions", found.subscriptions, SUBSCRIPTIONS, totals["subscriptions"]),
        ("Links", found.links, LINKS, len(found.links)),
    )
    for title, rows, columns, number in tables:
        told = "" if number <= len(rows) else f"The largest {LARGEST}; all are in the tables (--tables)."
        content = table(rows, columns, totals["span_s"]) if rows else f'<p class="none">{NONE[title]}</p>'
        yield _card(title, told, content, small=f"{number:,}")
    yield _steps(found)


def _steps(found: Figures) -> str:
    rows = [
        row | {"time": _moment(row["step"] * found.step_s * 1e9, found.step_s)}
        for row in found.timeline[:TIMES]
    ]
    number = len(found.timeline)
    told = "" if number <= TIMES else f"The first {TIMES:,}; all are in the tables (--tables)."
    content = table(rows, STEPS, found.step_s)
    return _card(f"In steps of {_span(found.step_s)}", told, content, small=f"{number:,}")


def _notes() -> Iterator[str]:
    words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(told)}</dd>" for word, told in WORDS)
    yield f'<section class="card"><h2>Words</h2><dl class="notes">{words}</dl></section>'


def _made(found: Figures) -> str:
    totals = found.totals
    logs = totals["brokers"] - len(totals["unseen_brokers"])
    return (
        f"From {totals['events']:,} events in the delivery logs of {logs} broker{'' if logs == 1 else 's'}."
    )


# --- values ---------------------------------------------------------------------------------------


def _moment(ns: float, step_s: float = 1.0) -> str:
    """With tenths of a second where steps are shorter than one."""
    tenths = round(ns / 1e8)
    shown = datetime.fromtimestamp(tenths // 10, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{shown}.{tenths % 10}" if step_s < 1 else shown


def _span(seconds: float) -> str:
    for limit, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= limit:
            value = seconds / limit
            return f"{value:.3g} {unit}{'' if value == 1 else 's'}"
    return f"{seconds:.3g} second{'' if seconds == 1 else 's'}"


def _us(value: float | None) -> str:
    return "-" if value is None else duration(value)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
