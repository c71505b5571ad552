"""The options of the jobs, the same for `pubctl` and for spark-submit. Nothing here loads Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Function = Callable[..., Any]
PLACE = click.Path(path_type=Path)
master = click.option(
    "--master", metavar="URL", help="Spark's master, as spark://host:7077.  [SPARK_MASTER, else local[*]]"
)


def together(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    def apply(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


collect = together(
    click.option(
        "--logs",
        type=PLACE,
        multiple=True,
        help="Directory with delivery logs, at any depth; again for more.",
    ),
    click.option("--to", type=PLACE, required=True, help="Directory of the collection."),
    master,
)

report = together(
    click.argument("collection", type=PLACE),
    click.option(
        "--to",
        type=click.Path(path_type=Path, dir_okay=False),
        default="report.html",
        show_default=True,
        help="The page.",
    ),
    click.option("--tables", type=PLACE, help="Directory for every table in full, as CSV."),
    click.option("--step", "step_s", type=float, help="Seconds of a step in time.  [as the run is long]"),
    click.option("--since", help="Leave out what was before, as 2026-05-01T12:00 (UTC)."),
    click.option("--until", help="Leave out what was after."),
    click.option("--title", default="What the overlay did", show_default=True),
    master,
)

feed = together(
    click.argument("source"),
    click.option("--format", type=click.Choice(["csv", "json", "parquet"]), help="[as the name says]"),
    click.option("--separator", help="Of the columns of CSV.  [,]"),
    click.option(
        "--attributes",
        default="",
        metavar="LIST",
        help="As \"symbol, price=close, volume:int, class='STOCK'\".  [every column]",
    ),
    click.option("--payload", default="", help="A column, json, or json:a,b.  [none]"),
    click.option(
        "--mapping", type=click.Path(path_type=Path, dir_okay=False), help="A TOML file that says both."
    ),
    click.option("--rate", type=float, help="Publications a second.  [as fast as it goes]"),
    click.option("--speed", type=float, help="Times as fast as the time column says."),
    click.option("--time-column", help="Seconds, or a date and time; for --speed."),
    click.option("--checkpoint", type=PLACE, help="Directory that remembers what was fed."),
    click.option("--follow", is_flag=True, help="Go on with new files as they come."),
    click.option("--name", default="", help="Publisher that subscribers see.  [spark-QUERY]"),
    click.option("--advertise", default="", metavar="FILTER", help="What all rows match.  [everything]"),
    click.option(
        "--nulls", type=click.Choice(["fail", "omit"]), default="fail", show_default=True,
        help="A null attribute is an error, or is left out.",
    ),
    click.option("--rejects", type=PLACE, help="Directory for rows that cannot be published; others are."),
    master,
)  # fmt: skip
