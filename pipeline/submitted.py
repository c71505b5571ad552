"""The jobs by spark-submit: `spark-submit [--master URL] .../pipeline/collect.py --logs DIR --to DIR`.

The result is one JSON document on stdout, talk is on stderr, exit codes are those of `pubctl`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from pipeline import options
from pipeline.session import opened
from pipeline.trouble import PARTIAL, USAGE, Trouble


def run(command: click.Command) -> int:
    try:
        return int(command.main(standalone_mode=False) or 0)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        error.show()
        return USAGE
    except Trouble as trouble:
        say(str(trouble))
        return trouble.code


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show(result: Any) -> None:
    print(msgspec.json.encode(result).decode(), flush=True)


@click.command("collect")
@options.collect
def collect_command(logs: tuple[Path, ...], to: Path, master: str | None) -> int:
    """Delivery logs to Parquet."""
    from pipeline.collect import collect
    from pipeline.places import under

    with opened("grapevine collect", master) as spark:
        done = collect(spark, under(logs), to)
    show(done)
    for text in (*done.missing.values(), *done.damaged):
        say(text)
    return PARTIAL if done.missing or done.damaged_lines else 0


@click.command("report")
@options.report
def report_command(master: str | None, **said: Any) -> int:
    """A collection as figures and one page."""
    from pipeline.report import Wanted, report

    with opened("grapevine report", master) as spark:
        show(report(spark, Wanted(**said)).summary)
    return 0


@click.command("feed")
@options.feed
@click.option("-b", "--broker", required=True, help="Address of a broker, or several separated by commas.")
def feed_command(master: str | None, **said: Any) -> int:
    """Rows to publications."""
    from pipeline import reach
    from pipeline.ingest import Wanted, feed

    wanted = Wanted(**said)
    reach.brokers(wanted.broker, wanted.keys)
    with opened("grapevine feed", master) as spark, reach.workers_awaited(spark, say):
        done = feed(spark, wanted)
    show(done)
    for text in done.first_rejected:
        say(text)
    return PARTIAL if done.rejected else 0
