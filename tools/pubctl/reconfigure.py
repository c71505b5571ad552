"""`pubctl reconfigure show|plan|apply|finish|abort`."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import click

from tools.pubctl.channel import Channel, opened
from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.failure import Failure
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, several, show


def _word(value: Any) -> str:
    return "" if value is None else str(value)


BROKERS = (
    Column("name", "broker", style="bold"),
    Column("position"),
    Column("plane", right=True),
    Column("step", "", _word),
    Column("finished", right=True),
    Column("aborted", right=True),
)
MOVES = (Column("broker", style="bold"), Column("place_of", "takes the place of"), Column("to", "position"))
LOOK_S = 0.2
NOTHING_KNOWN = (
    "nothing to plan by: of the topics that somebody subscribes to, none has been published on lately. "
    "Let subscribers and publishers run for a while, then plan again: every broker is asked anew"
)


@group("reconfigure", "Positions of brokers on a ring, by what their subscribers want.")
def reconfigure() -> None: ...


@reconfigure.command(name="show")
def show_() -> None:
    """Every broker's position and plane, and what the manager is at."""
    with opened() as channel:

        def produce() -> Result:
            reply = channel.ask("reconfigure.show")
            rows, manager = reply.body["brokers"], reply.body["manager"]
            return Result(rows, BROKERS, {"manager": manager}, footer=_footer(manager), missing=reply.missing)

        show(produce)


def _footer(manager: dict[str, Any] | None) -> str:
    if manager is None:
        return "no manager answers"
    running = manager["running"] or manager["last"]
    if running is None:
        return f"manager {manager['name']}: {manager['unfit'] or 'ready'}"
    state = "running" if manager["running"] else "last"
    text = f"manager {manager['name']}, {state}: {running['step']} to plane {running['plane']}"
    text += f", {running['moved']} brokers moved, {running['messages']} messages, {running['for_s']:g} s"
    if running["waiting_for"]:
        text += f"; waits for {', '.join(running['waiting_for'][:5])}"
    return text + (f"; {running['reason']}" if running["reason"] else "")


@reconfigure.command()
def plan() -> None:
    """Who would take whose place, and what that saves. Nobody moves."""
    with opened() as channel:
        _show_plan(_planned(channel))


@reconfigure.command()
@click.option("--anyway", is_flag=True, help="Also if it costs more than it saves.")
@changes
def apply(anyway: bool, dry_run: bool, yes: bool) -> None:
    """Plan, and have the brokers change places while publications go on; waits until they have."""
    with opened() as channel:
        found = _planned(channel)
        if not found["topics"]:
            raise Failure(NOTHING_KNOWN)
        if not found["moves"]:
            current().say("every broker is where it should be: nobody moves")
            _show_plan(found)
            return
        if not found["pays"] and not anyway:
            raise Failure(
                f"it saves {found['cost'] - found['cost_after']:g} messages and costs"
                f" {found['reconfiguration_cost']:g}: --anyway does it all the same"
            )
        if agreed(f"have {len(found['moves'])} of {found['brokers']} brokers change places", dry_run, yes):
            channel.ask("reconfigure.apply")
            last = _ended(channel)
            if not last["decided"]:
                raise Failure(f"aborted: {last['reason']}")
            current().say(f"the ring is plane {last['plane']}, after {last['for_s']:g} s")
        _show_plan(found)


def _show_plan(found: dict[str, Any]) -> None:
    footer = (
        f"{several(found['topics'], 'topic')}: cost {found['cost']:g} -> {found['cost_after']:g} a period,"
        f" a reconfiguration costs {found['reconfiguration_cost']:g}: "
    )
    footer += "it pays" if found["pays"] else "it does not pay"
    if not found["topics"]:
        footer = NOTHING_KNOWN
    elif not found["moves"]:
        footer = f"{several(found['topics'], 'topic')}: every broker is where it should be"
    extra = {key: value for key, value in found.items() if key != "moves"}
    show(lambda: Result(found["moves"], MOVES, extra, footer=footer))


def _planned(channel: Channel) -> dict[str, Any]:
    channel.ask("reconfigure.plan", fresh=True)
    deadline = monotonic() + channel.timeout_s + 30
    while monotonic() < deadline:
        manager = channel.ask("reconfigure.plan").body["manager"]
        if manager.get("proposal") is not None and not manager["computing"]:
            found: dict[str, Any] = manager["proposal"]
            return found
        if manager["unfit"] and not manager["computing"]:
            raise Failure(f"not now: {manager['unfit']}")
        sleep(LOOK_S)
    raise Failure("the manager has found nothing in time")


def _ended(channel: Channel) -> dict[str, Any]:
    deadline = monotonic() + channel.timeout_s + 120
    while monotonic() < deadline:
        manager = channel.ask("reconfigure.show").body["manager"]
        if manager is not None and manager["running"] is None and manager["last"] is not None:
            last: dict[str, Any] = manager["last"]
            return last
        sleep(LOOK_S)
    raise Failure("still running: pubctl reconfigure show")


@reconfigure.command()
@changes
def finish(dry_run: bool, yes: bool) -> None:
    """Brokers in doubt whose manager is gone go over to the next plane."""
    _decide("finish", dry_run, yes)


@reconfigure.command()
@changes
def abort(dry_run: bool, yes: bool) -> None:
    """End a reconfiguration that is not decided; brokers in doubt whose manager is gone stay as they are."""
    _decide("abort", dry_run, yes)


def _decide(verb: str, dry_run: bool, yes: bool) -> None:
    with opened() as channel:
        rows = channel.ask("reconfigure.show").body["brokers"]
        doubtful = [row["name"] for row in rows if row.get("step")]
        if not doubtful:
            raise Failure("no reconfiguration is running")
        through = {row["plane"] for row in rows}
        entered = any(row.get("step") == "finish" for row in rows) or len(through) > 1
        if verb == "abort" and entered:
            raise Failure("some brokers have gone over already: pubctl reconfigure finish --yes")
        if agreed(f"{verb} the reconfiguration that {len(doubtful)} brokers are in", dry_run, yes):
            rows = channel.ask(f"reconfigure.{verb}").body["brokers"]
        show(lambda: Result(rows, BROKERS))
