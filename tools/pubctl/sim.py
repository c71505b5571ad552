"""`pubctl sim run`: the simulator's own command, under this roof."""

from __future__ import annotations

from importlib import import_module

import click

from tools.pubctl.commands import group
from tools.pubctl.invocation import current


@group("sim", "Simulated overlays with faults, judged by an oracle.")
def sim() -> None: ...


class Through(click.Command):
    """Takes every word as it is: they are the other command's."""

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        context.args = words
        return words


def run() -> None:
    context = click.get_current_context()
    said = current().said
    words = [*(["-o", said["output"]] if "output" in said else []), *context.args]
    main = import_module("tools.simulator.__main__").main
    context.exit(main(words) or 0)


sim.add_command(Through("run", callback=run, help="Run a scenario (`quick` ships), with faults, by a seed."))
