"""`pubctl client ls|info|move`."""

from __future__ import annotations

from time import monotonic, sleep

import click
from rich.console import Console

from grapevine.client.keys import default_directory, read_entries
from tools.pubctl.answers import Row, flat, left_out, reports
from tools.pubctl.broker import print_fields
from tools.pubctl.channel import Channel, opened
from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.failure import Failure
from tools.pubctl.output import Column, Result, count, elapsed, several, show

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

MOVED = (
    Column("client", style="bold"),
    Column("from"),
    Column("to"),
    Column("outcome"),
    Column("text"),
)
LOOK_S, MOVE_S = 0.1, 120.0  # between two looks at an order, and until it is given up


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


@client.command()
@click.argument("names", metavar="NAME... BROKER", nargs=-1, required=True)
@click.option("--all-of", metavar="BROKER", help="Every client of this broker; then only BROKER is given.")
@changes
def move(names: tuple[str, ...], all_of: str | None, dry_run: bool, yes: bool) -> None:
    """Hand clients over to BROKER while publications pass: none is lost, doubled or out of order. Who cannot
    go stays where it is."""
    *clients, target = names
    if bool(clients) == bool(all_of):
        raise click.UsageError("give the clients' names and then the broker, or --all-of and the broker")
    with opened() as channel:
        asked = {"names": "\n".join(clients), "all_of": all_of, "to": target}
        rows = channel.ask("client.move", **asked, dry_run=True).body["clients"]
        if agreed(f"move {several(len(rows), 'client')} to {target}", dry_run, yes):
            order = channel.ask("client.move", **asked).body["order"]
            rows = _moved(channel, order, len(rows))
        show(lambda: Result([{"outcome": "", "text": "", **row, "to": target} for row in rows], MOVED))
    if stay := [row for row in rows if row.get("outcome") not in (None, "moved")]:
        raise Failure(f"{len(stay)} of {len(rows)} did not move: {stay[0]['client']}: {stay[0]['text']}")


def _moved(channel: Channel, order: str, expected: int) -> list[Row]:
    """What has become of an order, or of as much of it as has ended in time."""
    deadline = monotonic() + max(channel.timeout_s, MOVE_S)
    while True:
        body = channel.ask("client.moved", order=order).body
        if (len(body["rows"]) >= expected or not body["under_way"]) or monotonic() > deadline:
            return list(body["rows"])
        sleep(LOOK_S)


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
