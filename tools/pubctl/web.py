"""`pubctl web`: the live overlay in a browser, served by a process of its own."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from tools.pubctl.commands import Command
from tools.pubctl.failure import FAILED, USAGE, Failure
from tools.pubctl.invocation import Duration, current

if TYPE_CHECKING:
    from tools.web.source import Source

NEEDED = ("starlette", "uvicorn")


@click.command(cls=Command)
@click.option("--listen", default="127.0.0.1:8470", show_default=True, metavar="HOST:PORT")
@click.option("--actions", is_flag=True, help="The page may also drain, move and reload brokers.")
@click.option("--every", type=Duration(), default=1.0, show_default=True, help="Between two looks.")
@click.option("--open", "open_it", is_flag=True, help="Open a browser.")
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="A name under which the page is reached."
)
@click.option(
    "--key", default="user", show_default=True, help="Of the keys directory; an observer's is enough."
)
@click.option("--tls", nargs=2, type=click.Path(exists=True), metavar="CERT KEY")
@click.option("--behind-proxy", is_flag=True, help="Something before it speaks TLS.")
@click.option(
    "--token-file", type=click.Path(dir_okay=False, path_type=Path), help="Made if it is not there."
)
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--speed", type=float, default=1.0, help="Of a recording; 0: as fast as it goes.")
@click.option("--sim", metavar="SCENARIO", help="A simulated overlay (pubctl sim run --help).")
@click.option("--brokers", type=int, help="So many, with --sim.")
@click.option("--seed", type=int, default=1, show_default=True)
def web(
    listen: str,
    actions: bool,
    every: float,
    open_it: bool,
    hosts: tuple[str, ...],
    key: str,
    tls: tuple[str, str] | None,
    behind_proxy: bool,
    token_file: Path | None,
    record: Path | None,
    replay: Path | None,
    speed: float,
    sim: str | None,
    brokers: int | None,
    seed: int,
) -> None:
    """The live overlay in a browser: brokers, links, rates, what happens, where a publication goes."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        text = "pubctl web needs grapevine-broker[web]: pip install 'grapevine-broker[web]'"
        raise Failure(f"{text} ({', '.join(missing)} is not installed)", FAILED)
    host, port = place(listen)
    if not is_loopback(host) and tls is None and not behind_proxy:
        raise Failure(f"{host} can be reached by others: give --tls CERT KEY, or --behind-proxy", USAGE)
    source = source_of(replay, speed, sim, brokers, seed, every, key, actions)
    if record is not None:
        from tools.web.source_replay import Recorder

        source = Recorder(source, record)
    serve(source, host, port, every, actions, hosts, tls, behind_proxy, read_token(token_file), open_it)


def source_of(
    replay: Path | None,
    speed: float,
    sim: str | None,
    brokers: int | None,
    seed: int,
    every_s: float,
    key: str,
    actions: bool,
) -> Source:
    if replay is not None:
        from tools.web.source_replay import opened

        return opened(replay, speed)
    if sim is not None:
        from tools.web.source_sim import SimulatorSource

        return SimulatorSource(sim, seed, brokers, every_s)
    from tools.web.source import BrokerSource

    return BrokerSource(current().broker, every_s, key=key, actions=actions)


def serve(
    source: Source,
    host: str,
    port: int,
    every_s: float,
    actions: bool,
    hosts: tuple[str, ...],
    tls: tuple[str, str] | None,
    behind_proxy: bool,
    token: str,
    open_it: bool,
) -> None:
    import uvicorn

    from tools.web.engine import Engine
    from tools.web.guard import Guard
    from tools.web.server import Page

    guard = Guard(hosts, token, secure=tls is not None or behind_proxy)
    page = Page(Engine(source, every_s), guard, actions)
    listening = bind(host, port)
    scheme, bound = "https" if tls else "http", listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{bound}/#{guard.token}"
    click.echo(url)
    current().say("open this address; what follows the # is the key to it. Ctrl-C ends the page, no broker")
    if open_it:
        click.launch(url)
    config = uvicorn.Config(
        page.application(),
        log_level="warning",
        access_log=False,
        limit_concurrency=64,
        timeout_graceful_shutdown=1,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
        server_header=False,
        lifespan="on",
    )
    server = uvicorn.Server(config)
    leave = server.handle_exit

    def ending(number: int, frame: FrameType | None) -> None:
        """Readers are told before their connections end."""
        page.stream.end()
        leave(number, frame)

    server.handle_exit = ending  # type: ignore[assignment]
    server.run(sockets=[listening])


def place(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise Failure(f"{listen}: write HOST:PORT", USAGE)
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(64)  # whoever has the address may come at once
    except OSError as error:
        listening.close()
        raise Failure(
            f"{host}:{port}: {error.strerror}; --listen {host}:0 takes any that is free", FAILED
        ) from None
    return listening


def read_token(path: Path | None) -> str:
    import secrets

    if path is None:
        return ""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(16))
    return path.read_text().strip()
