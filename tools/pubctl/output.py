"""What a command found, as a table for people or as JSON, JSON lines and CSV for programs.

JSON is the contract: `{"schema": "pubctl.link.ls/1", "rows": [...], ...}`. Columns choose and order what
people see; rows carry everything.
"""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tools.pubctl.failure import TIMEOUT, USAGE, Failure
from tools.pubctl.invocation import Invocation, current

if TYPE_CHECKING:
    from rich.console import Console

Row = dict[str, Any]
CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True)
class Column:
    key: str
    title: str = ""
    show: Callable[[Any], str] = str
    right: bool = False
    style: str = ""

    @property
    def heading(self) -> str:
        return self.title or self.key.replace("_", " ")


@dataclass
class Result:
    rows: list[Row]
    columns: tuple[Column, ...]
    extra: Row = field(default_factory=dict)  # beside the rows in JSON
    title: str = ""
    footer: str = ""  # a line of talk below the table
    missing: list[str] = field(default_factory=list)  # brokers that did not answer
    forms: dict[str, Callable[[], str]] = field(default_factory=dict)  # further formats: dot, svg
    text: Callable[[Console], None] | None = None  # instead of a table

    def document(self, schema: str) -> Row:
        missing = {"missing": self.missing} if self.missing else {}
        return {"schema": schema, **self.extra, "rows": self.rows, **missing}


def show(produce: Callable[[], Result]) -> None:
    """Print what `produce` finds, once or, with --watch, until interrupted."""
    invocation = current()
    if invocation.watch_s is None:
        _finish(invocation, emit(invocation, produce()))
        return
    while True:
        result = produce()
        if invocation.output == "table" and sys.stdout.isatty():
            sys.stdout.write(CLEAR)
        emit(invocation, result, again=True)
        sys.stdout.flush()
        time.sleep(invocation.watch_s)


def _finish(invocation: Invocation, result: Result) -> None:
    if result.missing:
        raise Failure(f"no answer from {', '.join(result.missing)}", TIMEOUT, told=True)


def emit(invocation: Invocation, result: Result, again: bool = False) -> Result:
    form = invocation.output
    if form == "json":
        click.echo(_json(result.document(invocation.schema), indent=not again))
    elif form == "jsonl":
        for row in result.rows:
            click.echo(msgspec.json.encode(row))
    elif form == "csv":
        click.echo(as_csv(result), nl=False)
    elif form == "table":
        print_table(invocation, result)
    elif form in result.forms:
        click.echo(result.forms[form](), nl=False)
    else:
        raise Failure(f"this command has no {form}: choose table, json, jsonl or csv", USAGE)
    return result


def _json(document: Row, indent: bool) -> bytes:
    encoded = msgspec.json.encode(document)
    return msgspec.json.format(encoded, indent=2) if indent else encoded


def as_csv(result: Result) -> str:
    """One line per row: the columns, then every other plain value."""
    keys: dict[str, None] = dict.fromkeys(column.key for column in result.columns)
    for row in result.rows:
        keys.update(dict.fromkeys(key for key, value in row.items() if not isinstance(value, list | dict)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_cell(row.get(key)) for key in keys] for row in result.rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


# --- for people -----------------------------------------------------------------------------------


def console(invocation: Invocation, err: bool = False) -> Console:
    from rich.console import Console

    width = None if (sys.stderr if err else sys.stdout).isatty() else 160
    return Console(stderr=err, no_color=invocation.color is False, highlight=False, width=width)


def print_table(invocation: Invocation, result: Result) -> None:
    screen = console(invocation)
    if result.text is not None:
        result.text(screen)
    else:
        screen.print(table(result.rows, result.columns, result.title, head=not invocation.quiet))
    if result.footer:
        invocation.say(result.footer)


def table(rows: Iterable[Row], columns: Iterable[Column], title: str = "", head: bool = True) -> Any:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    columns = list(columns)
    made = Table(
        box=box.SIMPLE_HEAD if head else None,
        title=title or None if head else None,
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        show_header=head,
    )
    for column in columns:
        made.add_column(
            column.heading, justify="right" if column.right else "left", style=column.style or None,
            overflow="fold",
        )  # fmt: skip
    for row in rows:
        made.add_row(*(escape(_shown(row.get(column.key), column)) for column in columns))
    return made


def _shown(value: Any, column: Column) -> str:
    return "-" if value is None else column.show(value)


def count(value: float) -> str:
    """Numbers as people read them: 950, 12.3 k, 4.56 M."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if unit == ' k' else limit):.3g}{unit}"
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.1f}"


def several(amount: int, noun: str) -> str:
    return f"{count(amount)} {noun}{'' if amount == 1 else 's'}"


def size(value: float) -> str:
    for limit, unit in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"


def elapsed(seconds: float) -> str:
    """350 ms, 12 s, 3 m, 5 h, 2 d."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds else "0"
    for limit, length, unit in ((120, 1, "s"), (7_200, 60, "m"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def listed(value: Iterable[Any]) -> str:
    return ", ".join(map(str, value))
