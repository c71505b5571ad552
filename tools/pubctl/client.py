"""`pubctl client ls|info`."""

from __future__ import annotations

import click
from rich.console import Console

from grapevine.client.keys import default_directory, read_entries
from tools.pubctl.answers import Row, flat, left_out, reports
from tools.pubctl.broker import print_fields
from tools.pubctl.channel import opened
from tools.pubctl.commands import group
from tools.pubctl.output import Column, Result, count, elapsed, show

COLUMNS = (
    Column("broker", style="bold"),
    Column("name", "client", style="bold"),
    Column("state"),
    Column("subscriptions", "subs", count, right=True),
    Column("advertisements", "advs", count, right=True),
    Column("published", "", count, right=True),
    Column("delivered", "", count, right=True),
    Column("in_flight", "", count, right=True),
    Column("backlog", "", count, right=True),
    Column("dropped", "", count, right=True),
    Column("lag_s", "lag", elapsed, right=True),
    Column("age_s", "age", elapsed, right=True),
    Column("address"),
    Column("key", "", lambda value: str(value)[:16]),
)


@group("client", "Clients of the brokers.")
def client() -> None: ...


@client.command()
@click.option("--at", metavar="BROKER", help="Of one broker only.")
@click.option("--slow", is_flag=True, help="Only those that do not keep up.")
@click.option("--limit", type=click.IntRange(min=0), help="Rows of one broker at most.  [default: 1000]")
def ls(at: str | None, slow: bool, limit: int | None) -> None:
    """Every client, where it is attached and whether it keeps up."""
    with opened() as channel:

        def produce() -> Result:
            reply = channel.ask("client.ls", broker=at, limit=limit)
            found = reports(reply)
            rows = [row for row in flat(found) if not slow or row["state"] == "slow" or row["dropped"]]
            name_keys(rows)
            return Result(rows, COLUMNS, footer=left_out(found, reply), missing=reply.missing)

        show(produce)


@client.command()
@click.argument("name")
def info(name: str) -> None:
    """One client: its counters, subscriptions and advertisements."""
    with opened() as channel:

        def produce() -> Result:
            found = reports(channel.ask("client.info", name=name))
            rows = [{"broker": r["name"], **r["client"], **_lists(r)} for r in found]
            return Result(rows, COLUMNS, text=lambda screen: _print(screen, rows))

        show(produce)


def name_keys(rows: list[Row]) -> None:
    """By the names that the keys have here, where they are known."""
    names = {entry.public: entry.name for entry in read_entries(default_directory()) if entry.public}
    for row in rows:
        if public := row.get("key"):
            row["key"] = names.get(public, public)


def _lists(report: Row) -> Row:
    return {"subscription_list": report["subscriptions"], "advertisement_list": report["advertisements"]}


def _print(screen: Console, rows: list[Row]) -> None:
    for row in rows:
        print_fields(screen, {key: value for key, value in row.items() if not key.endswith("_list")})
        for subscription in row["subscription_list"]:
            screen.print(f"  subscribes {subscription['number']}: ", end="")
            screen.print(subscription["filter"], markup=False)
        for filter in row["advertisement_list"]:
            screen.print("  advertises ", end="")
            screen.print(filter, markup=False)
