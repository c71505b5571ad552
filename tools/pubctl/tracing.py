"""`pubctl trace k=v...`: the path of one publication, with the reason at every broker.

Subscriptions travel towards advertisements, so a broker where nobody advertised knows few of them. The
trace therefore advertises what it asks about for the moment it takes (not with --as-is), as a publisher
would before its first publication.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.markup import escape

from tools.pubctl import attributes
from tools.pubctl.answers import Row, clean, names
from tools.pubctl.channel import Channel, Reply, locate, opened
from tools.pubctl.commands import Command
from tools.pubctl.failure import USAGE, Failure
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, several, show

if TYPE_CHECKING:
    from grapevine import Client

ONE_HOP = ("asks ", "finds clients", "delivers")  # how a verdict begins there where all is well
INCARNATION = re.compile(r"/[0-9a-f]+\.")
COLUMNS = (
    Column("hops", right=True),
    Column("broker", style="bold"),
    Column("from"),
    Column("verdict"),
    Column("to", "sent to", lambda to: ", ".join(to) or "-"),
    Column("client_count", "clients", right=True),
)


@click.command(cls=Command)
@click.argument("words", metavar="NAME=VALUE...", nargs=-1)
@click.option("--deliver", is_flag=True, help="Publish it, too.")
@click.option("--payload", default="", help="What it carries, with --deliver.")
@click.option("--client", metavar="NAME", help="As this client of the broker, within its advertisements.")
@click.option("--as-is", is_flag=True, help="Advertise nothing: what the tables say now.")
def trace(words: tuple[str, ...], deliver: bool, payload: str, client: str | None, as_is: bool) -> None:
    """Where a publication with these attributes goes from the broker asked, and why."""
    content = attributes.read(words)
    if deliver and (client or as_is):
        raise Failure("--deliver publishes as a client of its own: not with --client or --as-is", USAGE)
    with opened() as channel:
        if client or as_is:
            show(lambda: followed(channel, content, client))
        else:
            _as_publisher(channel, content, payload if deliver else None)


def _as_publisher(channel: Channel, content: dict[str, attributes.Value], payload: str | None) -> None:
    import grapevine

    invocation = current()
    broker = locate(invocation.broker)
    with grapevine.connect(broker, timeout=invocation.timeout_s) as publisher:
        publisher.advertise(attributes.equals_all(content), timeout=invocation.timeout_s)
        show(lambda: _once(channel, content, publisher, payload))


def _once(
    channel: Channel, content: dict[str, attributes.Value], publisher: Client, payload: str | None
) -> Result:
    result = followed(channel, content, publisher.name)
    if payload is not None:
        sequence = publisher.publish(content, payload.encode())
        publisher.flush(timeout=current().timeout_s)
        result.extra |= {"publisher": publisher.name, "sequence": sequence, "settled": True}
        result.footer += f"; published by {publisher.name} as {sequence}, settled"
    return result


def followed(channel: Channel, content: dict[str, attributes.Value], client: str | None) -> Result:
    encoded = msgspec.json.encode(content).decode()
    return traced(channel.ask("trace", attributes=encoded, client=client))


def traced(reply: Reply) -> Result:
    found: list[Row] = reply.body["path"]
    rows = in_order([clean(row, names(found, "broker")) for row in found])
    for row in rows:
        row["to"] = [n["name"] for n in row["neighbours"] if n["taken"]]
    clients = sum(row.get("client_count", 0) for row in rows)
    reached = [row["broker"] for row in rows if row.get("client_count")]
    extra = {
        "attributes": reply.body["attributes"],
        "asked": reply.body["asked"],
        "brokers": len(rows),
        "clients": clients,
    }
    footer = (
        f"{several(len(rows), 'broker')} on the path, {several(clients, 'client')} at {len(reached)} of them"
    )
    return Result(
        rows, COLUMNS, extra, footer=footer, missing=reply.missing, text=lambda screen: draw(screen, rows)
    )


def in_order(rows: list[Row]) -> list[Row]:
    """Along the path, branch by branch."""
    after: dict[str | None, list[Row]] = {}
    for row in rows:
        after.setdefault(row["from"], []).append(row)
    ordered: list[Row] = []
    waiting = [row for row in rows if row["hops"] == 0]
    while waiting:
        row = waiting.pop(0)
        ordered.append(row)
        waiting = [r for r in after.get(row["broker"], []) if r["hops"] == row["hops"] + 1] + waiting
    return ordered + [row for row in rows if row not in ordered]


def draw(screen: Console, rows: list[Row]) -> None:
    """The path as a tree: who got it from whom and for which subscription, and why the others did not."""
    from rich.tree import Tree

    at: dict[tuple[str, int], Tree] = {}  # a way may pass a broker twice: to the root of a topic, and back
    rows_at = {(row["broker"], row["hops"]): row for row in reversed(rows)}
    for row in rows:
        above = (row["from"] or "", row["hops"] - 1)
        label = f"[bold]{escape(row['broker'])}[/bold]  {_verdict(row, rows_at.get(above))}{_root(row)}"
        node = at[above].add(label) if above in at else Tree(label, guide_style="dim")
        at.setdefault((row["broker"], row["hops"]), node)
        for text in _reasons(row):
            node.add(text)
    for row in rows:
        if (row["from"] or "", row["hops"] - 1) not in at:
            screen.print(at[row["broker"], row["hops"]])


def _root(row: Row) -> str:
    """On a ring: of which topic it is the root."""
    if not row.get("root"):
        return ""
    topic, key, members = escape(row["topic"]), row["key"], several(row["members"], "broker")
    return f", [cyan]root of the topic {topic}[/cyan] (key {key}), wanted by {members}"


def _verdict(row: Row, above: Row | None) -> str:
    if row["verdict"] != "matched":
        colour = "yellow" if row["verdict"] in ("no match", "finds nobody") else "red"
        colour = "green" if row["verdict"].startswith(ONE_HOP) else colour
        return f"[{colour}]{row['verdict']}[/{colour}]"
    if above is None:
        return "[green]accepted here[/green]"
    taken = [n for n in above["neighbours"] if n["name"] == row["broker"] and n["taken"]]
    return "; ".join(map(_why, taken))


def _why(neighbour: Row) -> str:
    """For which subscription it went there, and past whom if a soft link took it."""
    past = escape(", ".join(neighbour.get("bypasses") or ()))
    way = f"[cyan]by a soft link past {past}[/cyan]" if past else ""
    which = f"for {_which(neighbour)}" if neighbour["subscriptions"] else ""
    return ", ".join(part for part in (way, which) if part) or neighbour["reason"]


def _reasons(row: Row) -> list[str]:
    texts = [f"[green]client {escape(client['name'])}[/green]{_wants(client)}" for client in row["clients"]]
    for neighbour in row["neighbours"]:
        name, reason = escape(neighbour["name"]), neighbour["reason"]
        if neighbour["taken"] and reason == "suspended":
            texts.append(f"[red]waits for {name}: the link is down[/red]")
        elif not neighbour["taken"] and reason != "came from there":
            texts.append(f"[dim]not to {name}: {reason}[/dim]")
    return texts


def _wants(client: Row) -> str:
    return f": {_which(client)}" if client["subscriptions"] else ""


def _which(matched: Row) -> str:
    """The first of the subscriptions, and how many there are."""
    told = [f"{_called(s['id'])} ({escape(s['filter'])}){_covered(s)}" for s in matched["subscriptions"][:1]]
    more = matched["count"] - len(told)
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _called(label: str) -> str:
    """As short as `subs explain` still understands it: without the incarnation."""
    return escape(INCARNATION.sub("/", label))


def _covered(subscription: dict[str, Any]) -> str:
    by = subscription.get("covered_by")
    return f", known upstream by {_called(by)} that covers it" if by else ""
