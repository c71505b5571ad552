"""`pubctl relocate show|plan|apply|set`."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import click

from tools.pubctl.channel import Channel, opened
from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.failure import Failure
from tools.pubctl.output import Column, Result, count, several, show


def _share(value: Any) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _word(value: Any) -> str:
    return "" if value is None else str(value)


COLUMNS = (
    Column("publisher", style="bold"),
    Column("at"),
    Column("traces", "", count, right=True),
    Column("threshold", "of", count, right=True),
    Column("target", "would go to", _word),
    Column("path", "hops", _word, right=True),
    Column("saves", "saves", _share, right=True),
    Column("outcome"),
)
DONE = (Column("publisher", style="bold"), Column("from"), Column("to"), Column("hops"), Column("outcome"))
STAYED = "stayed"
LOOK_S = 0.1  # between two looks at a publisher that moves
SET = (Column("broker", style="bold"), Column("outcome"))


@group("relocate", "Publishers move towards their audience.")
def relocate() -> None: ...


def _ask(verb: str) -> None:
    with opened() as channel:

        def produce() -> Result:
            reply = channel.ask(verb)
            algorithms = sorted(set(reply.body["algorithms"].values()))
            footer = f"algorithm: {', '.join(algorithms)}; moved so far: {reply.body['moved']}"
            extra = {"algorithms": reply.body["algorithms"], "moved": reply.body["moved"]}
            return Result(reply.body["publishers"], COLUMNS, extra, footer=footer, missing=reply.missing)

        show(produce)


@relocate.command(name="show")
def show_() -> None:
    """Every publisher: its traces, where it is, where it would go and what that saves."""
    _ask("relocate.show")


@relocate.command()
def plan() -> None:
    """Only those that would go elsewhere."""
    _ask("relocate.plan")


@relocate.command()
@click.argument("publisher")
@click.argument("target", metavar="BROKER")
@changes
def apply(publisher: str, target: str, dry_run: bool, yes: bool) -> None:
    """Have PUBLISHER publish at BROKER, and wait until it does."""
    with opened() as channel:
        row = channel.ask("relocate.apply", publisher=publisher, broker=target, dry_run=True).body
        what = f"move {publisher} from {row['from']} to {target} ({several(row['hops'], 'hop')})"
        if row["hops"] and agreed(what, dry_run, yes):
            row = channel.ask("relocate.apply", publisher=publisher, broker=target).body
            row["outcome"] = _ended(channel, publisher, target)
        if row["outcome"] == STAYED:
            raise Failure(f"{publisher} stays at {row['from']}: {target} was not reached or did not take it")
        show(lambda: Result([row], DONE))


def _ended(channel: Channel, publisher: str, target: str) -> str:
    """What has become of an offer, as far as it is known in time."""
    deadline = monotonic() + channel.timeout_s
    while monotonic() < deadline:
        rows = channel.ask("relocate.show").body["publishers"]
        mine = [row for row in rows if row["publisher"] == publisher]
        if mine and not any(row["moving"] for row in mine):
            return "moved" if any(row["at"] == target for row in mine) else STAYED
        sleep(LOOK_S)
    return "on its way"


@relocate.command(name="set")
@click.argument("algorithm", type=click.Choice(["pop", "grape", "off"]))
@click.option("--priority", type=click.Choice(["load", "delay"]), help="What GRAPE minimises first.")
@click.option("--weight", type=click.FloatRange(0, 100), help="How much of it, in per cent.")
@click.option("--threshold", type=click.IntRange(min=1), help="Traced publications before a decision.")
@changes
def set_(
    algorithm: str,
    priority: str | None,
    weight: float | None,
    threshold: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Who decides where publishers go, in the whole overlay, until the brokers restart."""
    with opened() as channel:
        if agreed(f"relocate publishers by {algorithm} in the whole overlay", dry_run, yes):
            given = {"priority": priority, "weight": weight, "threshold": threshold}
            reply = channel.ask("relocate.set", algorithm=algorithm, **given)
            rows = [{"broker": name, "outcome": algorithm} for name in reply.body["brokers"]]
            show(lambda: Result(rows, SET, missing=reply.missing))
