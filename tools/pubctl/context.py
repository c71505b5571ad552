"""`pubctl context ls|add|use|rm`: brokers by a name of one's own, with the keys for them."""

from __future__ import annotations

from pathlib import Path

import click

from tools.pubctl.commands import group
from tools.pubctl.contexts import Context, Contexts, file
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, Row, show

COLUMNS = (
    Column("current", "", lambda value: "*" if value else ""),
    Column("name", style="bold"),
    Column("broker"),
    Column("keys", "keys directory"),
)


@group("context", "Brokers by a name of your own, with the keys for them.")
def context() -> None: ...


def read() -> tuple[Path, Contexts]:
    path = file(current().environment)
    return path, Contexts.read(path)


def rows(contexts: Contexts) -> list[Row]:
    return [
        {"current": name == contexts.current, "name": name, "broker": one.broker, "keys": one.keys or None}
        for name, one in contexts.context.items()
    ]


@context.command()
def ls() -> None:
    """Every context, and which one is in use."""
    show(lambda: Result(rows(read()[1]), COLUMNS))


@context.command()
@click.argument("name")
@click.argument("url")
@click.option("--keys", type=click.Path(path_type=Path), help="Keys directory for it.  [the user's own]")
def add(name: str, url: str, keys: Path | None) -> None:
    """Remember the broker at URL as NAME, in place of one remembered before; the first is in use at once."""
    path, contexts = read()
    contexts.context[name] = Context(url, str(keys.expanduser().absolute()) if keys else "")
    contexts.current = contexts.current or name
    contexts.write(path)
    show(lambda: Result(rows(contexts), COLUMNS))


@context.command()
@click.argument("name")
def use(name: str) -> None:
    """From now on `pubctl` without -b talks to NAME."""
    path, contexts = read()
    chosen = contexts.named(name)
    contexts.current = name
    contexts.write(path)
    current().say(f"pubctl asks {chosen.broker} from now on")


@context.command()
@click.argument("name")
def rm(name: str) -> None:
    """Forget NAME."""
    path, contexts = read()
    contexts.named(name)
    del contexts.context[name]
    contexts.current = "" if contexts.current == name else contexts.current
    contexts.write(path)
