"""`pubctl collect TOPOLOGY --to DIR`: the delivery logs of all brokers as Parquet, what is new each time.

Brokers of this machine are read where `pubctl local` put them; those of other hosts where `pubctl deploy
fetch` brought them. A broker whose log is not there is named, the others are collected, and the exit code is
that of a partial answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline import options
from tools.pubctl.commands import Command
from tools.pubctl.failure import TIMEOUT, USAGE, Failure
from tools.pubctl.invocation import current
from tools.pubctl.jobs import job, troubles
from tools.pubctl.local import place
from tools.pubctl.output import Column, Result, count, emit, several, size

if TYPE_CHECKING:
    from pipeline.collect import Collected, Log
    from tools.pubctl.topology import BrokerPlan, Topology

COLUMNS = (
    Column("broker", style="bold"),
    Column("state"),
    Column("segments", "", count, right=True),
    Column("bytes", "new", size, right=True),
)


@click.command(cls=Command)
@click.argument("topology", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where `pubctl local` was told to.")
@click.option(
    "--fetched",
    type=click.Path(path_type=Path),
    help="What `pubctl deploy fetch --to` was told, for other hosts.",
)
@options.collect
def collect(
    topology: Path | None,
    directory: Path | None,
    fetched: Path | None,
    logs: tuple[Path, ...],
    to: Path,
    master: str | None,
) -> None:
    """Collect the delivery logs of the brokers of TOPOLOGY, or of the directories given, to Parquet."""
    from pipeline.collect import collect

    with troubles():
        wanted = logs_of(topology, directory, fetched) if topology else named(logs)
    with job("collect", master) as spark:
        done = collect(spark, wanted, to)
    emit(current(), result(done))
    for text in done.damaged:
        current().say(text)
    if done.missing or done.damaged_lines:
        raise Failure(trouble(done), TIMEOUT, told=True)


def named(logs: tuple[Path, ...]) -> list[Log]:
    from pipeline.places import under

    return under(logs)


def logs_of(topology: Path, directory: Path | None, fetched: Path | None) -> list[Log]:
    from pipeline.collect import Log
    from tools.pubctl.topology import read

    plan = read(topology)
    silent = [broker.name for broker in plan.brokers if _mode(plan, broker) == "off"]
    if silent:
        raise Failure(
            f'{topology}: no delivery log at {", ".join(silent)}: write [defaults.delivery_log] mode = "all"',
            USAGE,
        )
    base = place(topology, directory)
    return [Log(broker.name, _places(plan, broker, base, fetched)) for broker in plan.brokers]


def _mode(plan: Topology, broker: BrokerPlan) -> str:
    return str(plan.settings(broker).get("delivery_log", {}).get("mode", "off"))


def _places(plan: Topology, broker: BrokerPlan, base: Path, fetched: Path | None) -> list[Path]:
    if fetched is not None:
        return [fetched / broker.host / broker.name / "state" / "deliveries"]
    settings = plan.settings(broker)
    if told := settings.get("delivery_log", {}).get("dir"):
        return [Path(told).expanduser()]
    return [base / broker.name / "state" / "deliveries"]


def result(done: Collected) -> Result:
    import msgspec

    extra: dict[str, Any] = msgspec.to_builtins(done)
    rows = extra.pop("rows")
    return Result(rows, COLUMNS, extra, footer=footer(done))


def footer(done: Collected) -> str:
    told = f"{count(done.events)} new events, {count(done.total)} in {done.directory}, {done.seconds:.1f} s"
    if done.torn_lines:
        told += f"; {several(done.torn_lines, 'line')} torn at the end of a killed broker's log"
    return told


def trouble(done: Collected) -> str:
    texts = list(done.missing.values())
    if done.damaged_lines:
        texts.append(f"{several(done.damaged_lines, 'damaged line')} left out, first: {done.damaged[0]}")
    return "; ".join(texts)
