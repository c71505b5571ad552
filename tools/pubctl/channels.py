"""`pubctl channel ...`: parameterised channels over Spark (docs/channels.md)."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tools.pubctl.channel import Channel as Line
from tools.pubctl.channel import Reply, locate
from tools.pubctl.commands import group
from tools.pubctl.failure import TIMEOUT, USAGE, Failure
from tools.pubctl.invocation import Duration, current
from tools.pubctl.jobs import job
from tools.pubctl.output import Column, Result, count, show

if TYPE_CHECKING:
    from grapevine import ChannelSubscription, Client
    from grapevine.wire.catalog import Channel, Dataset

COLUMNS = (
    Column("name", style="bold"),
    Column("version", right=True),
    Column("period_s", "period s", right=True),
    Column("state"),
    Column("back_end", "sets", count, right=True),
    Column("brokers", right=True),
    Column("executed", right=True),
    Column("rows", "rows", count, right=True),
    Column("took_s", "took s", lambda value: f"{value:.2f}", right=True),
    Column("late", right=True),
    Column("trouble"),
)
LOOK_S = 0.2
SILENT_S = 15.0
DRIVER: tuple[str, ...] = ("driver", "no_driver_for_s", "driver_silent_s")


@contextmanager
def back_end() -> Iterator[Line]:
    """The back end, also if the broker that was named is another: that one knows where it is."""
    invocation = current()
    with Line(invocation.broker, invocation.timeout_s) as line:
        where = _elsewhere(line)
    with Line(where or invocation.broker, invocation.timeout_s) as line:
        yield line


def _elsewhere(line: Line) -> str:
    try:
        line.ask("dataset.ls")
    except Failure as failure:
        _, said, where = str(failure).partition("the back end is at ")
        if not said:
            raise
        return where
    return ""


@group("channel", "Channels: queries with parameters, run by Spark for all their subscribers.")
def channel() -> None: ...


@channel.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="What is there and differs becomes a new version.")
@click.option("--dry-run", is_flag=True, help="Check only.")
@click.option("--unchecked", is_flag=True, help="Without asking Spark whether it takes the queries.")
@click.option("--master", help="Spark's master.  [default: local[*]]")
def create(file: Path, replace: bool, dry_run: bool, unchecked: bool, master: str | None) -> None:
    """Create the datasets and channels that FILE describes."""
    from pipeline.channels.files import FileMistakes, read_file

    with back_end() as line:
        known = _datasets(line)
        try:
            found = read_file(file, known)
        except FileMistakes as mistakes:
            raise Failure(str(mistakes), USAGE) from None
        if found.channels and not unchecked:
            _check(file, found.channels, {**known, **found.datasets}, master)
        definitions = {
            "datasets": list(found.datasets.values()),
            "channels": list(found.channels.values()),
        }
        text = msgspec.json.encode(definitions).decode()
        reply = line.ask("channel.create", definitions=text, replace=replace or None, dry_run=dry_run or None)
    changed = reply.body["changed"]
    rows = [{"name": name} for name in changed]
    show(
        lambda: Result(rows, (Column("name"),), {"changed": changed}, footer="" if changed else "nothing new")
    )


def _datasets(line: Line) -> dict[str, Dataset]:
    from grapevine.wire.catalog import Dataset

    found = {}
    for row in line.ask("dataset.ls").body["datasets"]:
        columns = tuple((name, kind) for name, kind in row["columns"])
        keep_s = row["keep_s"] or 3600.0
        key = tuple(row["key"])
        found[row["name"]] = Dataset(row["name"], row["fed_by"], columns, key, keep_s, row["file"])
    return found


def _check(
    file: Path, channels: dict[str, Channel], datasets: dict[str, Dataset], master: str | None
) -> None:
    from grapevine.spark.session import SHORT_LIVED
    from pipeline.channels.checking import complaints, place_of
    from pipeline.channels.places import Places

    with job("channel create", master, **SHORT_LIVED) as spark:
        found = list(complaints(spark, channels, datasets))
    if found:
        places = Places(file.read_text())
        lines = []
        for name, text in found:
            line, column = places.within((f"channel.{name}", "sql"), *place_of(text, channels[name].sql))
            lines.append(f"{file}:{line}:{column}: channel.{name}.sql: {text}")
        raise Failure("\n".join(lines), USAGE)


@channel.command()
def ls() -> None:
    """Channels, and whether they run."""
    with back_end() as line:

        def produce() -> Result:
            reply = line.ask("channel.ls")
            extra = {key: reply.body.get(key) for key in DRIVER}
            return Result(reply.body["channels"], COLUMNS, extra, footer=_driver(reply))

        show(produce)


def _driver(reply: Reply) -> str:
    if driver := reply.body.get("driver"):
        silent_s = reply.body.get("driver_silent_s") or 0  # it renews its lease every 10 s
        return f"the driver {driver} has said nothing for {silent_s:.0f} s" if silent_s > SILENT_S else ""
    none_s = reply.body.get("no_driver_for_s") or 0
    return f"no driver for {none_s:.0f} s: start one with `pubctl channel serve`"


@channel.command(name="show")
@click.argument("name")
def show_one(name: str) -> None:
    """One channel: its query, parameters, last execution."""
    with back_end() as line:
        reply = line.ask("channel.show", name=name)
    found = reply.body["channel"]
    definition = found["definition"]
    rows = [
        {"what": key, "value": value}
        for key, value in {
            **{key: value for key, value in found.items() if key not in ("definition", "name")},
            "sql": definition[1],
            "parameters": ", ".join(f"{p[0]} {p[1]}" for p in definition[2]),
            "new": ", ".join(definition[4]),
        }.items()
    ]
    extra = {"channel": found}
    show(lambda: Result(rows, (Column("what", style="bold"), Column("value")), extra, footer=_driver(reply)))


def _definition(line: Line, name: str) -> tuple[Channel, dict[str, Dataset]]:
    from grapevine.wire.catalog import Channel, Dataset

    body = line.ask("channel.show", name=name).body
    datasets = {each: msgspec.convert(given, Dataset) for each, given in body["datasets"].items()}
    return msgspec.convert(body["channel"]["definition"], Channel), datasets


def _cost(channel: dict[str, Any]) -> str:
    """Of all sets in one statement: it does not grow with them as one query for each would."""
    if not channel["executed"]:
        return "nothing has run yet"
    return f"{channel['rows']} rows for {channel['back_end']} parameter sets in {channel['took_s']:.2f} s"


@channel.command()
@click.argument("name")
@click.option("--master", help="Spark's master.  [default: local[*]]")
def explain(name: str, master: str | None) -> None:
    """The statement that runs for all parameter sets, what it has cost, and Spark's plan of it."""
    from grapevine.spark.session import SHORT_LIVED
    from pipeline.channels.checking import explained

    with back_end() as line:
        definition, datasets = _definition(line, name)
        cost = _cost(line.ask("channel.show", name=name).body["channel"])
    with job("channel explain", master, **SHORT_LIVED) as spark:
        found = {**explained(spark, definition, datasets), "cost": cost}
    rows = [{"what": key, "value": value} for key, value in found.items()]
    show(lambda: Result(rows, (Column("what", style="bold"), Column("value")), found))


@channel.command()
@click.argument("name")
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--master", help="Spark's master.  [default: local[*]]")
def run(name: str, parameters: tuple[str, ...], master: str | None) -> None:
    """Run a channel's query once, for one parameter set, over all rows that are kept."""
    import grapevine
    from grapevine.errors import Error
    from grapevine.spark.session import SHORT_LIVED
    from pipeline.channels.once import run_once

    invocation = current()
    with back_end() as line:
        definition, datasets = _definition(line, name)
        address = line.address
    given = values(parameters, definition)
    with (
        job("channel run", master, **SHORT_LIVED) as spark,
        grapevine.connect(address, timeout=invocation.timeout_s) as client,
    ):
        try:
            found = run_once(client, spark, definition, datasets, given)
        except Error as error:
            raise Failure(str(error), USAGE) from None
    columns = tuple(Column(key) for key in (found[0] if found else {}))
    show(lambda: Result(found, columns, {"rows": found}))


def values(words: tuple[str, ...], definition: Channel | None = None) -> dict[str, object]:
    """KEY=VALUE: numbers, true and false as JSON has them, else text; a parameter's type decides if known."""
    types = {p.name: p.type for p in definition.parameters} if definition is not None else {}
    found: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise Failure(f"{word!r} is not KEY=VALUE", USAGE)
        found[key] = text
        if types.get(key) not in ("string", "timestamp"):
            try:
                value = msgspec.json.decode(text)
            except msgspec.DecodeError:
                continue
            if isinstance(value, int | float | bool):
                found[key] = value
    return found


@channel.command()
@click.argument("name")
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--count", "most", type=click.IntRange(min=1), help="End after so many rows.")
@click.option("--for", "seconds", type=Duration(), help="End after this time.")
@click.option("--after", type=int, help="Go on after this position.")
@click.option("--name", "subscriber", help="The subscriber's name: it goes on where it was.")
def sub(
    name: str,
    parameters: tuple[str, ...],
    most: int | None,
    seconds: float | None,
    after: int | None,
    subscriber: str | None,
) -> None:
    """Subscribe to a channel and print its results as they come."""
    import time

    import grapevine

    invocation = current()
    deadline = None if seconds is None else time.monotonic() + seconds
    got = 0
    with grapevine.connect(
        locate(invocation.broker), name=subscriber, timeout=invocation.timeout_s
    ) as client:
        try:
            results = _subscribed(client, name, parameters, after, invocation.timeout_s)
        except grapevine.ChannelError as error:
            raise Failure(str(error), USAGE) from None
        invocation.say(f"subscribed as {client.name} at {client.broker}: {results.parameters}")
        try:
            while most is None or got < most:
                left = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
                if left <= 0:
                    break
                for result in results.next_batch(most - got if most else 1000, timeout=left):
                    row = {"execution": result.execution, "position": result.position, "row": result.row}
                    row |= {"removed": True} if result.removed else {}
                    click.echo(msgspec.json.encode(row).decode())
                    got += 1
                sys.stdout.flush()
        except KeyboardInterrupt:
            return
        if subscriber is None:
            results.unsubscribe()
    if most is not None and got < most:
        raise Failure(f"{got} of {most} rows came in {seconds:g} s", TIMEOUT, told=True, arrived=got)


def _subscribed(
    client: Client, name: str, words: tuple[str, ...], after: int | None, timeout_s: float
) -> ChannelSubscription:
    """A number may be meant as text; which it is the channel knows."""
    from grapevine.errors import ParameterError

    given = values(words)
    text = {key: value for key, _, value in (word.partition("=") for word in words)}
    while True:
        try:
            return client.subscribe_channel(name, given, after, timeout_s)
        except ParameterError as error:
            if given.get(error.name, "") == text.get(error.name, "") or not error.expected.startswith("text"):
                raise
            given[error.name] = text[error.name]


@channel.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if it has subscribers: they are told.")
def drop(name: str, force: bool) -> None:
    """Drop a channel and its results."""
    with back_end() as line:
        line.ask("channel.drop", name=name, force=force or None)
    show(lambda: Result([{"dropped": name}], (Column("dropped"),), {"dropped": name}))


@channel.command()
@click.argument("name")
@click.option("--execution", type=int, help="Of this one.  [default: the last]")
def results(name: str, execution: int | None) -> None:
    """Rows of an execution that is still kept."""
    with back_end() as line:
        body = line.ask("channel.results", name=name, execution=execution).body
    extra = {"execution": body["execution"], "kept": body["kept"], "rows": body["rows"]}
    show(lambda: Result(body["rows"], (Column("parameters"), Column("row")), extra))


@channel.command()
@click.option("--master", help="Spark's master.  [default: local[*]]")
@click.option("--parallel", type=click.IntRange(min=1), default=2, help="Executions at a time.")
def serve(master: str | None, parallel: int) -> None:
    """Drive the channels of a back end, until interrupted."""
    import grapevine
    from pipeline.channels.notify import notify
    from pipeline.channels.serve import Service

    invocation = current()
    stopped: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    with back_end() as line:
        address = line.address
    fair = {"spark.scheduler.mode": "FAIR"}
    with (
        job("channels", master, **fair) as spark,
        grapevine.connect(address, timeout=max(invocation.timeout_s, 60)) as client,
    ):
        service = Service(
            client,
            spark,
            parallel,
            invocation.say,
            lambda: bool(stopped),
            lambda: notify("READY=1"),
        )
        try:
            service.run()
        except KeyboardInterrupt:
            pass
        notify("STOPPING=1")
    invocation.say("stopped")


@channel.command()
@click.option("--subscribers", default=300, show_default=True, type=click.IntRange(5, 2000))
@click.option(
    "--for", "seconds", type=Duration(), default=40.0, show_default="40s", help="How long to publish."
)
@click.option("--rate", default=20.0, show_default=True, help="Reports a second.")
@click.option("--seed", default=1, show_default=True, help="Of who is where and what happens.")
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), default="channels.html", show_default=True
)
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="With the ONE map.  [$GRAPEVINE_DATA]"
)
@click.option("--master", help="Spark's master.  [default: local[*]]")
def demo(
    subscribers: int,
    seconds: float,
    rate: float,
    seed: int,
    page: Path,
    data: Path | None,
    master: str | None,
) -> None:
    """Emergencies in Helsinki: six brokers, Spark, people who walk, and who is told of what."""
    from tools.pubctl.demo.channels import perform

    perform(subscribers, seconds, rate, seed, page, data, master)
