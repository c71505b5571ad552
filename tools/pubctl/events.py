"""`pubctl events`: what has happened at the brokers, and with --follow what happens.

Every broker keeps its latest events and numbers them. A follower remembers how far it has read of each;
the pulse says who has more, and only those are asked. A broker that was restarted numbers anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click
import msgspec

from tools.pubctl.answers import Row, clean, names
from tools.pubctl.channel import Channel, Reply, opened
from tools.pubctl.commands import Command
from tools.pubctl.invocation import Duration, current
from tools.pubctl.output import Column, Result, console, emit, show

ONE_BY_ONE = 10  # brokers asked by name in one look; more are asked all together
TOGETHER = 20  # events of each then
KEPT = 1_024  # that a broker has
COLUMNS = (
    Column("t_ms", "time", lambda t_ms: clock(t_ms)),
    Column("broker", style="bold"),
    Column("kind"),
    Column("text"),
)
STYLES = {"warn": "yellow", "bad": "red"}


def clock(t_ms: float) -> str:
    """Local time; milliseconds tell what came first."""
    return datetime.fromtimestamp(t_ms / 1000).strftime("%H:%M:%S.%f")[:-3]


class Follower:
    """How far each broker's events are read. Nothing is lost unless a broker had more than it keeps."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[int, int]] = {}  # broker -> (incarnation, number of the last)

    def since(self, broker: str, incarnation: int) -> int:
        known, number = self._read.get(broker, (incarnation, 0))
        return number if known == incarnation else 0

    def behind(self, pulses: Iterable[list[Any]]) -> list[str]:
        """Who has something new."""
        return [p[0] for p in pulses if p[18] > self.since(p[0], p[2])]

    def skip(self, pulses: Iterable[list[Any]]) -> None:
        """What has happened so far is not asked for."""
        self._read |= {p[0]: (p[2], p[18]) for p in pulses}

    def take(self, reports: Iterable[Row]) -> tuple[list[Row], list[str]]:
        """The new events, the oldest first, and the brokers of which some between are still missing."""
        found: list[Row] = []
        short: list[str] = []
        for report in reports:
            broker, incarnation = report["name"], report["incarnation"]
            last = self.since(broker, incarnation)
            rows = [row for row in report["rows"] if row["n"] > last]
            if rows and rows[0]["n"] > last + 1 and len(report["rows"]) < min(KEPT, report["total"]):
                short.append(broker)
                continue
            if rows:
                self._read[broker] = (incarnation, rows[-1]["n"])
            found += [{"broker": broker, "incarnation": incarnation, **row} for row in rows]
        return sorted(found, key=lambda row: (row["t_ms"], row["broker"], row["n"])), short


def read_new(channel: Channel, follower: Follower, pulses: list[list[Any]]) -> list[Row]:
    """What came since the last call; `pulses` say who has something."""
    behind = follower.behind(pulses)
    incarnations = {p[0]: p[2] for p in pulses}
    if len(behind) > ONE_BY_ONE:
        rows, behind = follower.take(_reports(channel.ask("events", limit=TOGETHER)))
    else:
        rows = []
    for broker in behind[: 10 * ONE_BY_ONE]:
        since = follower.since(broker, incarnations.get(broker, 0))
        more, _ = follower.take(_reports(channel.ask("events", broker=broker, since=since, limit=KEPT)))
        rows += more
    return sorted(rows, key=lambda row: (row["t_ms"], row["broker"], row["n"]))


def _reports(reply: Reply) -> list[Row]:
    found: list[Row] = reply.body.get("brokers", [])
    return [clean(report, names(found)) for report in found]


def pulses_of(reply: Reply) -> list[list[Any]]:
    return [pulse for pulse in reply.body["pulses"] if isinstance(pulse, list)]


@click.command(cls=Command)
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens.")
@click.option("--at", metavar="BROKER", help="Of one broker only.")
@click.option("--kind", metavar="KIND", help="Only kinds that begin so: soft, relocate, slow...")
@click.option("--limit", default=20, show_default=True, help="So many of each broker.")
@click.option("--every", type=Duration(), default=1.0, show_default=True, help="With --follow.")
def events(follow: bool, at: str | None, kind: str | None, limit: int, every: float) -> None:
    """What has happened: links, joins, publishers that move, soft links, clients that do not keep up."""
    with opened() as channel:
        if not follow:
            show(lambda: _latest(channel, at, kind, limit))
            return
        _follow(channel, at, kind, limit, every)


def _wanted(rows: list[Row], kind: str | None) -> list[Row]:
    return [row for row in rows if kind is None or row["kind"].startswith(kind)]


def _latest(channel: Channel, at: str | None, kind: str | None, limit: int) -> Result:
    reply = channel.ask("events", broker=at, limit=limit)
    rows, _ = Follower().take([report | {"total": 0} for report in _reports(reply)])
    return Result(_wanted(rows, kind), COLUMNS, missing=reply.missing)


def _follow(channel: Channel, at: str | None, kind: str | None, limit: int, every_s: float) -> None:
    follower = Follower()
    first = channel.ask("events", broker=at, limit=limit)
    rows, _ = follower.take([report | {"total": 0} for report in _reports(first)])
    _print(_wanted(rows, kind))
    while True:
        time.sleep(every_s)
        pulses = pulses_of(channel.ask("pulse", broker=at, timeout_s=max(0.2, 0.8 * every_s)))
        _print(_wanted(read_new(channel, follower, pulses), kind))


def _print(rows: list[Row]) -> None:
    invocation = current()
    if invocation.output == "table":
        screen = console(invocation)
        for row in rows:
            style = STYLES.get(row["level"])
            line = f"{clock(row['t_ms'])}  {row['broker']:<8} {row['kind']:<18} {row['text']}"
            screen.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
    elif invocation.output in ("json", "jsonl"):
        for row in rows:
            click.echo(msgspec.json.encode(row))
    else:
        emit(invocation, Result(rows, COLUMNS), again=True)
