"""The tables of the page: which columns, how a value is written, what is marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from pipeline.plots import duration

Row = dict[str, Any]


class Column(NamedTuple):
    key: str
    heading: str
    show: Callable[[Any], str]
    name: bool = False  # text, on the left
    bad: bool = False  # anything but zero is bad


def whole(value: int) -> str:
    return f"{value:,}"


def tenth(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def hundredth(value: float) -> str:
    return f"{value:.2f}"


def meter(value: float) -> str:
    """A share as a bar and a number."""
    bar = f'<span class="meter"><i style="width:{100 * value:.0f}%"></i></span>'
    return f'{bar}<span class="share">{100 * value:.0f} %</span>'


def pure_meter(value: float) -> str:
    return meter(value).replace('"meter"', '"meter pure"')


def _numbers(*keys: str) -> tuple[Column, ...]:
    return tuple(Column(key, key.replace("_", " "), whole) for key in keys)


DELAYS = (
    Column("delay_p50_us", "p50", duration),
    Column("delay_p99_us", "p99", duration),
    Column("hops", "hops", hundredth),
)
YIELD = Column("yield", "yield", meter)
LOST = (Column("lost", "lost", whole, bad=True), Column("duplicates", "duplicates", whole, bad=True))
RATE = Column("rate_s", "delivered/s", tenth)

BROKERS = (
    Column("broker", "broker", str, name=True),
    *_numbers("accepted", "forwarded", "pure_forwards", "delivered"),
    RATE,
    *DELAYS,
    YIELD,
    *LOST,
)
PUBLISHERS = (
    Column("publisher", "publisher", str, name=True),
    Column("first_broker", "broker", str, name=True),
    *_numbers("accepted", "delivered"),
    RATE,
    Column("each", "each", hundredth),
    *DELAYS,
    Column("pure_forwards", "pure forwards", whole),
    YIELD,
    *LOST,
)
SUBSCRIPTIONS = (
    Column("client", "client", str, name=True),
    Column("subscription", "subscription", str),
    Column("broker", "broker", str, name=True),
    *_numbers("delivered"),
    RATE,
    *DELAYS,
    Column("duplicates", "duplicates", whole, bad=True),
)
STEPS = (
    Column("time", "from (UTC)", str, name=True),
    *_numbers("accepted", "forwarded", "pure_forwards", "delivered"),
    RATE,
    *DELAYS,
    *LOST,
)
LINKS = (
    Column("broker", "from", str, name=True),
    Column("to", "to", str, name=True),
    *_numbers("forwarded"),
    Column("forward_s", "forwarded/s", tenth),
    Column("pure_share", "pure", pure_meter),
    Column("lost", "lost", whole, bad=True),
    Column("in_flight", "in flight", whole),
)


def table(rows: Sequence[Row], columns: Sequence[Column], span_s: float) -> str:
    head = "".join(f"<th{' class=name' if c.name else ''}>{escape(c.heading)}</th>" for c in columns)
    body = "\n".join(_row(derived(row, span_s), columns) for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def derived(row: Row, span_s: float) -> Row:
    """With the rates and shares that follow from the counts."""
    span_s = span_s or 1.0
    found = dict(row)
    if "delivered" in row:
        found["rate_s"] = row["delivered"] / span_s
        found["each"] = row["delivered"] / row["accepted"] if row.get("accepted") else None
    if row.get("forwarded"):
        found["forward_s"] = row["forwarded"] / span_s
        found["pure_share"] = row["pure_forwards"] / row["forwarded"]
    return found


def _row(row: Row, columns: Sequence[Column]) -> str:
    return "<tr>" + "".join(_cell(row.get(column.key), column) for column in columns) + "</tr>"


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return f'<td class="zero{" name" if column.name else ""}" data-v="">-</td>'
    kind = "name" if column.name else "zero" if not value else "bad" if column.bad else ""
    shown = column.show(value)
    text = shown if column.show in (meter, pure_meter) else escape(shown)
    whole_name = f' title="{escape(shown)}"' if column.name else ""  # a long one is cut off by the page
    return f'<td class="{kind}" data-v="{escape(str(value))}"{whole_name}>{text}</td>'
