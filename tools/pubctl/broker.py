"""`pubctl broker ls|info|ping|drain|reload|move|forget`."""

from __future__ import annotations

from time import monotonic
from typing import Any

import click
from rich.console import Console

from tools.pubctl.answers import Row, clean, names, reports
from tools.pubctl.channel import Channel, Reply, opened
from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.failure import NOT_FOUND, Failure
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, listed, several, show
from tools.pubctl.status import PLACE, overview, placed

LISTED = (
    Column("name", "broker", style="bold"),
    Column("state"),
    *PLACE,
    Column("depth", right=True),
    Column("links", right=True),
    Column("addresses", "", listed),
)
MOVED = (
    Column("broker", style="bold"),
    Column("to"),
    Column("outcome"),
    Column("path", "the way there was", listed),
)
FORGOTTEN = (
    Column("broker", style="bold"),
    Column("keeper"),
    Column("publications", right=True),
    Column("publishers", right=True),
    Column("outcome"),
)
PINGED = (Column("name", "broker", style="bold"), Column("state"), Column("round_trip_ms", "ms", right=True))


@group("broker", "Brokers of the overlay.")
def broker() -> None: ...


@broker.command()
def ls() -> None:
    """Every broker, its state, parent (on a ring: position and successor) and addresses."""
    with opened() as channel:

        def produce() -> Result:
            result = overview(channel.ask("broker.ls"))
            result.columns, result.footer = placed(LISTED, result.rows), ""
            return result

        show(produce)


@broker.command()
@click.argument("name", required=False)
def info(name: str | None) -> None:
    """All that one broker says about itself (the one asked, if none is named)."""
    with opened() as channel:

        def produce() -> Result:
            row = describe(channel, name)
            return Result([row], (), text=lambda screen: print_fields(screen, row))

        show(produce)


def describe(channel: Channel, name: str | None) -> Row:
    if name is None:
        name = channel.ask("broker.ping").body["asked"]
    return reports(channel.ask("broker.info", broker=name))[0]


def print_fields(screen: Console, row: Row, indent: str = "") -> None:
    width = max((len(key) for key in row), default=0)
    for key, value in row.items():
        if isinstance(value, dict) and value:
            screen.print(f"{indent}[bold]{key}[/bold]")
            print_fields(screen, value, indent + "  ")
        else:
            screen.print(f"{indent}{key:<{width}}  ", end="")
            screen.print(_plain(value), markup=False)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return listed(value) or "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value in (None, "", {}) else str(value)


@broker.command()
@click.argument("name", required=False)
@click.option("--count", "times", default=1, show_default=True, help="How often.")
def ping(name: str | None, times: int) -> None:
    """Ask every broker, or one, for a sign of life; times are those of the whole round."""
    with opened() as channel:
        show(lambda: _ping(channel, name, times))


def _ping(channel: Channel, name: str | None, times: int) -> Result:
    best: dict[str, float] = {}
    missing: list[str] = []
    for _ in range(max(1, times)):
        began = monotonic()
        reply = channel.ask("broker.ping", broker=name)
        took_ms = round((monotonic() - began) * 1000, 2)
        missing = reply.missing
        for report in reports(reply):
            best[report["name"]] = min(best.get(report["name"], took_ms), took_ms)
    rows = [{"name": who, "state": "answers", "round_trip_ms": ms} for who, ms in best.items()]
    rows += [{"name": who, "state": "missing", "round_trip_ms": None} for who in missing]
    return Result(rows, PINGED, missing=missing)


@broker.command()
@click.argument("name")
@changes
def drain(name: str, dry_run: bool, yes: bool) -> None:
    """Let a broker leave: its clients move on, its children find a new parent, nothing settled is lost."""
    with opened() as channel:
        row = describe(channel, name)
        children = [r["name"] for r in reports(channel.ask("broker.ls")) if r.get("parent") == name]
        what = (
            f"drain {name} ({several(row['clients'], 'client')}, {several(len(children), 'broker')} below it)"
        )
        if agreed(what, dry_run, yes):
            reply = channel.ask("broker.drain", broker=name)
            current().say(f"{name} is leaving; it ends when everything it holds is settled")
            show(lambda: _done(reply))
        else:
            show(lambda: Result([{"name": name, "state": row["state"], "children": children}], _NAME_STATE))


_NAME_STATE = (Column("name", "broker", style="bold"), Column("state"))


def _done(reply: Reply) -> Result:
    found = reply.body.get("brokers", [])
    return Result([clean(row, names(found)) for row in found], _NAME_STATE)


@broker.command()
@click.argument("name", required=False)
@changes
def reload(name: str | None, dry_run: bool, yes: bool) -> None:
    """Have a broker read its configuration again, and say which changes need a restart."""
    with opened() as channel:
        row = describe(channel, name)
        if not agreed(f"reload the configuration of {row['name']}", dry_run, yes):
            return
        if name is None:
            reply = channel.ask("reload")
        else:
            reply = _elsewhere(row)
    restart = reply.body.get("restart", [])
    if restart:
        current().say(f"a restart is needed for {listed(restart)}")
    columns = (Column("name", "broker", style="bold"), Column("restart", "needs a restart", listed))
    show(lambda: Result([{"name": row["name"], "restart": restart}], columns))


@broker.command()
@click.argument("name", metavar="BROKER")
@click.option("--to", required=True, metavar="NEIGHBOUR", help="Its parent from now on, within delta hops.")
@changes
def move(name: str, to: str, dry_run: bool, yes: bool) -> None:
    """Give a broker another parent while publications pass: none is lost, doubled or out of order. A broker
    with the role "coordinator" must permit it."""
    with opened() as channel:
        reply = channel.ask("broker.move", broker=name, to=to, dry_run=True)
        what = f"move {name} below {to} (the way there: {' - '.join(reply.body['path'])})"
        if agreed(what, dry_run, yes):
            reply = channel.ask("broker.move", broker=name, to=to)
        show(lambda: Result([reply.body], MOVED))


def _elsewhere(row: Row) -> Reply:
    """A configuration is its own daemon's business: ask that one."""
    if not row["addresses"]:
        raise Failure(f"{row['name']} has no address to be asked at", NOT_FOUND)
    with opened(row["addresses"][0]) as channel:
        return channel.ask("reload")


@broker.command()
@click.argument("name")
@changes
def forget(name: str, dry_run: bool, yes: bool) -> None:
    """Give a broker's disk up for lost: who keeps a copy of its durable publications publishes what was not
    settled. Only with journal.copies = 2, and only while the broker is not there."""
    with opened() as channel:
        row = channel.ask("broker.forget", name=name, dry_run=True).body
        what = (
            f"forget {name}: {row['keeper']} publishes {several(row['publications'], 'publication')} "
            f"of {several(row['publishers'], 'publisher')}"
        )
        if agreed(what, dry_run, yes):
            row = channel.ask("broker.forget", name=name).body
        show(lambda: Result([row], FORGOTTEN, missing=row["missing"]))
