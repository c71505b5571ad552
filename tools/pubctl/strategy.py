"""`pubctl strategy set`."""

from __future__ import annotations

import click

from tools.pubctl.channel import opened
from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.output import Column, Result, show

COLUMNS = (Column("broker", style="bold"), Column("strategy"))


@group("strategy", "How publications pass brokers that would only forward.")
def strategy() -> None: ...


@strategy.command(name="set")
@click.argument("strategy", type=click.Choice(["S0", "SD", "SH", "S1", "S2"]))
@click.option("--at", metavar="BROKER", help="At one broker only.")
@changes
def set_(strategy: str, at: str | None, dry_run: bool, yes: bool) -> None:
    """Use STRATEGY until the brokers restart: S0 without soft links; SD and SH keep each publisher's order,
    S1 and S2 need overlay.ordered = false."""
    with opened() as channel:
        if agreed(f"use {strategy} {f'at {at}' if at else 'in the whole overlay'}", dry_run, yes):
            reply = channel.ask("strategy.set", strategy=strategy, broker=at)
            rows = [{"broker": name, "strategy": word} for name, word in reply.body["brokers"].items()]
            show(lambda: Result(rows, COLUMNS, missing=reply.missing))
