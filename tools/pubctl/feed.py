"""`pubctl feed SOURCE`: rows of CSV, JSON lines or Parquet as publications, through Spark."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from pipeline import options, reach
from tools.pubctl.channel import locate
from tools.pubctl.commands import Command
from tools.pubctl.failure import TIMEOUT, Failure
from tools.pubctl.invocation import Invocation, current
from tools.pubctl.jobs import job, troubles
from tools.pubctl.output import Column, Result, count, emit, listed

COLUMNS = (
    Column("source", style="bold"),
    Column("files", "", count, right=True),
    Column("published", "", count, right=True),
    Column("rejected", "", count, right=True),
    Column("seconds", "", lambda value: f"{value:.1f}", right=True),
    Column("rows_s", "rows/s", count, right=True),
    Column("attributes", "", listed),
)
SAY_S = 5.0


@click.command(cls=Command)
@options.feed
def feed(master: str | None, **said: Any) -> None:
    """Publish the rows of SOURCE: a file, a directory or a glob of CSV, JSON lines or Parquet."""
    from pipeline.ingest import Wanted, feed, look

    invocation = current()
    addresses = ",".join(locate(part.strip()) for part in invocation.broker.split(","))
    wanted = Wanted(broker=addresses, **said)
    with troubles():
        looked = look(wanted)  # a mistake is told at once, not after Spark has started
        reach.brokers(wanted.broker, wanted.keys)
    with (
        job("feed", master) as spark,
        reach.workers_awaited(spark, invocation.say),
        told(invocation) as progress,
    ):
        done = feed(spark, wanted, progress, looked)
    row = msgspec.to_builtins(done) | {"rows_s": round(done.rows_s, 1)}
    emit(invocation, Result([row], COLUMNS, row))
    for text in done.first_rejected:
        invocation.say(text)
    if done.rejected:
        raise Failure(
            f"{done.rejected} rows were not published: they are in {said['rejects']}", TIMEOUT, told=True
        )


@contextmanager
def told(invocation: Invocation) -> Iterator[Callable[[int, int | None], None]]:
    """How many rows went out: a line that counts on a terminal, else a line now and then."""
    if invocation.quiet:
        yield lambda done, total: None
        return
    shown = sys.stderr.isatty()
    last = [0.0]

    def progress(done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - last[0] >= (0.2 if shown else SAY_S):
            last[0] = now
            click.echo(
                f"\r\x1b[Kpublished {done:,}" if shown else f"published {done:,}", err=True, nl=not shown
            )

    yield progress
    if shown:
        click.echo("\r\x1b[K", err=True, nl=False)
