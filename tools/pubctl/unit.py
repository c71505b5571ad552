"""`pubctl unit install|print`: brokers of this host under systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.failure import FAILED, NOT_ALLOWED, USAGE, Failure
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, show

COLUMNS = (Column("path", style="bold"), Column("change"))
NAME = re.compile(r"[A-Za-z0-9:_.-]+")  # what systemd takes as an instance unescaped
PORT = 7470


@group("unit", "Brokers of this host as systemd units.")
def unit() -> None: ...


@unit.command("print")
def print_() -> None:
    """The template unit as it would be installed, for reading or other tools."""
    from tools.deploy.units import service

    click.echo(service(executable()), nl=False)


@unit.command()
@click.argument("brokers", nargs=-1)
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="Address in a new configuration.  [127.0.0.1, ports from 7470]",
)
@click.option("--neighbour", multiple=True, metavar="URL", help="Neighbour in the new configurations.")
@click.option("--channels", is_flag=True, help="The driver of channels, beside a back end on this host.")
@click.option("--now", is_flag=True, help="Start them too.")
@click.option("--root", type=click.Path(path_type=Path), default=Path("/"), help="Of the host's files.  [/]")
@changes
def install(
    brokers: tuple[str, ...],
    listen: tuple[str, ...],
    neighbour: tuple[str, ...],
    channels: bool,
    now: bool,
    root: Path,
    dry_run: bool,
    yes: bool,
) -> None:
    """Write the unit and, for each of BROKERS, /etc/grapevine/NAME.toml; enable them.

    A configuration that exists is left alone. Running it again changes nothing.
    """
    from tools.deploy.units import change, configuration, placed, unreachable, write

    check(brokers, listen, neighbour)
    if mistake := unreachable(executable()):
        raise Failure(mistake, USAGE)
    texts = {
        name: configuration(listen or (f"tcp://127.0.0.1:{PORT + index}",), neighbour)
        for index, name in enumerate(brokers)
    }
    files = placed(root, executable(), texts, channels)
    if not agreed(f"install units under {root}", dry_run, yes):
        rows = [{"path": str(file.path), "change": change(file)} for file in files]
    else:
        try:
            rows = [{"path": str(file.path), "change": write(file)} for file in files]
        except PermissionError as error:
            raise Failure(f"{error.filename}: permission denied: run this as root", NOT_ALLOWED) from None
        if root == Path("/"):
            take_over(brokers, now, channels)
    show(lambda: Result(rows, COLUMNS))


def check(brokers: tuple[str, ...], listen: tuple[str, ...], neighbours: tuple[str, ...]) -> None:
    from daemon.settings.checks import address_mistake

    for name in brokers:
        if not NAME.fullmatch(name) or name == "keys":
            raise Failure(f"{name!r} is no name for a unit: letters, digits and : _ . -", USAGE)
    mistakes = [address_mistake(each, True) for each in listen]
    mistakes += [address_mistake(each, False) for each in neighbours]
    if found := [mistake for mistake in mistakes if mistake]:
        raise Failure(found[0], USAGE)
    if len(brokers) > 1 and listen:
        raise Failure("two brokers cannot listen at one address: install them one by one", USAGE)


def executable() -> Path:
    """grapevined of this environment."""
    return Path(sys.executable).parent / "grapevined"


def take_over(brokers: tuple[str, ...], now: bool, channels: bool = False) -> None:
    """Have systemd read what was written, and enable the brokers."""
    if shutil.which("systemctl") is None or not Path("/run/systemd/system").is_dir():
        current().say("systemd does not run here: the files wait for it")
        return
    systemctl("daemon-reload")
    names = [f"grapevined@{name}.service" for name in brokers]
    names += ["grapevine-channels.service"] if channels else []
    if names:
        systemctl("enable", "--quiet", "grapevined.target", *names)
    if names and now:
        systemctl("start", *names)
    elif names:
        current().say(f"edit /etc/grapevine/, then: systemctl start {' '.join(names)}")


def systemctl(*words: str) -> None:
    ended = subprocess.run(["systemctl", *words], capture_output=True, text=True)
    if ended.returncode:
        told = ended.stderr.strip() or f"exit code {ended.returncode}"
        raise Failure(f"systemctl {' '.join(words)}: {told}", FAILED)
