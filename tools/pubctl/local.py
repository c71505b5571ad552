"""`pubctl local up|down|status TOPOLOGY`: the brokers of a topology on this machine.

They are the user's own processes and nobody else's overlay, so nothing is asked; --yes is taken all the same.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tools.pubctl.commands import changes, group
from tools.pubctl.failure import NOT_FOUND, Failure
from tools.pubctl.interrupts import interruptible, undisturbed
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, show
from tools.pubctl.progress import bar

if TYPE_CHECKING:
    from tools.pubctl.crew import Crew
    from tools.pubctl.topology import Topology

COLUMNS = (
    Column("name", "broker", style="bold"),
    Column("kind"),
    Column("state"),
    Column("pid", right=True),
    Column("address"),
    Column("log"),
)

directory_option = click.option(
    "--dir", "directory", type=click.Path(path_type=Path), help="Where its files lie."
)
topology_argument = click.argument("topology", type=click.Path(path_type=Path, dir_okay=False))


@group("local", "Brokers of a topology file on this machine.")
def local() -> None: ...


def place(topology: Path, directory: Path | None) -> Path:
    """A directory for this file, the same each time."""
    if directory is not None:
        return directory
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    mark = hashlib.blake2b(str(topology.absolute()).encode(), digest_size=3).hexdigest()
    return Path(base).expanduser() / "grapevine" / "local" / f"{topology.stem}-{mark}"


def crew_of(topology: Path, directory: Path | None) -> Crew:
    from tools.pubctl.crew import Crew

    return Crew(place(topology, directory))


@local.command()
@topology_argument
@directory_option
@changes
def up(topology: Path, directory: Path | None, dry_run: bool, yes: bool) -> None:
    """Start every broker of TOPOLOGY, parents first, and wait until all are ready."""
    from tools.pubctl.topology import read

    plan = read(topology)
    crew = crew_of(topology, directory)
    if dry_run:
        rows = [
            {"name": b.name, "kind": "broker", "state": "planned", "address": b.address} for b in plan.brokers
        ]
        show(lambda: Result(rows, COLUMNS, {"directory": str(crew.directory)}))
        return
    crew.check_free()  # from here on, a failure ends all that was started
    with interruptible(), bar(current(), "starting", len(plan.brokers)) as progress:
        try:
            crew.up(plan, progress)
            start_clients(crew, plan)
        except BaseException:
            with undisturbed():
                crew.down()
            raise
    current().say(f"{len(plan.brokers)} brokers are ready; PUBCTL_BROKER={plan.brokers[0].address}")
    show(lambda: listing(crew))


def start_clients(crew: Crew, plan: Topology) -> None:
    """The clients of a topology as processes of their own; what a subscriber gets is its log."""
    import sys

    for client in plan.clients:
        address = plan.broker(client.broker).address
        command = [sys.executable, "-P", "-m", "tools.pubctl.main", *client.words(address)]
        crew.launch(client.name, address, crew.directory / client.name, command, client.kind)


@local.command()
@topology_argument
@directory_option
@changes
def down(topology: Path, directory: Path | None, dry_run: bool, yes: bool) -> None:
    """End what `local up` started, and nothing else."""
    crew = crew_of(topology, directory)
    running = crew.alive
    if not crew.members:
        raise Failure(f"nothing of {topology} was started here ({crew.directory})", NOT_FOUND)
    if dry_run:
        show(lambda: listing(crew))
        return
    names = [member.name for member in running]
    with bar(current(), "stopping", len(running)) as progress:
        killed = crew.down(progress=progress)
    rows = [{"name": name, "state": "killed" if name in killed else "ended"} for name in names]
    show(lambda: Result(rows, (Column("name", "process", style="bold"), Column("state"))))


@local.command()
@topology_argument
@directory_option
def status(topology: Path, directory: Path | None) -> None:
    """What runs of TOPOLOGY."""
    crew = crew_of(topology, directory)
    if not crew.members:
        raise Failure(f"nothing of {topology} was started here ({crew.directory})", NOT_FOUND)
    show(lambda: listing(crew))


def listing(crew: Crew) -> Result:
    rows = [
        {
            "name": member.name,
            "kind": member.kind,
            "state": "running" if member.alive else "ended",
            "pid": member.pid,
            "address": member.address,
            "log": str(member.log),
        }
        for member in crew.members
    ]
    return Result(rows, COLUMNS, {"directory": str(crew.directory)})
