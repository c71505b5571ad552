"""The command line of `make proof`. stdout is the table or the JSON, stderr is progress."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from tools.proof.claims import DEFAULT_FILE, Claim, ClaimsError, load, pick
from tools.proof.ledger import Ledger, Result, tree_key
from tools.proof.record import write
from tools.proof.runner import run

ROOT = Path(__file__).resolve().parents[2]
COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow", "open": "dim"}
SCHEMA = "grapevine.proof/1"


def rows(claims: list[Claim], results: dict[str, Result]) -> list[dict[str, object]]:
    """One row a claim; a claim without a result is open."""
    table = []
    for claim in claims:
        row: dict[str, object] = {"id": claim.id, "area": claim.area, "sentence": claim.sentence}
        result = results.get(claim.id)
        row |= {"verdict": result.verdict if result else "open", "estimate_s": claim.estimate_s}
        row |= {"seconds": result.seconds if result else None, "reasons": result.reasons if result else ()}
        row |= {"command": claim.command, "log": result.log if result else None}
        table.append(row)
    return table


def summary(table: list[dict[str, object]]) -> dict[str, int]:
    return {verdict: sum(row["verdict"] == verdict for row in table) for verdict in COLOURS}


def print_json(key: str, table: list[dict[str, object]]) -> None:
    document = {"schema": SCHEMA, "tree": key, **summary(table), "claims": table}
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document)) + b"\n")


def print_table(key: str, table: list[dict[str, object]]) -> None:
    console = Console()
    view = Table(title=f"Claims on {key}", title_justify="left")
    for name in ("claim", "says", "result", "seconds", "estimate"):
        view.add_column(name, justify="right" if name in ("seconds", "estimate") else "left", overflow="fold")
    for row in table:
        verdict = str(row["verdict"])
        seconds = f"{row['seconds']:.1f}" if row["seconds"] is not None else "-"
        cells = (str(row["id"]), str(row["sentence"]), f"[{COLOURS[verdict]}]{verdict}[/]")
        view.add_row(*cells, seconds, f"{row['estimate_s']:.0f}")
    console.print(view)
    console.print(", ".join(f"{number} {verdict}" for verdict, number in summary(table).items()))


@click.command(name="proof")
@click.option(
    "--only", multiple=True, metavar="ID|AREA", help="Only these claims or areas; * and ? are wild."
)
@click.option("--list", "list_only", is_flag=True, help="Show what there is and what is proved; run nothing.")
@click.option("--again", is_flag=True, help="Also run what has passed on this tree before.")
@click.option(
    "--record", type=click.Path(path_type=Path), help="Write the results got so far into this table."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--claims", "file", type=click.Path(path_type=Path, exists=True), default=DEFAULT_FILE, hidden=True
)
@click.option("--store", type=click.Path(path_type=Path), default=ROOT / ".proof", hidden=True)
def main(
    only: tuple[str, ...],
    list_only: bool,
    again: bool,
    record: Path | None,
    output: str,
    file: Path,
    store: Path,
) -> None:
    """Run every claim in full; go on where the last run on this tree stopped."""
    try:
        claims = pick(load(file), only)
    except ClaimsError as error:
        raise click.ClickException(str(error)) from None
    if not claims:
        raise click.UsageError("no claim of that name; --list shows them")
    if record:
        counts = Counter(row.verdict for row in write(record, load(file), store))
        click.echo(", ".join(f"{number} {verdict}" for verdict, number in counts.items()))
        return
    key = tree_key(ROOT)
    ledger = Ledger(store / key)
    results: dict[str, Result] = {}
    interrupted = False
    if list_only:
        stored = (ledger.get(claim.id, claim.command) for claim in claims)
        results = {result.claim: result for result in stored if result}
    else:
        try:
            for result in run(claims, ROOT, ledger, again, lambda line: click.echo(line, err=True)):
                results[result.claim] = result
        except KeyboardInterrupt:
            interrupted = True
            click.echo("interrupted; the next run goes on from here", err=True)
    table = rows(claims, results)
    (print_json if output == "json" else print_table)(key, table)
    failed = any(row["verdict"] == "failed" for row in table)
    sys.exit(130 if interrupted else int(failed and not list_only))


if __name__ == "__main__":
    main()
