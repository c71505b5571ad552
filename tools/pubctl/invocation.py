"""The global flags of one call, which may stand before the noun or after the verb.

Every command and group takes them; the last word counts. What is not said comes from the environment
(`PUBCTL_BROKER`, `PUBCTL_OUTPUT`, `PUBCTL_TIMEOUT`), then from the context in use (`contexts.py`), then from
the defaults.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from tools.pubctl.failure import USAGE, Failure

if TYPE_CHECKING:
    from tools.pubctl.contexts import Context

FORMATS = ("table", "json", "jsonl", "csv", "dot", "svg")
DEFAULT_BROKER = "tcp://127.0.0.1:7470"
DEFAULT_TIMEOUT_S = 5.0
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
WITH_UNIT = re.compile(r"\d+(?:\.\d+)?(?:ms|s|m|h)")
BARE_WATCH = "--watch=2s"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
KEY = "pubctl"


@dataclass
class Invocation:
    said: dict[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    schema: str = "pubctl/1"

    @property
    def broker(self) -> str:
        said = self.said.get("broker") or self.environment.get("PUBCTL_BROKER")
        return str(said or (self.context.broker if self.context else DEFAULT_BROKER))

    @property
    def context(self) -> Context | None:
        from tools.pubctl.contexts import in_use

        return in_use(self.environment)

    @property
    def output(self) -> str:
        chosen = str(self.said.get("output") or self.environment.get("PUBCTL_OUTPUT") or "table")
        if chosen not in FORMATS:
            raise Failure(f"PUBCTL_OUTPUT={chosen} is none of {', '.join(FORMATS)}", USAGE)
        return chosen

    @property
    def timeout_s(self) -> float:
        if (said := self.said.get("timeout")) is not None:
            return float(said)
        given = self.environment.get("PUBCTL_TIMEOUT")
        return duration_s(given) if given else DEFAULT_TIMEOUT_S

    @property
    def watch_s(self) -> float | None:
        return self.said.get("watch")

    @property
    def quiet(self) -> bool:
        return bool(self.said.get("quiet"))

    @property
    def color(self) -> bool | None:
        """None: as the terminal has it."""
        return False if self.said.get("no_color") or "NO_COLOR" in self.environment else None

    def say(self, text: str) -> None:
        """Talk, which is not data."""
        if not self.quiet:
            click.echo(text, err=True)


def current() -> Invocation:
    context = click.get_current_context()
    invocation = context.meta.setdefault(KEY, Invocation())
    assert isinstance(invocation, Invocation)
    return invocation


def duration_s(text: str) -> float:
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise Failure(f"{text!r} is no duration: write 2s, 500ms or 1m", USAGE)
    return float(match[1]) * UNITS[match[2] or "s"]


class Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return duration_s(str(value))
        except Failure as error:
            self.fail(str(error), param, ctx)


def _remember(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and value is not False and option.name is not None:
        invocation = context.meta.setdefault(KEY, Invocation())
        invocation.said[option.name] = value


def options() -> list[click.Parameter]:
    """The global flags, for one command."""
    shared: dict[str, Any] = {"expose_value": False, "callback": _remember}
    return [
        click.Option(
            ["-b", "--broker"],
            metavar="URL",
            help="Broker to ask: address, control socket or name.",
            **shared,
        ),
        click.Option(["-o", "--output"], type=click.Choice(FORMATS), help="Format of the data.", **shared),
        click.Option(["-t", "--timeout"], type=Duration(), help="How long to wait, as 5s.", **shared),
        click.Option(
            ["--watch"], type=Duration(), metavar="[2s]", help="Again and again, until interrupted.", **shared
        ),
        click.Option(["-q", "--quiet"], is_flag=True, help="Data only, no talk.", **shared),
        click.Option(["--no-color"], is_flag=True, help="No colours.", **shared),
    ]


def prepare(arguments: list[str]) -> list[str]:
    """A bare --watch means --watch=2s: click would take the next word for its value. One that is a duration
    with its unit is the value; a plain number may be anybody's."""
    until = arguments.index("--") if "--" in arguments else len(arguments)
    prepared: list[str] = []
    for word in arguments[:until]:
        if prepared and prepared[-1] == BARE_WATCH and WITH_UNIT.fullmatch(word):
            prepared[-1] = f"--watch={word}"
        else:
            prepared.append(BARE_WATCH if word == "--watch" else word)
    return prepared + arguments[until:]


def on_terminal() -> bool:
    return sys.stdout.isatty()
