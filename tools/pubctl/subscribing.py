"""`pubctl sub FILTER`: subscribe and print what arrives, as it arrives."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tools.pubctl.channel import locate
from tools.pubctl.commands import Command
from tools.pubctl.failure import TIMEOUT, Failure
from tools.pubctl.invocation import Duration, Invocation, current
from tools.pubctl.output import Column, Result, as_csv

if TYPE_CHECKING:
    from grapevine import Message, Subscription

LOOK_S = 0.2
COLUMNS = tuple(Column(key) for key in ("publisher", "sequence", "broker", "hops", "attributes", "payload"))


@click.command(cls=Command)
@click.argument("filter")
@click.option("--count", type=click.IntRange(min=1), help="End after so many.")
@click.option("--for", "seconds", type=Duration(), help="End after this time.")
@click.option("--name", help="The subscriber's name.")
@click.option("--after", type=Duration(), default=0.0, help="Wait so long before.")
def sub(filter: str, count: int | None, seconds: float | None, name: str | None, after: float) -> None:
    """Print every publication that matches FILTER, until interrupted."""
    import grapevine

    invocation = current()
    time.sleep(after)
    with grapevine.connect(locate(invocation.broker), name=name, timeout=invocation.timeout_s) as client:
        subscription = client.subscribe(filter, timeout=invocation.timeout_s)
        invocation.say(f"subscribed as {client.name} at {client.broker}")
        try:
            got = _print_all(invocation, subscription, count, seconds)
        except KeyboardInterrupt:
            got = -1
        if dropped := subscription.dropped:
            invocation.say(f"{dropped} were dropped because this subscriber was too slow")
    if count is not None and 0 <= got < count:
        raise Failure(f"{got} of {count} arrived in {seconds:g} s", TIMEOUT, told=True, arrived=got)


def _print_all(
    invocation: Invocation, subscription: Subscription, count: int | None, seconds: float | None
) -> int:
    deadline = None if seconds is None else time.monotonic() + seconds
    got = 0
    if invocation.output == "csv":
        click.echo(",".join(column.key for column in COLUMNS))
    while count is None or got < count:
        left = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
        if left <= 0:
            break
        for message in subscription.next_batch(count - got if count else 1000, timeout=left):
            _print(invocation, message)
            got += 1
        sys.stdout.flush()
    return got


def _print(invocation: Invocation, message: Message) -> None:
    row = row_of(message)
    if invocation.output == "json":
        click.echo(msgspec.json.encode({"schema": invocation.schema, **row}))
    elif invocation.output == "jsonl":
        click.echo(msgspec.json.encode(row))
    elif invocation.output == "csv":
        click.echo(
            as_csv(Result([{c.key: row[c.key] for c in COLUMNS}], COLUMNS)).split("\n", 1)[1], nl=False
        )
    else:
        click.echo(line_of(row))


def row_of(message: Message) -> dict[str, Any]:
    return {
        "publisher": message.publisher,
        "sequence": message.sequence,
        "broker": message.broker,
        "hops": message.hops,
        "accepted_at": message.accepted_at,
        "attributes": message.attributes,
        "payload": message.payload.decode(errors="backslashreplace"),
        "subscriptions": list(message.subscriptions),
    }


def line_of(row: dict[str, Any]) -> str:
    said = " ".join(f"{name}={value}" for name, value in row["attributes"].items())
    payload = f"  {row['payload']}" if row["payload"] else ""
    return f"{row['publisher']}#{row['sequence']} from {row['broker']}, {row['hops']} hops: {said}{payload}"
