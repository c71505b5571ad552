"""`python -m bench.requests`: how long a request takes until its reply, beside nats-py through nats-server.

One broker, one process that answers, one that asks, one request at a time, both by asyncio. Systems take
turns; the figure is the median of the rounds. Who is not installed is named in `missing`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grapevine
from bench.systems.base import free_port

ROOT = Path(__file__).resolve().parents[1]
WARM = 200
Ask = Callable[[bytes], Awaitable[bytes]]


def why_no_nats() -> str:
    if shutil.which("nats-server") is None:
        return "no nats-server (Debian: nats-server)"
    return "" if find_spec("nats") else "no nats-py (uv sync --group bench)"


class Grapevine:
    name = "grapevine-py"

    def start(self, directory: Path) -> list[str]:
        self.address = f"tcp://127.0.0.1:{free_port()}"
        config = directory / "broker.toml"
        config.write_text(
            f'[broker]\nname = "b1"\nlisten = ["{self.address}"]\nstate_dir = "{directory}/state"\n'
            f'[security]\ncurve = false\nkeys = "{directory}/keys"\n'
        )
        return [sys.executable, "-m", "daemon.main", "--config", str(config)]

    async def answer(self, address: str) -> None:
        async with grapevine.aio.connect(address, name="server", keys=False, timeout=30) as client:
            async for message in await client.subscribe("service = 'echo'"):
                await message.reply({}, message.payload)

    async def ask(self, address: str, use: Callable[[Ask], Awaitable[None]]) -> None:
        async with grapevine.aio.connect(address, name="asker", keys=False, timeout=30) as client:

            async def once(payload: bytes) -> bytes:
                return (await client.request({"service": "echo"}, payload, timeout=30)).payload

            await use(once)


class Nats:
    name = "nats-py"

    def start(self, directory: Path) -> list[str]:
        port = free_port()
        self.address = f"nats://127.0.0.1:{port}"
        return ["nats-server", "-a", "127.0.0.1", "-p", str(port)]

    async def answer(self, address: str) -> None:
        import nats

        client = await nats.connect(address)

        async def reply(message: Any) -> None:
            await message.respond(message.data)

        await client.subscribe("echo", cb=reply)
        await client.flush()
        await asyncio.Event().wait()

    async def ask(self, address: str, use: Callable[[Ask], Awaitable[None]]) -> None:
        import nats

        client = await nats.connect(address)

        async def once(payload: bytes) -> bytes:
            return bytes((await client.request("echo", payload, timeout=30)).data)

        await use(once)
        await client.close()


SYSTEMS: dict[str, type[Grapevine] | type[Nats]] = {system.name: system for system in (Grapevine, Nats)}


def measure(system: Grapevine | Nats, requests: int) -> list[float]:
    """Microseconds of each request."""
    took: list[float] = []

    async def use(once: Ask) -> None:
        deadline = time.monotonic() + 30
        while True:  # until the other process answers
            try:
                await once(b"first")
                break
            except Exception:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)
        for number in range(WARM + requests):
            payload = b"%d" % number
            began = time.perf_counter()
            assert await once(payload) == payload
            took.append((time.perf_counter() - began) * 1e6)

    with tempfile.TemporaryDirectory() as directory:
        broker = subprocess.Popen(system.start(Path(directory)), cwd=ROOT, stdout=-3, stderr=-3)
        time.sleep(0.5)
        words = [sys.executable, "-m", "bench.requests", "--answer", system.name, system.address]
        server = subprocess.Popen(words, cwd=ROOT)
        try:
            asyncio.run(_patiently(system, use))
        finally:
            for process in (server, broker):
                process.kill()
                process.wait()
    return took[WARM:]


async def _patiently(system: Grapevine | Nats, use: Callable[[Ask], Awaitable[None]]) -> None:
    for _ in range(50):  # the broker may not listen yet
        try:
            await system.ask(system.address, use)
            return
        except (OSError, grapevine.Unreachable):
            await asyncio.sleep(0.1)


def document(rounds: int, requests: int) -> dict[str, Any]:
    missing = [{"system": Nats.name, "reason": why_no_nats()}] if why_no_nats() else []
    systems = [system for name, system in SYSTEMS.items() if name != Nats.name or not missing]
    found: dict[str, list[list[float]]] = {system.name: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            found[system.name].append(measure(system(), requests))
    rows = [
        {
            "system": name,
            "p50_us": round(statistics.median(statistics.median(took) for took in runs)),
            "p99_us": round(statistics.median(sorted(took)[len(took) * 99 // 100] for took in runs)),
        }
        for name, runs in found.items()
    ]
    if not missing:
        rows[0]["of_nats_py"] = round(rows[0]["p50_us"] / rows[1]["p50_us"], 2)  # type: ignore[operator]
    return {"rows": rows, "missing": missing, "rounds": rounds, "requests": requests}


def main() -> None:
    parser = argparse.ArgumentParser("bench.requests")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--answer", nargs=2, metavar=("SYSTEM", "ADDRESS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        name, address = options.answer
        asyncio.run(SYSTEMS[name]().answer(address))
        return
    found = document(options.rounds, options.requests)
    if options.output == "json":
        print(json.dumps(found))
        return
    for row in found["rows"]:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    for gap in found["missing"]:
        print(f"not measured: {gap['system']} ({gap['reason']})")


if __name__ == "__main__":
    main()
