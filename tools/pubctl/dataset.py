"""`pubctl dataset ...`: what channels ask of."""

from __future__ import annotations

from pathlib import Path

import click

from tools.pubctl.channels import back_end, create
from tools.pubctl.commands import group
from tools.pubctl.output import Column, Result, count, listed, show

COLUMNS = (
    Column("name", style="bold"),
    Column("fed_by", "fed by"),
    Column("file"),
    Column("key", "", listed),
    Column("rows", "", lambda value: "" if value is None else count(value), right=True),
    Column("keep_s", "keep s", lambda value: "" if value is None else f"{value:g}", right=True),
)


@group("dataset", "Datasets that channels ask of, fed by publications or read from a file.")
def dataset() -> None: ...


@dataset.command(name="create")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="What is there and differs is replaced.")
@click.option("--dry-run", is_flag=True, help="Check only.")
@click.pass_context
def create_them(context: click.Context, file: Path, replace: bool, dry_run: bool) -> None:
    """Create what FILE describes, as `channel create` does, without asking Spark."""
    context.invoke(create, file=file, replace=replace, dry_run=dry_run, unchecked=True, master=None)


@dataset.command()
def ls() -> None:
    """Datasets."""
    with back_end() as line:
        show(lambda: Result(line.ask("dataset.ls").body["datasets"], COLUMNS))


@dataset.command(name="show")
@click.argument("name")
@click.option("--rows", type=click.IntRange(min=0), default=10, help="Its last rows.")
def show_one(name: str, rows: int) -> None:
    """A dataset's columns and last rows."""
    with back_end() as line:
        body = line.ask("dataset.show", name=name, rows=rows).body
    columns = tuple(Column(key) for key in ("position", "publisher", "sequence", "accepted_at", "attributes"))
    show(lambda: Result(body["rows"], columns, body))


@dataset.command()
@click.argument("name")
def drop(name: str) -> None:
    """Drop a dataset and its rows."""
    with back_end() as line:
        line.ask("dataset.drop", name=name)
    show(lambda: Result([{"dropped": name}], (Column("dropped"),), {"dropped": name}))
