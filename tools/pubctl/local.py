"""`pubctl local up|down|status|restart TOPOLOGY`: the brokers of a topology on this machine.

They are the user's own processes and nobody else's overlay, so nothing is asked; --yes is taken all the same.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tools.pubctl.commands import changes, group
from tools.pubctl.failure import NOT_FOUND, USAGE, Failure
from tools.pubctl.interrupts import interruptible, undisturbed
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, Row, show
from tools.pubctl.progress import bar

if TYPE_CHECKING:
    from tools.pubctl.crew import Crew, Member
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
    mark = hashlib.blake2b(str(topology.absolute()).encode(), digest_size=3).hexdigest()
    return home() / f"{topology.stem}-{mark}"


def home() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "grapevine" / "local"


def crew_of(topology: Path, directory: Path | None) -> Crew:
    from tools.pubctl.crew import Crew

    return Crew(place(topology, directory))


@local.command()
@topology_argument
@directory_option
@changes
def up(topology: Path, directory: Path | None, dry_run: bool, yes: bool) -> None:
    """Start every broker of TOPOLOGY that does not run, parents first, and wait until all are ready.

    One that runs is left alone, also if TOPOLOGY has another configuration for it by now: it is named.
    """
    from tools.pubctl.topology import read

    plan = read(topology)
    crew = crew_of(topology, directory)
    if dry_run:
        rows = [
            {"name": b.name, "kind": "broker", "state": "planned", "address": b.address} for b in plan.brokers
        ]
        show(lambda: Result(rows, COLUMNS, {"directory": str(crew.directory)}))
        return
    outdated = crew.outdated(plan)
    if outdated and crew.is_whole(plan):
        raise Failure(_as_they_were(outdated, topology, directory), outdated=outdated)
    crew.check_free(plan)  # from here on, a failure ends all that was started
    with interruptible(), bar(current(), "starting", len(plan.brokers)) as progress:
        try:
            crew.up(plan, progress)
            start_clients(crew, plan)
        except BaseException:
            with undisturbed():
                crew.down(only=crew.started)
            raise
    before = len(crew.members) - len(crew.started)
    told = f" ({before} ran already)" if before else ""
    current().say(f"{len(plan.brokers)} brokers are ready{told}; PUBCTL_BROKER={plan.brokers[0].address}")
    if outdated:
        current().say(_as_they_were(outdated, topology, directory))
    show(lambda: listing(crew))


def _as_they_were(outdated: list[str], topology: Path, directory: Path | None) -> str:
    place = f" --dir {directory}" if directory is not None else ""
    return (
        f"{', '.join(outdated)}: running with another configuration than {topology} has now: "
        f"`pubctl local restart {topology} {' '.join(outdated)}{place}` applies it"
    )


def start_clients(crew: Crew, plan: Topology) -> None:
    """The clients of a topology as processes of their own; what a subscriber gets is its log."""
    import sys

    running = {member.name for member in crew.alive}
    for client in plan.clients:
        if client.name in running:
            continue
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


@local.command()
@click.argument("words", metavar="[TOPOLOGY] NAME...", nargs=-1, required=True)
@directory_option
@changes
def restart(words: tuple[str, ...], directory: Path | None, dry_run: bool, yes: bool) -> None:
    """End brokers or clients by their NAME and start them again with the state they have.

    With TOPOLOGY, a broker gets the configuration that it has there by now. Without, NAME is looked for in
    everything that `local up` has started, and keeps the configuration that it was started with.
    """
    from tools.pubctl.crew import FILE, Crew
    from tools.pubctl.topology import read

    plan = None
    if words[0].endswith(".toml") or directory is not None:
        file, names = (words[0], words[1:]) if words[0].endswith(".toml") else ("", words)
        plan = read(Path(file)) if file else None
        crews = [crew_of(Path(file), directory)]
    else:
        names = words
        crews = [Crew(path.parent) for path in sorted(home().glob(f"*/{FILE}"))]
    if not names:
        raise Failure("whom? `pubctl local status TOPOLOGY` lists the names", USAGE)
    chosen = [(name, _only(name, crews)) for name in names]
    rows = []
    with interruptible(), bar(current(), "restarting", len(chosen)) as progress:
        for name, crew in chosen:
            member = crew[name] if dry_run else crew.restart(name, plan)
            rows.append(_row(member))
            progress(name)
    show(lambda: Result(rows, COLUMNS))


def _only(name: str, crews: list[Crew]) -> Crew:
    found = [crew for crew in crews if any(member.name == name for member in crew.members)]
    if not found:
        raise Failure(f"no {name} was started here: `pubctl local up TOPOLOGY` starts it", NOT_FOUND)
    if len(found) > 1:
        places = ", ".join(str(crew.directory) for crew in found)
        raise Failure(f"{name} is in several topologies: name its file before it ({places})", USAGE)
    return found[0]


def listing(crew: Crew) -> Result:
    return Result([_row(member) for member in crew.members], COLUMNS, {"directory": str(crew.directory)})


def _row(member: Member) -> Row:
    return {
        "name": member.name,
        "kind": member.kind,
        "state": "running" if member.alive else "ended",
        "pid": member.pid,
        "address": member.address,
        "log": str(member.log),
    }
