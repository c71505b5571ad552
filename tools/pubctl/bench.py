"""`pubctl bench pub|sub|latency`: one's own overlay (load.py); `pubctl bench QUESTION`: the measurements of a
source tree, which are in no wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from tools.pubctl import load
from tools.pubctl.commands import Command, Group
from tools.pubctl.failure import NOT_FOUND, Failure
from tools.pubctl.output import Column, Result, show

HOME = Path(__file__).resolve().parents[2] / "bench"
OWN = {"pub": load.pub, "sub": load.sub, "latency": load.latency}


class Bench(Group):
    """Our own verbs, and whatever questions the source tree has."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return OWN.get(name) or _question(name)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(OWN)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in OWN and args[0] not in questions() and not args[0].startswith("-"):
            known = ", ".join((*OWN, *questions()))
            raise Failure(f"no measurement {args[0]}: {known}", NOT_FOUND)
        return super().resolve_command(context, args)


def questions() -> dict[str, Path]:
    return {path.stem: path for path in sorted(HOME.glob("[a-z]*.py"))}


def _question(name: str) -> click.Command | None:
    if name not in questions():
        return None

    @click.command(name, cls=Command, context_settings={"ignore_unknown_options": True})
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def run(words: tuple[str, ...]) -> None:
        ended = subprocess.run([sys.executable, "-m", f"bench.{name}", *words], cwd=HOME.parent)
        click.get_current_context().exit(ended.returncode)

    return run


def _overview() -> None:
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        rows = [{"question": name, "about": command.get_short_help_str(100)} for name, command in OWN.items()]
        rows += [
            {"question": n, "about": _first_line(path)} for n, path in questions().items() if n not in OWN
        ]
        show(lambda: Result(rows, (Column("question", style="bold"), Column("about"))))


bench = Bench(
    "bench",
    callback=_overview,
    invoke_without_command=True,
    help="Measure your overlay (pub, sub, latency), or ask a question of the source tree's; alone: list all.",
)


def _first_line(path: Path) -> str:
    import ast

    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.partition("\n")[0]
