"""A bar on stderr for what takes long; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tools.pubctl.invocation import Invocation


@contextmanager
def bar(invocation: Invocation, what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yields what is to be called once per step, with its name."""
    if invocation.quiet or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    screen = Console(stderr=True, no_color=invocation.color is False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[name]}"),
    )
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task(what, total=total, name="")
        yield lambda name: progress.update(task, advance=1, name=name)
