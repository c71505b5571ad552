"""`pubctl link ls`."""

from __future__ import annotations

from time import monotonic

import click

from tools.pubctl.answers import Row, flat, left_out, reports
from tools.pubctl.channel import opened
from tools.pubctl.commands import group
from tools.pubctl.output import Column, Result, count, show

COLUMNS = (
    Column("broker", style="bold"),
    Column("neighbour", style="bold"),
    Column("role"),
    Column("kind"),
    Column("state"),
    Column("round_trip_ms", "ms", right=True),
    Column("sent", "", count, right=True),
    Column("received", "", count, right=True),
    Column("unsettled", "", count, right=True),
    Column("gain", "", count, right=True),
    Column("sent_s", "sent/s", count, right=True),
    Column("received_s", "recv/s", count, right=True),
)


class Rates:
    """What grew since the last look, per second. A counter that fell began anew: it has no rate. Candidates
    carry nothing; what they count is what they would carry."""

    def __init__(self) -> None:
        self._at = 0.0
        self._before: dict[tuple[str, str, str], tuple[int, int]] = {}

    def add_to(self, rows: list[Row], now: float | None = None) -> None:
        now = monotonic() if now is None else now
        seconds = now - self._at
        seen = {}
        for row in rows:
            key = (row["broker"], row["neighbour"], row["kind"])
            seen[key] = (row["sent"], row["received"])
            if key in self._before and row["kind"] != "candidate" and seconds > 0:
                for name, then in zip(("sent", "received"), self._before[key]):
                    if row[name] >= then:
                        row[f"{name}_s"] = round((row[name] - then) / seconds, 1)
        self._at, self._before = now, seen


def link_rows(found: list[Row]) -> list[Row]:
    rows = flat(found)
    for row in rows:
        row["neighbour"] = row.pop("name")
        parent = row.pop("parent")
        if row.setdefault("kind", "primary") != "primary":
            row["role"] = "shortcut"
        elif "role" not in row:  # a tree's
            row["role"] = "parent" if parent else "child"
    return rows


@group("link", "Links between brokers.")
def link() -> None: ...


@link.command()
@click.option("--at", metavar="BROKER", help="Of one broker only.")
def ls(at: str | None) -> None:
    """Every link from both its ends; with --watch also the rates."""
    rates = Rates()
    with opened() as channel:

        def produce() -> Result:
            reply = channel.ask("link.ls", broker=at)
            found = reports(reply)
            rows = link_rows(found)
            rates.add_to(rows)
            return Result(rows, COLUMNS, footer=left_out(found, reply), missing=reply.missing)

        show(produce)
