"""`pubctl reproduce NAME`: a paper's figures, measured again."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import click
import msgspec

from tools.pubctl.commands import Command
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, show

MODULES = {
    "bad": "tools.reproduce.bad",
    "bluedove": "tools.reproduce.bluedove",
    "dynatops": "tools.reproduce.dynatops",
    "grape": "tools.reproduce.grape",
    "multipath": "tools.reproduce.multipath",
}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


COLUMNS = (
    Column("figure", style="bold"),
    Column("setting"),
    Column("metric"),
    Column("paper", "", _number, right=True),
    Column("ours", "", _number, right=True),
    Column("note"),
)


@click.command(cls=Command)
@click.argument("name", type=click.Choice(sorted(MODULES)))
@click.option("--quick", is_flag=True, help="Few settings, small and short.")
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Directory of real data.")
@click.option("--pictures", type=click.Path(path_type=Path), help="Directory to draw the curves into.")
@click.option("--keep", type=click.Path(path_type=Path), help="File to go on from when run again (grape).")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one per processor]")
def reproduce(
    name: str,
    quick: bool,
    data: Path | None,
    pictures: Path | None,
    keep: Path | None,
    jobs: int | None,
) -> None:
    """Measure a paper's figures again and print them beside the paper's own numbers."""
    if keep is not None and name != "grape":
        raise click.UsageError(f"{name} takes minutes: --keep is for grape")
    invocation = current()
    module = import_module(MODULES[name])
    own = {"keep": keep} if name == "grape" else {}
    rows = module.reproduce(
        quick, data, jobs or os.cpu_count() or 1, lambda done, of: invocation.say(f"{done} of {of}"), **own
    )
    if pictures is not None:
        for path in module.draw(rows, pictures):
            invocation.say(str(path))
    show(lambda: Result([msgspec.structs.asdict(row) for row in rows], COLUMNS))
