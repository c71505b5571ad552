"""`pubctl bench [QUESTION]`: the measurements of a source tree, which are in no wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from tools.pubctl.commands import Command
from tools.pubctl.failure import NOT_FOUND, Failure
from tools.pubctl.output import Column, Result, show

HOME = Path(__file__).resolve().parents[2] / "bench"


@click.command(cls=Command)
@click.argument("question", required=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def bench(question: str | None, words: tuple[str, ...]) -> None:
    """Run the measurement that answers QUESTION; without one, list them."""
    known = {path.stem: path for path in sorted(HOME.glob("[a-z]*.py"))}
    if question is None:
        rows = [{"question": name, "about": _first_line(path)} for name, path in known.items()]
        show(lambda: Result(rows, (Column("question", style="bold"), Column("about"))))
        return
    if question not in known:
        raise Failure(f"no measurement {question} in {HOME}: {', '.join(known) or 'none there'}", NOT_FOUND)
    ended = subprocess.run([sys.executable, "-m", f"bench.{question}", *words], cwd=HOME.parent)
    click.get_current_context().exit(ended.returncode)


def _first_line(path: Path) -> str:
    import ast

    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.partition("\n")[0]
