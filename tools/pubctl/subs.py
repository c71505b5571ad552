"""`pubctl subs ls|explain`."""

from __future__ import annotations

import click
from rich.console import Console

from tools.pubctl.answers import Row, flat, left_out, reports
from tools.pubctl.channel import opened
from tools.pubctl.commands import group
from tools.pubctl.output import Column, Result, listed, show

COLUMNS = (
    Column("broker", style="bold"),
    Column("client"),
    Column("number", "no", right=True),
    Column("subscription"),
    Column("filter"),
)
KNOWN = (
    Column("broker", style="bold"),
    Column("subscription"),
    Column("source", "from"),
    Column("announced_to", "announced to", listed),
    Column("covered", "covered at", lambda pairs: listed(f"{at} by {by}" for at, by in pairs.items())),
    Column("filter"),
)


@group("subs", "Subscriptions.")
def subs() -> None: ...


@subs.command()
@click.option("--at", metavar="BROKER", help="Of one broker only.")
@click.option("--client", metavar="NAME", help="Of one client only.")
@click.option("--table", is_flag=True, help="All that the brokers know, with whom they were announced to.")
@click.option("--limit", type=click.IntRange(min=0), help="Rows of one broker at most.  [default: 1000]")
def ls(at: str | None, client: str | None, table: bool, limit: int | None) -> None:
    """The clients' subscriptions, or the brokers' tables of them."""
    with opened() as channel:

        def produce() -> Result:
            reply = channel.ask("subs.ls", broker=at, name=client, table=table or None, limit=limit)
            found = reports(reply)
            extra = {"total": sum(report["total"] for report in found)}
            rows = flat(found)
            columns = KNOWN if table else COLUMNS
            if any("topics" in row for row in rows):
                columns = (*columns, Column("topics", "", listed))
            return Result(rows, columns, extra, footer=left_out(found, reply), missing=reply.missing)

        show(produce)


@subs.command()
@click.argument("subscription")
def explain(subscription: str) -> None:
    """What every broker knows of SUBSCRIPTION (as `subs ls` calls it: b3/7), and to whom it announced it."""
    with opened() as channel:

        def produce() -> Result:
            rows = [
                {"broker": row.pop("name"), **row}
                for row in reports(channel.ask("subs.explain", name=subscription))
            ]
            return Result(rows, KNOWN, text=lambda screen: _print(screen, rows))

        show(produce)


def _print(screen: Console, rows: list[Row]) -> None:
    screen.print(f"[bold]{rows[0]['subscription']}[/bold]  ", end="")
    screen.print(rows[0]["filter"], markup=False)
    for row in rows:
        came = f"client {row['source']}" if row["local"] else f"neighbour {row['source']}"
        screen.print(f"[bold]{row['broker']}[/bold]: from {came}, anchor {row['anchor']}")
        for name in row["announced_to"]:
            screen.print(f"  -> {name}: announced")
        for name, coverer in row["covered"].items():
            screen.print(f"  -- {name}: covered by {coverer}, which is known there")
        for name, why in row["not_announced_to"].items():
            screen.print(f"  -- {name}: not announced, {why}")
