"""`pubctl sub FILTER`: subscribe and print what arrives, as it arrives."""

from __future__ import annotations

import math
import re
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import msgspec

from tools.pubctl import attributes
from tools.pubctl.channel import locate
from tools.pubctl.commands import Command
from tools.pubctl.failure import TIMEOUT, USAGE, Failure
from tools.pubctl.invocation import Duration, Invocation, current
from tools.pubctl.output import Column, Result, as_csv, several

if TYPE_CHECKING:
    from grapevine import Client, GroupSubscription, Message, Subscription

    Reading: TypeAlias = Subscription | GroupSubscription

LOOK_S = 0.2
FIELDS = ("publisher", "sequence", "broker", "hops", "accepted_at", "context", "payload", "attributes")
FIELD = re.compile(r"\{([^{}]*)\}")
COLUMNS = tuple(Column(key) for key in ("publisher", "sequence", "broker", "hops", "attributes", "payload"))


@click.command(cls=Command)
@click.argument("filter")
@click.option("--count", type=click.IntRange(min=1), help="End after so many.")
@click.option("--for", "seconds", type=Duration(), help="End after this time.")
@click.option("--name", help="The subscriber's name.")
@click.option("--group", help="Share what matches with all who read in this group.")
@click.option("--last", is_flag=True, help="Begin with the newest of each key (`stream add --key`).")
@click.option("--after", type=Duration(), default=0.0, help="Wait so long before.")
@click.option("--format", "template", metavar="TEXT", help="A line of one's own for each, with {FIELD}s.")
@click.option("--raw", is_flag=True, help="The payloads alone, byte for byte, with nothing between them.")
def sub(
    filter: str,
    count: int | None,
    seconds: float | None,
    name: str | None,
    group: str | None,
    last: bool,
    after: float,
    template: str | None,
    raw: bool,
) -> None:
    """Print every publication that matches FILTER, until interrupted.

    Fields of --format are {publisher}, {sequence}, {broker}, {hops}, {accepted_at}, {context}, {payload},
    {attributes} and {attributes.NAME}; \\n and \\t are what they say.
    """
    import grapevine

    invocation = current()
    if (template is not None and raw) or (group and last):
        raise Failure("--format or --raw, --group or --last, not both", USAGE)
    write = printer(invocation, template, raw)
    time.sleep(after)
    with grapevine.connect(locate(invocation.broker), name=name, timeout=invocation.timeout_s) as client:
        subscription = _subscribe(client, filter, group, last, invocation.timeout_s)
        invocation.say(f"subscribed as {client.name} at {client.broker}")
        try:
            got = _print_all(invocation, subscription, count, seconds, write)
        except KeyboardInterrupt:
            got = -1
        if isinstance(subscription, grapevine.GroupSubscription):
            subscription.close()
        if dropped := client.dropped:
            invocation.say(f"{dropped} were dropped because this subscriber was too slow")
    if count is not None and 0 <= got < count:
        raise Failure(f"{got} of {count} arrived in {seconds:g} s", TIMEOUT, told=True, arrived=got)


def _subscribe(client: Client, filter: str, group: str | None, last: bool, timeout_s: float) -> Reading:
    if group:
        return client.subscribe(filter, timeout=timeout_s, group=group)
    return client.subscribe(filter, timeout_s, last=True) if last else client.subscribe(filter, timeout_s)


def _print_all(
    invocation: Invocation,
    subscription: Reading,
    count: int | None,
    seconds: float | None,
    write: Callable[[Message], None],
) -> int:
    deadline = None if seconds is None else time.monotonic() + seconds
    got = 0
    if invocation.output == "csv" and not invocation.quiet:
        click.echo(",".join(column.key for column in COLUMNS))
    while count is None or got < count:
        left = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
        if left <= 0:
            break
        for message in subscription.next_batch(count - got if count else 1000, timeout=left):
            if isinstance(message, tuple):
                invocation.say(f"offsets {message.first} to {message.last} are lost: {message.reason}")
                continue
            write(message)
            got += 1
        sys.stdout.flush()
    return got


def printer(invocation: Invocation, template: str | None, raw: bool) -> Callable[[Message], None]:
    if raw:
        return lambda message: click.echo(message.payload, nl=False)
    if template is None:
        return lambda message: _print(invocation, message)
    text = template.replace("\\n", "\n").replace("\\t", "\t")
    check_template(text)
    return lambda message: click.echo(formatted(text, row_of(message)))


def check_template(template: str) -> None:
    for name in FIELD.findall(template):
        if name not in FIELDS and not name.startswith("attributes."):
            raise Failure(f"--format: no field {{{name}}}; there are {', '.join(FIELDS)}", USAGE)


def formatted(template: str, row: dict[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name == "attributes":
            return words_of(row)
        inner = name.removeprefix("attributes.")
        said = row["attributes"].get(inner) if inner != name else row.get(name)
        return "-" if said is None else str(said).lower() if isinstance(said, bool) else str(said)

    return FIELD.sub(value, template)


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
        "attributes": {name: plain(value) for name, value in message.attributes.items()},
        **({} if message.context is None else {"context": message.context}),
        "payload": message.payload.decode(errors="backslashreplace"),
        **_bytes(message.payload),
        "subscriptions": list(message.subscriptions),
    }


def _bytes(payload: bytes) -> dict[str, str]:
    """What is no text is there as it is, too."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return {"payload_base64": b64encode(payload).decode()}
    return {}


def words_of(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in row["attributes"].items())


def plain(value: attributes.Value) -> attributes.Value:
    """JSON has no infinity, and would have null for it."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def line_of(row: dict[str, Any]) -> str:
    said = words_of(row)
    payload = f"  {row['payload']}" if row["payload"] else ""
    way = several(row["hops"], "hop")
    return f"{row['publisher']}#{row['sequence']} from {row['broker']}, {way}: {said}{payload}"
