"""`pubctl sim run`: the simulator's own command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from tools.pubctl.commands import group


@group("sim", "Simulated overlays with faults, judged by an oracle.")
def sim() -> None: ...


@sim.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.pass_context
def run(context: click.Context) -> None:
    """Run a SCENARIO (`quick` ships)."""
    command: Any = import_module("tools.simulator.__main__")
    context.exit(command.main(_words(context), standalone_mode=False) or 0)


def _words(context: click.Context) -> list[str]:
    return list(context.args)
