"""`pubctl onehop status|segments`."""

from __future__ import annotations

from typing import Any

from tools.pubctl.channel import opened
from tools.pubctl.commands import group
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, show

STATUS = (
    Column("name", "member", style="bold"),
    Column("roles"),
    Column("state"),
    Column("subscriptions", right=True),
    Column("copies_each", "copies of each", right=True),
    Column("asked", right=True),
    Column("asked_again", "again", right=True),
    Column("waiting", right=True),
    Column("response_ms", "answer ms", right=True),
    Column("answered", right=True),
    Column("busy", right=True),
)
SEGMENTS = (
    Column("dimension", style="bold"),
    Column("from"),
    Column("to"),
    Column("matcher"),
    Column("copies", right=True),
    Column("covered", "of published", right=True),
    Column("arrivals_s", "asked about/s", right=True),
)


@group("onehop", "The one-hop cluster: dispatchers, matchers and their segments.")
def onehop() -> None: ...


@onehop.command()
def status() -> None:
    """Every member: its roles, what it holds, what it was asked."""
    with opened() as channel:
        reply = channel.ask("onehop.status")
        rows = [{**row, "roles": ", ".join(row["roles"])} for row in reply.body["brokers"]]
        for name in reply.body["uncovered"]:
            current().say(f"uncovered: some value of {name} has no matcher")
        if reply.body["saturated"]:
            current().say("saturated: add a matcher")
        for row in rows:
            if row.get("too_broad"):
                current().say(
                    f"{row['name']}: {row['broad_share']:.0%} of its subscriptions have no bound in some"
                    " dimension and lie on all matchers there: choose other dimensions, or"
                    " onehop.placement = 'replicate'"
                )
        show(lambda: Result(rows, STATUS, missing=reply.missing))


@onehop.command()
def segments() -> None:
    """Who owns which part of every dimension, with what it holds and how often it is asked."""
    with opened() as channel:
        reply = channel.ask("onehop.segments")
        order = {name: place for place, name in enumerate(reply.body["dimensions"])}
        rows: list[dict[str, Any]] = []
        for member in reply.body["brokers"]:
            for name, spans in member.get("segments", {}).items():
                rows += [_row(member, name, low, high) for low, high in spans]
        rows.sort(key=lambda row: (order[row["dimension"]], _place(row["low"])))
        for row in rows:
            del row["low"]
        show(lambda: Result(rows, SEGMENTS, missing=reply.missing))


def _row(member: dict[str, Any], dimension: str, low: Any, high: Any) -> dict[str, Any]:
    return {
        "dimension": dimension,
        "from": "" if low is None else repr(low),
        "to": "" if high is None else repr(high),
        "low": low,
        "matcher": member["name"],
        "copies": member["copies"][dimension],
        "covered": f"{member['covered'][dimension]:.0%}",
        "arrivals_s": member["arrivals_s"][dimension],
    }


def _place(value: Any) -> tuple[int, Any]:
    """The order of values: absent, false, true, numbers, strings."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    return (3, value) if isinstance(value, str) else (2, value)
