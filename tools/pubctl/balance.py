"""`pubctl balance ...`: load of brokers by their subscribers of channels, and who should move."""

from __future__ import annotations

from typing import Any

import click

from tools.pubctl.channel import opened
from tools.pubctl.commands import group
from tools.pubctl.output import Column, Result, count, show

COLUMNS = (
    Column("broker", style="bold"),
    Column("subscribers", "", count, right=True),
    Column("movable", "", count, right=True),
    Column("front_end", "front-end", count, right=True),
    Column("back_end", "back-end", count, right=True),
    Column("load_bytes_s", "bytes/s", count, right=True),
)


@group("balance", "Load of brokers by their subscribers of channels.")
def balance() -> None: ...


@balance.command(name="show")
def show_() -> None:
    """Loads of all brokers and how uneven they are."""
    with opened() as line:

        def produce() -> Result:
            body = line.ask("balance.show").body
            footer = (
                f"cov {body['cov']:g}, mean {body['mean_bytes_s']:g} bytes/s; mode {body['mode']}: "
                f"{body['moving']} moving, {body['moved']} moved, {body['failed']} failed"
            )
            if body["waits_for"]:
                footer += f"; waits for {', '.join(body['waits_for'])}"
            if body["trouble"]:
                footer += f"; the last that stayed: {body['trouble'][-1]}"
            extra = {key: value for key, value in body.items() if key != "brokers"}
            return Result(body["brokers"], COLUMNS, extra, footer=footer)

        show(produce)


@balance.command()
def plan() -> None:
    """Who would move in a round now. Nobody is moved."""
    with opened() as line:
        body = line.ask("balance.plan").body
    _show_plan(body)


def _show_plan(body: dict[str, Any]) -> None:
    footer = f"{body['stage']}: cov {body['cov']:g} -> {body['cov_after']:g} ({body['ended']})"
    columns = (Column("subscriber", style="bold"), Column("from"), Column("to"))
    extra = {key: value for key, value in body.items() if key != "moves"}
    show(lambda: Result(body["moves"], columns, extra, footer=footer))


@balance.command(name="set")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
def set_(settings: tuple[str, ...]) -> None:
    """Of the coordinator, until it restarts: mode, assign, scheme, alpha, beta, gamma, theta, keep, moves,
    in_flight, cooldown_s, check_s, report_s, window_s."""
    given: dict[str, Any] = dict(word.partition("=")[::2] for word in settings)
    with opened() as line:
        body = line.ask("balance.set", **given).body
    rows = [{"key": key, "value": value} for key, value in body["settings"].items()]
    show(lambda: Result(rows, (Column("key", style="bold"), Column("value")), body))


@balance.command()
def apply() -> None:
    """A round now, whatever the mode: subscribers are moved. `balance show` tells how far it is."""
    with opened() as line:
        body = line.ask("balance.apply").body
    _show_plan(body)
