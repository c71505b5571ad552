"""`pubctl stream ls|add|show|rm|parked`."""

from __future__ import annotations

import click

from tools.pubctl.answers import flat, left_out, reports
from tools.pubctl.channel import opened
from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.output import Column, Result, count, show

COLUMNS = (
    Column("broker", style="bold"),
    Column("name", style="bold"),
    Column("retention", "kept"),
    Column("first", "", count, right=True),
    Column("end", "", count, right=True),
    Column("bytes", "", count, right=True),
    Column("readers", right=True),
    Column("behind", "", count, right=True),
    Column("parked", "", count, right=True),
    Column("filter"),
)
READERS = (
    Column("name", "reader", style="bold"),
    Column("acknowledged", "", count, right=True),
    Column("behind", "", count, right=True),
    Column("in_flight", "under way", count, right=True),
    Column("parked", "", count, right=True),
)
PARKED = (Column("reader", style="bold"), Column("offset", right=True))
DONE = (Column("name", style="bold"), Column("broker"), Column("outcome"))
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
SIZES = {"K": 1024, "M": 1024**2, "G": 1024**3}


def seconds(text: str) -> float:
    """`7d`, `12h`, `90s`, or plain seconds."""
    unit = UNITS.get(text[-1:])
    try:
        return float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time such as 7d, 12h or 90s") from None


def size(text: str) -> int:
    unit = SIZES.get(text[-1:].upper())
    try:
        return int(float(text[:-1]) * unit) if unit else int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a size such as 10G or 500M") from None


@group("stream", "What brokers keep for durable subscriptions, and streams to read again.")
def stream() -> None: ...


@stream.command()
def ls() -> None:
    """Every stream of the overlay, with how far its slowest reader is behind."""
    with opened() as channel:

        def produce() -> Result:
            reply = channel.ask("stream.ls")
            found = reports(reply)
            return Result(flat(found), COLUMNS, footer=left_out(found, reply), missing=reply.missing)

        show(produce)


@stream.command()
@click.argument("name")
@click.argument("filter")
@click.option("--age", default="", metavar="TIME", help="What is older goes: 7d, 12h, 90s.")
@click.option("--bytes", "bytes_", default="", metavar="SIZE", help="The oldest go beyond this: 10G, 500M.")
@click.option("--key", default="", metavar="ATTRIBUTE", help="`sub --last` reads the newest of each value.")
@changes
def add(name: str, filter: str, age: str, bytes_: str, key: str, dry_run: bool, yes: bool) -> None:
    """Keep what matches FILTER as NAME, at the broker that is asked, whoever reads it."""
    age_s, most = seconds(age) if age else None, size(bytes_) if bytes_ else None
    with opened() as channel:
        if agreed(f"keep {filter} as {name}", dry_run, yes):
            body = channel.ask("stream.add", name=name, filter=filter, age_s=age_s, bytes=most, key=key).body
            show(lambda: Result([body], DONE))


@stream.command(name="show")
@click.argument("name")
def show_(name: str) -> None:
    """One stream of the broker that is asked, and its readers."""
    with opened() as channel:

        def produce() -> Result:
            body = channel.ask("stream.show", name=name).body
            rows = [
                {**row, "behind": body["end"] - 1 - row["acknowledged"], "parked": len(row["parked"])}
                for row in body["cursors"]
            ]
            kept = f"{name}: offsets {body['first']} to {body['end'] - 1}, about {body['bytes']:,} bytes"
            return Result(rows, READERS, footer=kept)

        show(produce)


@stream.command()
@click.argument("name")
def parked(name: str) -> None:
    """What was delivered too often and is delivered no more, by reader."""
    with opened() as channel:
        body = channel.ask("stream.show", name=name).body
        rows = [
            {"reader": row["name"], "offset": offset} for row in body["cursors"] for offset in row["parked"]
        ]
        show(lambda: Result(rows, PARKED))


@stream.command()
@click.argument("name")
@changes
def rm(name: str, dry_run: bool, yes: bool) -> None:
    """Forget a stream and all that is kept in it."""
    with opened() as channel:
        row = channel.ask("stream.rm", name=name, dry_run=True).body
        if agreed(f"remove {name} and its {row['readers']} readers", dry_run, yes):
            row = channel.ask("stream.rm", name=name).body
        show(lambda: Result([row], DONE))
