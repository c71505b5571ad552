"""Commands and groups that take the global flags anywhere and load their code when they are called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from tools.pubctl.invocation import current, options


class Guiding(click.Command):
    """Its help ends with what to say next."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from tools.pubctl.next_steps import next_step

        super().format_epilog(context, formatter)
        formatter.write_paragraph()
        formatter.write_text(f"Next: {next_step(' '.join(context.command_path.split()[1:]))}")


class Command(Guiding):
    """`pubctl NOUN VERB`: the schema of its output is its own path."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(options())

    def invoke(self, context: click.Context) -> Any:
        current().schema = schema_of(context)
        return super().invoke(context)


class Group(Guiding, click.Group):
    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(options())


class LazyGroup(Group):
    """`entries`: name -> (module, attribute, one line of help)."""

    def __init__(self, *args: Any, entries: dict[str, tuple[str, str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.entries:
            return None
        module, attribute, _ = self.entries[name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Help without loading anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, _, help) in self.entries.items()])

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.entries, 1)
            context.fail(f"no command {args[0]!r}" + (f", did you mean {near[0]}?" if near else ""))
        return super().resolve_command(context, args)


def schema_of(context: click.Context) -> str:
    words: list[str] = []
    at: click.Context | None = context
    while at is not None and at.parent is not None:
        words.insert(0, at.info_name or "")
        at = at.parent
    return ".".join(["pubctl", *words]) + "/1"


def group(name: str, help: str) -> Callable[[Callable[..., Any]], Group]:
    def wrap(function: Callable[..., Any]) -> Group:
        return Group(name, callback=function, help=help)

    return wrap


def changes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Flags of a command that changes something."""
    function = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(
        function
    )
    return click.option("--yes", is_flag=True, help="Do not ask.")(function)


def agreed(what: str, dry_run: bool, yes: bool) -> bool:
    """Whether to go on with a change. Without a terminal to ask on, it takes --yes."""
    import sys

    from tools.pubctl.failure import USAGE, Failure

    if dry_run:
        current().say(f"would {what}")
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Failure(f"to {what}, say --yes (or --dry-run to see what it would do)", USAGE)
    click.confirm(f"{what[0].upper()}{what[1:]}?", abort=True, err=True)
    return True
