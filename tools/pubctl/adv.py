"""`pubctl adv ls`."""

from __future__ import annotations

import click

from tools.pubctl.answers import flat, left_out, reports
from tools.pubctl.channel import opened
from tools.pubctl.commands import group
from tools.pubctl.output import Column, Result, show

COLUMNS = (
    Column("broker", style="bold"),
    Column("publisher"),
    Column("advertisement"),
    Column("home"),
    Column("source", "from"),
    Column("filter"),
)


@group("adv", "Advertisements.")
def adv() -> None: ...


@adv.command()
@click.option("--at", metavar="BROKER", help="Of one broker only.")
@click.option("--publisher", metavar="NAME", help="Of one publisher only.")
@click.option("--table", is_flag=True, help="All that the brokers know, not only what is at home there.")
@click.option("--limit", type=click.IntRange(min=0), help="Rows of one broker at most.  [default: 1000]")
def ls(at: str | None, publisher: str | None, table: bool, limit: int | None) -> None:
    """What publishers said they would publish, at their own brokers."""
    with opened() as channel:

        def produce() -> Result:
            reply = channel.ask("adv.ls", broker=at, name=publisher, table=table or None, limit=limit)
            found = reports(reply)
            extra = {"total": sum(report["total"] for report in found)}
            return Result(flat(found), COLUMNS, extra, footer=left_out(found, reply), missing=reply.missing)

        show(produce)
