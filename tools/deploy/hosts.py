"""Hosts by ssh: one connection each, many at once, and what went wrong at which."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from tools.pubctl.failure import USAGE, Failure

AT_ONCE = 16
CONNECT_S = 15.0


class Trouble(Exception):
    """One line about one host."""


class Access(NamedTuple):
    user: str = ""
    port: int = 0
    identity: str = ""
    known_hosts: str = ""


class Host:
    def __init__(self, name: str, connection: Any) -> None:
        self.name = name
        self._connection = connection

    async def run(self, script: str, data: bytes = b"", timeout_s: float = 60.0) -> str:
        """A shell script there; Trouble is its last line when it fails."""
        command = f"sh -c {quote(script)}"
        try:
            ended = await asyncio.wait_for(
                self._connection.run(command, input=data or None, encoding=None), timeout_s
            )
        except TimeoutError:
            raise Trouble(f"no end within {timeout_s:g} s") from None
        out, told = (part.decode(errors="replace") for part in (ended.stdout or b"", ended.stderr or b""))
        if ended.exit_status:
            lines = [line for line in (told or out).splitlines() if line.strip()]
            raise Trouble(lines[-1] if lines else f"exit code {ended.exit_status}")
        return out


Work = Callable[[Host], Awaitable[Any]]


async def at_all(
    names: Iterable[str], access: Access, work: Work, progress: Callable[[str], None]
) -> dict[str, Any]:
    """What `work` returned at each host, or the Trouble there; nobody waits for a host that is gone."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Any:
        async with gate:
            try:
                return await _visit(name, access, work)
            except Trouble as trouble:
                return trouble
            finally:
                progress(name)

    wanted = list(names)
    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


async def _visit(name: str, access: Access, work: Work) -> Any:
    asyncssh = library()
    options: dict[str, Any] = {"connect_timeout": CONNECT_S}
    if access.user:
        options["username"] = access.user
    if access.port:
        options["port"] = access.port
    if access.identity:
        options["client_keys"] = [str(Path(access.identity).expanduser())]
    if access.known_hosts:
        options["known_hosts"] = str(Path(access.known_hosts).expanduser())
    try:
        async with asyncssh.connect(name, **options) as connection:
            return await work(Host(name, connection))
    except (OSError, asyncssh.Error, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise Trouble(f"ssh: {reason}: `ssh {_as_typed(name, access)}` must work first") from None


def _as_typed(name: str, access: Access) -> str:
    words = [f"-p {access.port}"] if access.port else []
    words += [f"-i {access.identity}"] if access.identity else []
    return " ".join((*words, f"{access.user}@{name}" if access.user else name))


def library() -> Any:
    try:
        import asyncssh
    except ImportError:
        raise Failure("deploy needs asyncssh: install grapevine-broker[deploy]", USAGE) from None
    return asyncssh
