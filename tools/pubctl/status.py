"""`pubctl status`: the overlay at a glance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from tools.pubctl.answers import Row, natural, reports
from tools.pubctl.channel import Reply, opened
from tools.pubctl.commands import Command
from tools.pubctl.output import Column, Result, count, percent, several, show, size

STATES = {"missing": "no answer"}
PLACE = (Column("parent"),)
RING_PLACE = (Column("position"), Column("successor"))
OF_TREES = ("parent", "depth")
COLUMNS = (
    Column("name", "broker", style="bold"),
    Column("state", show=lambda state: STATES.get(state, state)),
    *PLACE,
    Column("clients", right=True),
    Column("subscriptions", "subs", count, right=True),
    Column("accepted", "", count, right=True),
    Column("forwarded", "", count, right=True),
    Column("delivered", "", count, right=True),
    Column("in_s", "in/s", count, right=True),
    Column("out_s", "out/s", count, right=True),
    Column("cpu", "", percent, right=True),
    Column("memory_bytes", "memory", size, right=True),
)


@click.command(cls=Command)
def status() -> None:
    """The overlay at a glance: brokers, what they hold, what they carry."""
    with opened() as channel:
        show(lambda: overview(channel.ask("status")))


def overview(reply: Reply) -> Result:
    brokers = [with_measures(report) for report in reports(reply)]
    absent = absentees(reply)
    summed = totals(brokers)
    extra = {"asked": reply.body.get("asked"), "totals": summed}
    columns = placed(COLUMNS, brokers)
    return Result(brokers + absent, columns, extra, footer=summary(summed), missing=reply.missing)


def placed(columns: tuple[Column, ...], brokers: list[Row]) -> tuple[Column, ...]:
    """With a column for where brokers are: a ring has no parents, a one-hop cluster no places."""
    if any("parent" in broker for broker in brokers) or not brokers:
        return columns
    place = RING_PLACE if any("position" in broker for broker in brokers) else ()
    at = columns.index(PLACE[0])
    rest = (column for column in columns[at:] if column.key not in OF_TREES)
    return (*columns[:at], *place, *rest)


def absentees(reply: Reply) -> list[Row]:
    """Who does not answer, who is behind these, and who was there before: nobody vanishes."""
    rows: list[Row] = [{"name": name, "state": "missing"} for name in reply.missing]
    rows += [{"name": name, "state": "cut off"} for name in reply.cut_off]
    named = {row["name"] for row in (*rows, *reply.body.get("brokers", []))}
    since: dict[str, float] = {}
    for report in reply.body.get("brokers", []):
        for gone in report.get("gone", []):
            if gone["name"] not in named:
                since[gone["name"]] = min(gone["since"], since.get(gone["name"], gone["since"]))
    for name, at in sorted(since.items(), key=lambda item: natural(item[0])):
        moment = datetime.fromtimestamp(at).strftime("%H:%M")
        rows.append({"name": name, "state": f"gone since {moment}", "since": at})
    return rows


def with_measures(report: Row) -> Row:
    measured = report.get("measured", {})
    return {
        **report,
        "in_s": measured.get("publications_in_s"),
        "out_s": measured.get("publications_out_s"),
        "cpu": measured.get("cpu"),
        "memory_bytes": measured.get("memory_bytes"),
        **({"successor": next(iter(report["successors"]), None)} if "successors" in report else {}),
    }


def totals(brokers: list[Row]) -> dict[str, Any]:
    summed = ("clients", "subscriptions", "accepted", "forwarded", "delivered", "duplicates")
    ready = sum(broker.get("state") == "ready" for broker in brokers)
    return {"brokers": len(brokers), "ready": ready} | {
        key: sum(broker.get(key) or 0 for broker in brokers) for key in summed
    }


def summary(all: dict[str, Any]) -> str:
    return (
        f"{several(all['brokers'], 'broker')} ({all['ready']} ready), {several(all['clients'], 'client')}, "
        f"{several(all['subscriptions'], 'subscription')}; {count(all['accepted'])} accepted, "
        f"{count(all['delivered'])} delivered"
    )
