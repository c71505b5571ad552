"""`pubctl completion bash|zsh|fish`: the script to be sourced by the shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tools.pubctl.commands import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL; for bash: eval "$(pubctl completion bash)"."""
    from tools.pubctl.running import COMPLETE, root

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(root, {}, "pubctl", COMPLETE).source())
