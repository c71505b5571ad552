"""`pubctl top`: the live overlay in a terminal; `--once` and a pipe give plain text."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import click

from tools.pubctl.commands import Command
from tools.pubctl.failure import FAILED, Failure
from tools.pubctl.invocation import Duration
from tools.pubctl.output import Column, Result, show
from tools.pubctl.web import source_of


@click.command(cls=Command)
@click.option("--every", type=Duration(), default=1.0, show_default=True, help="Between two looks.")
@click.option("--once", is_flag=True, help="Two looks, then the brokers as plain text.")
@click.option(
    "--key", default="user", show_default=True, help="Of the keys directory; an observer's will do."
)
@click.option("--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--sim", metavar="SCENARIO", help="A simulated overlay.")
@click.option("--brokers", type=int, help="So many, with --sim.")
@click.option("--seed", type=int, default=1, show_default=True)
def top(
    every: float, once: bool, key: str, replay: Path | None, sim: str | None, brokers: int | None, seed: int
) -> None:
    """Brokers, links, clients, publishers and events, once a second; ? for the keys."""
    from tools.web.engine import Engine

    plain = once or not (sys.stdout.isatty() and sys.stdin.isatty())
    if not plain and find_spec("textual") is None:
        raise Failure("pubctl top needs grapevine-broker[top]: pip install 'grapevine-broker[top]'", FAILED)
    source = source_of(replay, 1.0, sim, brokers, seed, every, key, False)
    engine = Engine(source, every)
    try:
        if plain:
            show(lambda: _once(engine))
            return
        from tools.web.terminal import Top

        Top(engine).run()
    finally:
        source.close()


def _once(engine: object) -> Result:
    from tools.web import views
    from tools.web.engine import Engine

    assert isinstance(engine, Engine)
    engine.look(time.time())
    if engine.total is None:
        raise Failure(engine.state.reason or "no answer", FAILED)
    if engine.source.kind == "broker":
        time.sleep(engine.every_s)
    engine.look(time.time())
    found = views.brokers(engine)
    titles = [column.title for column in found.columns]
    rows = [dict(zip(titles, row.values)) for row in found.rows]
    missing = [b.name for b in engine.overlay().brokers if b.state in ("no answer", "cut off")]
    texts = {row.key: row.cells for row in found.rows}
    columns = tuple(
        Column(column.title, show=lambda value: "" if value == "" else str(value), right=not column.text)
        for column in found.columns
    )
    shown = [dict(zip(titles, texts[row.key])) for row in found.rows]
    result = Result(rows, columns, footer=views.headline(engine), missing=missing)
    from tools.pubctl.invocation import current

    if current().output == "table":
        result.rows = shown
    return result
