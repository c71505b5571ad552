"""`pubctl report COLLECTION`: what the overlay did, as one page, tables and a summary."""

from __future__ import annotations

from typing import Any

import click

from pipeline import options
from tools.pubctl.commands import Command
from tools.pubctl.invocation import current
from tools.pubctl.jobs import job, troubles
from tools.pubctl.output import Column, Result, Row, count, emit, percent
from tools.pubctl.progress import bar


def _milliseconds(us: float) -> str:
    return f"{us / 1000:.3g} ms"


COLUMNS = (
    Column("broker", style="bold"),
    Column("accepted", "", count, right=True),
    Column("forwarded", "", count, right=True),
    Column("pure_forwards", "", count, right=True),
    Column("delivered", "", count, right=True),
    Column("delay_p50_us", "p50", _milliseconds, right=True),
    Column("delay_p99_us", "p99", _milliseconds, right=True),
    Column("hops", "", lambda value: f"{value:.2f}", right=True),
    Column("yield", "", percent, right=True),
    Column("lost", "", count, right=True),
    Column("duplicates", "", count, right=True),
)


@click.command(cls=Command)
@options.report
def report(master: str | None, **said: Any) -> None:
    """Figures, tables and a page of the events in COLLECTION, made by `pubctl collect`."""
    from pipeline.analysis import STEPS
    from pipeline.collection import Collection
    from pipeline.report import Wanted, report

    with troubles():
        Collection(said["collection"]).check()  # at once, not after Spark has started
    with job("report", master) as spark, bar(current(), "reporting", STEPS) as progress:
        done = report(spark, Wanted(**said), progress)
    emit(current(), Result(done.figures.brokers, COLUMNS, done.summary, footer=story(done.summary)))


def story(summary: Row) -> str:
    spread = ""
    if summary["delay_p50_us"] is not None:
        spread = (
            f"delay p50 {_milliseconds(summary['delay_p50_us'])}, "
            f"p99 {_milliseconds(summary['delay_p99_us'])}, {summary['hops']:.2f} hops; "
        )
    useful = "" if summary["yield"] is None else f"yield {percent(summary['yield'])}; "
    return (
        f"{count(summary['accepted'])} publications became {count(summary['delivered'])} deliveries "
        f"in {summary['span_s']:.0f} s; {spread}{useful}"
        f"{count(summary['lost'])} copies lost, {count(summary['duplicates'])} duplicates\n"
        f"page: {summary['page']}"
    )
