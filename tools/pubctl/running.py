"""One call: parse, run, and turn whatever went wrong into a line and an exit code."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import shell_complete

from tools.pubctl.commands import LazyGroup
from tools.pubctl.failure import FAILED, USAGE, Failure, of_library
from tools.pubctl.invocation import KEY, Invocation, prepare
from tools.pubctl.main import ENTRIES, version

HELP = """Watch over and use a grapevine overlay.

Any broker answers for the whole overlay. Global flags may stand before the noun or after the verb.
"""
INTERRUPTED = 130
COMPLETE = "_PUBCTL_COMPLETE"

root = LazyGroup("pubctl", help=HELP, entries=ENTRIES, no_args_is_help=True)
click.version_option(version(), prog_name="pubctl", message="%(prog)s %(version)s")(root)


def run(arguments: list[str]) -> int:
    invocation = Invocation()
    if instruction := os.environ.get(COMPLETE):
        return shell_complete(root, {}, "pubctl", COMPLETE, instruction)
    try:
        with root.make_context("pubctl", prepare(arguments), obj=invocation) as context:
            context.meta[KEY] = _merged(context, invocation)
            invocation = context.meta[KEY]
            _take_keys(invocation)
            root.invoke(context)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return FAILED
    except click.UsageError as error:
        error.show()
        return _end(invocation, Failure(error.format_message(), USAGE), silent=True)
    except click.ClickException as error:
        return _end(invocation, Failure(error.format_message(), error.exit_code))
    except Failure as failure:
        return _end(invocation, failure)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing to flush at exit
        return 0
    except Exception as error:
        return _end(invocation, _expected(error))


def _take_keys(invocation: Invocation) -> None:
    """The keys of the context in use, where nothing else says which; everything asks the environment."""
    if not os.environ.get("GRAPEVINE_KEYS") and (chosen := invocation.context) is not None and chosen.keys:
        os.environ["GRAPEVINE_KEYS"] = chosen.keys


def _merged(context: click.Context, invocation: Invocation) -> Invocation:
    """The flags that stood before the noun were remembered while the context was made."""
    said = context.meta.get(KEY)
    return said if isinstance(said, Invocation) else invocation


def _expected(error: Exception) -> Failure:
    """Errors of the client library are the user's business; anything else is ours and goes through."""
    from grapevine import Error

    if isinstance(error, Error):
        return of_library(error)
    raise error


def _end(invocation: Invocation, failure: Failure, silent: bool = False) -> int:
    if not silent:
        click.echo(f"pubctl: {failure}", err=True)
    wanted = invocation.said.get("output") or invocation.environment.get("PUBCTL_OUTPUT")
    if wanted in ("json", "jsonl") and not failure.told:
        import msgspec

        click.echo(msgspec.json.encode(failure.document(invocation.schema)))
    return failure.code
