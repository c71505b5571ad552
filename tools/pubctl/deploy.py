"""`pubctl deploy check|install|up|down|status|logs|fetch|upgrade TOPOLOGY`: brokers on many hosts, over ssh.

All hosts at once; what fails at one is told with its name, and the others go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.failure import FAILED, Failure
from tools.pubctl.invocation import current
from tools.pubctl.local import place, topology_argument
from tools.pubctl.output import Column, Result, Row, emit
from tools.pubctl.progress import bar

if TYPE_CHECKING:
    from tools.deploy.fleet import Fleet
    from tools.deploy.hosts import Access, Host
    from tools.pubctl.topology import BrokerPlan

COLUMNS = (
    Column("host", style="bold"),
    Column("broker", style="bold"),
    Column("state"),
    Column("seconds", right=True, show=lambda value: f"{value:.1f}"),
)
DIRECTORY = "/tmp/grapevine-deploy"
Step = Callable[["Host"], Awaitable[Any]]


@group("deploy", "Brokers of a topology file on many hosts, over ssh.")
def deploy() -> None: ...


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--user", default="", help="At the hosts.  [as ssh has it]"),
        click.option("--port", default=0, help="Of sshd.  [as ssh has it]"),
        click.option("--identity", default="", help="Private key for ssh.  [as ssh has it]"),
        click.option("--known-hosts", default="", help="File of host keys.  [as ssh has it]"),
        click.option("--at", "directory", default=DIRECTORY, help=f"Directory at the hosts.  [{DIRECTORY}]"),
        topology_argument,
    ):
        function = option(function)
    return function


def prepared(said: dict[str, Any]) -> tuple[Fleet, Access]:
    from grapevine.client.keys import default_directory
    from tools.deploy.fleet import Fleet
    from tools.deploy.hosts import Access
    from tools.pubctl.topology import read

    topology = said["topology"]
    local = place(topology, None).with_name(f"deploy-{place(topology, None).name}")
    fleet = Fleet(read(topology), said["directory"].rstrip("/"), local, default_directory())
    return fleet, Access(said["user"], said["port"], said["identity"], said["known_hosts"])


def at_hosts(
    said: tuple[Fleet, Access], what: str, work: Step, hosts: list[str] | None = None
) -> dict[str, Any]:
    from tools.deploy.hosts import at_all

    fleet, access = said
    names = fleet.hosts if hosts is None else hosts
    with bar(current(), what, len(names)) as progress:
        return asyncio.run(at_all(names, access, timed(work), progress))


def timed(work: Step) -> Step:
    async def run(host: Host) -> Any:
        began = time.monotonic()
        return await work(host), time.monotonic() - began

    return run


def tell(found: dict[str, Any], rows: Callable[[str, Any, float], list[Row]]) -> None:
    """The table of all hosts; a failure at the end if there was one at some."""
    listed: list[Row] = []
    failed = []
    for host, result in found.items():
        if isinstance(result, Exception):
            failed.append(f"{host}: {result}")
            listed.append({"host": host, "broker": None, "state": f"failed: {result}"})
        else:
            listed += rows(host, *result)
    emit(current(), Result(listed, COLUMNS))
    if failed:
        raise Failure(
            f"{len(failed)} of {len(found)} hosts failed: {'; '.join(failed[:5])}", FAILED, told=True
        )


def plainly(host: str, state: Any, seconds: float) -> list[Row]:
    return [{"host": host, "broker": None, "state": state, "seconds": seconds}]


def by_broker(host: str, states: dict[str, str], seconds: float) -> list[Row]:
    return [{"host": host, "broker": b, "state": s, "seconds": seconds} for b, s in states.items()]


@deploy.command()
@common
def check(**said: Any) -> None:
    """Whether every host is reached, has the right Python, and a directory to write to."""
    fleet, access = prepared(said)
    tell(at_hosts((fleet, access), "checking", fleet.check), plainly)


@deploy.command()
@common
@changes
def install(dry_run: bool, yes: bool, **said: Any) -> None:
    """Put packages, keys and configurations at every host; what is there already stays."""
    fleet, access = prepared(said)
    if agreed(f"install {len(fleet.topology.brokers)} brokers at {len(fleet.hosts)} hosts", dry_run, yes):
        tell(installed(fleet, access), plainly)


def installed(fleet: Fleet, access: Access) -> dict[str, Any]:
    from tools.deploy.image import build

    image = build()
    return at_hosts((fleet, access), "installing", partial(fleet.install, image=image))


@deploy.command()
@common
@changes
def up(dry_run: bool, yes: bool, **said: Any) -> None:
    """Install, and start every broker, parents first, until all are ready."""
    from grapevine.client.keys import default_directory, write_entry

    fleet, access = prepared(said)
    if not agreed(f"start {len(fleet.topology.brokers)} brokers at {len(fleet.hosts)} hosts", dry_run, yes):
        return
    found = installed(fleet, access)
    for entry in fleet.entries():
        write_entry(default_directory(), entry)
    began = time.monotonic()
    for level in fleet.topology.levels():
        hosts = [host for host in found if any(b.host == host for b in level) and reached(found[host])]
        start = partial(started, fleet=fleet, brokers=level, began=began)
        found |= {
            host: merged(found[host], result)
            for host, result in at_hosts((fleet, access), "starting", start, hosts).items()
        }
    begin_clients(fleet, access, found)
    tell(found, by_broker)
    current().say(f"PUBCTL_BROKER={fleet.topology.brokers[0].address}")


def reached(result: Any) -> bool:
    return not isinstance(result, Exception)


async def started(host: Host, fleet: Fleet, brokers: list[BrokerPlan], began: float) -> dict[str, str]:
    """Those of the brokers that stand at this host, each not before its `start_s`."""
    states = {}
    for broker in sorted(brokers, key=lambda broker: broker.start_s):
        if broker.host == host.name:
            await asyncio.sleep(max(0.0, began + broker.start_s - time.monotonic()))
            states[broker.name] = await fleet.start(host, broker)
    return states


def begin_clients(fleet: Fleet, access: Access, found: dict[str, Any]) -> None:
    """All brokers are ready: the clients of the topology count their `start_s` from here."""

    async def begin(host: Host) -> dict[str, str]:
        return {c.name: await fleet.start_client(host, c) for c in fleet.clients_at(host.name)}

    hosts = [host for host in found if fleet.clients_at(host) and reached(found[host])]
    for host, result in at_hosts((fleet, access), "clients", begin, hosts).items() if hosts else ():
        found[host] = merged(found[host], result)


def merged(before: Any, after: Any) -> Any:
    """What is known of a host: its first trouble, or all states and the time spent."""
    for result in (before, after):
        if isinstance(result, Exception):
            return result
    states = before[0] if isinstance(before[0], dict) else {}
    return states | after[0], before[1] + after[1]


@deploy.command()
@common
@click.option("--keep", is_flag=True, help="Leave the files.")
@changes
def down(keep: bool, dry_run: bool, yes: bool, **said: Any) -> None:
    """Stop every broker, children first, and remove everything that was put at the hosts."""
    from grapevine.client.keys import default_directory, entry_path

    fleet, access = prepared(said)
    if not agreed(f"stop {len(fleet.topology.brokers)} brokers at {len(fleet.hosts)} hosts", dry_run, yes):
        return
    brokers = [broker for level in reversed(fleet.topology.levels()) for broker in level]

    async def stop(host: Host) -> dict[str, str]:
        names = [client.name for client in fleet.clients_at(host.name)]
        names += [broker.name for broker in brokers if broker.host == host.name]
        states = {name: await fleet.stop(host, name) for name in names}
        if not keep:
            await fleet.remove(host)
        return states

    found = at_hosts((fleet, access), "stopping", stop)
    if not keep:
        for entry in fleet.entries():
            entry_path(default_directory(), entry).unlink(missing_ok=True)
    tell(found, by_broker)


@deploy.command()
@common
def status(**said: Any) -> None:
    """What runs at which host."""
    fleet, access = prepared(said)

    async def ask(host: Host) -> dict[str, str]:
        names = [broker.name for broker in fleet.at(host.name)]
        names += [client.name for client in fleet.clients_at(host.name)]
        return {name: await fleet.state(host, name) for name in names}

    tell(at_hosts((fleet, access), "asking", ask), by_broker)


@deploy.command()
@common
@click.option("--lines", default=10, help="Of each broker.")
def logs(lines: int, **said: Any) -> None:
    """The last lines of every broker's log."""
    fleet, access = prepared(said)

    async def tail(host: Host) -> dict[str, str]:
        return {b.name: await fleet.log(host, b, lines) for b in fleet.at(host.name)}

    found = at_hosts((fleet, access), "reading", tail)
    for host, result in found.items():
        for name, text in {} if isinstance(result, Exception) else result[0].items():
            click.echo(f"== {host} {name}\n{text}", nl=False)
    troubles = [f"{host}: {result}" for host, result in found.items() if isinstance(result, Exception)]
    if troubles:
        raise Failure("; ".join(troubles), FAILED)


@deploy.command()
@common
@click.option("--to", type=click.Path(path_type=Path), required=True, help="Directory here.")
def fetch(to: Path, **said: Any) -> None:
    """Bring logs and delivery logs here, as TO/HOST/BROKER/..."""
    import io
    import tarfile

    fleet, access = prepared(said)
    found = at_hosts((fleet, access), "fetching", fleet.archive)
    for host, result in found.items():
        if not isinstance(result, Exception):
            with tarfile.open(fileobj=io.BytesIO(result[0])) as archive:
                archive.extractall(to / host, filter="data")
            found[host] = ("fetched", result[1])
    tell(found, plainly)


@deploy.command()
@common
@click.option("--rolling", is_flag=True, required=True, help="One broker after the other.")
@changes
def upgrade(rolling: bool, dry_run: bool, yes: bool, **said: Any) -> None:
    """Put the packages of this environment at every host, and restart the brokers one by one, then the driver
    of channels."""
    fleet, access = prepared(said)
    if not agreed(f"restart {len(fleet.topology.brokers)} brokers one by one", dry_run, yes):
        return
    found = installed(fleet, access)
    for broker in (broker for level in reversed(fleet.topology.levels()) for broker in level):
        if isinstance(found[broker.host], Exception):
            continue
        start = partial(fleet.start, broker=broker)
        started = renewed(fleet, access, broker.host, broker.name, start)
        found[broker.host] = merged(found[broker.host], started)
    for client in (client for client in fleet.topology.clients if client.kind == "driver"):
        host = fleet.topology.broker(client.broker).host
        if not isinstance(found[host], Exception):
            start_client = partial(fleet.start_client, client=client)
            found[host] = merged(found[host], renewed(fleet, access, host, client.name, start_client))
    tell(found, by_broker)


def renewed(fleet: Fleet, access: Access, at: str, name: str, start: Callable[[Host], Awaitable[str]]) -> Any:
    from tools.deploy.hosts import at_all

    async def renew(host: Host) -> dict[str, str]:
        await fleet.stop(host, name)
        return {name: await start(host)}

    return asyncio.run(at_all([at], access, timed(renew), lambda name: None))[at]
