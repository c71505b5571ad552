"""`pubctl config check|diff|schema`: configuration files against the code and against a running broker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from tools.pubctl.channel import opened
from tools.pubctl.commands import group
from tools.pubctl.failure import USAGE, Failure
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, Row, emit, several, show

PROBLEMS = (Column("place"), Column("key", style="bold"), Column("text", "problem"))
DIFFERENCES = (
    Column("key", style="bold"),
    Column("file"),
    Column("running"),
    Column("takes", "takes effect by"),
)
file_argument = click.argument("file", type=click.Path(path_type=Path))


@group("config", "Configurations of brokers.")
def config() -> None: ...


@config.command()
@file_argument
def check(file: Path) -> None:
    """Every mistake in a configuration FILE, with its place."""
    from daemon.settings import ConfigError, load

    try:
        load(file, os.environ)
    except ConfigError as error:
        rows = [{"place": p.place, "key": p.key, "text": p.text} for p in error.problems]
        emit(current(), Result(rows, PROBLEMS))
        raise Failure(f"{file}: {several(len(rows), 'mistake')}", USAGE, told=True) from None
    show(lambda: Result([], PROBLEMS, {"file": str(file), "ok": True}, text=lambda screen: None))
    current().say(f"{file}: ok")


@config.command()
@click.argument("kind", type=click.Choice(("configuration", "topology")), default="configuration")
def schema(kind: str) -> None:
    """The JSON Schema of a file: write `#:schema PATH` into its first line, and editors check it."""
    from tools.pubctl.schemas import written

    click.echo(written(kind), nl=False)


@config.command()
@file_argument
def diff(file: Path) -> None:
    """What would change if the broker asked read FILE: key by key, and whether a reload is enough."""
    from daemon.settings import ConfigError, load
    from daemon.settings.keys import table

    try:
        settings = load(file, os.environ)
    except ConfigError as error:
        raise Failure(str(error), USAGE) from None
    with opened() as channel:
        running = {key["key"]: key for key in channel.ask("config").body["settings"]}
    rows: list[Row] = []
    for section in table().values():
        for key in section.values():
            wanted = _plain(getattr(getattr(settings, key.section), key.name))
            now = running.get(key.path, {}).get("value")
            if wanted != now:
                rows.append(
                    {
                        "key": key.path,
                        "file": wanted,
                        "running": now,
                        "takes": "reload" if key.reload else "restart",
                    }
                )
    show(lambda: Result(rows, DIFFERENCES))
    if not rows:
        current().say("no difference")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
