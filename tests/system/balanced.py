"""Real daemons with a coordinator, and a driver without Spark: balancing does not depend on it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import grapevine
from grapevine import aio
from grapevine.client.session.driving import Driver, Execute, KeepRows, Runs
from grapevine.wire.driving import run_of
from tests.system.overlay import ROOT, Overlay
from tools.pubctl.channel import Channel

FILE = """
[dataset.Reports]
filter = "class = 'report'"
columns = "id bigint"
[channel.Above]
period = "1s"
new = "Reports"
parameters.low = "bigint"
sql = "SELECT r.id FROM Reports r WHERE r.id > :low"
"""
TEXT = "x" * 200  # of each row, so that something flows
MIXED = 4  # of so many one has a subscription beside its channels
EDGES = {
    "north": (60.25, 24.95),
    "east": (60.20, 25.10),
    "south": (60.16, 24.94),
    "west": (60.20, 24.75),
    "far": (60.30, 25.05),
}


class Plain:
    """Runs `id > :low` in Python where `pubctl channel serve` has Spark; plans and commits are the same."""

    def __init__(self, client: grapevine.Client) -> None:
        self.client = client
        self.driver = Driver("plain", 1)
        self.rows: list[tuple[int, int]] = []
        self.stopped = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        driver = self.driver
        driver.start(time.time())
        while not self.stopped:
            asks, driver.asks = driver.asks, []
            for task, verb, body in asks:
                driver.answered(task, self.client.ask_back_end(verb, body, 60.0), time.time())
            jobs, driver.jobs = driver.jobs, []
            for task, job in jobs:
                driver.done(task, self._do(job), time.time())
            if not driver.asks and not driver.jobs:
                time.sleep(0.02)
            driver.tick(time.time())

    def _do(self, job: Execute | KeepRows) -> Any:
        if isinstance(job, KeepRows):
            self.rows += [(at, msgspec.msgpack.decode(row.attributes)["id"]) for at, row in job.rows]
            return len(self.rows)
        ((_, after, up_to),) = job.plan.cuts
        fresh = [each for at, each in self.rows if after < at <= up_to]
        runs: Runs = []
        for be, form in sorted(job.sets.items()):
            (low,) = msgspec.msgpack.decode(form)
            rows = [msgspec.msgpack.encode((job.plan.at, {"id": i, "text": TEXT})) for i in fresh if i > low]
            if rows:
                runs.append(run_of(be, rows))
        return runs

    def stop(self) -> None:
        self.stopped = True
        self.thread.join(60)


class Town(Overlay):
    """`back` is back end and coordinator; the others are where people live."""

    def __init__(self, directory: Path, edges: int = len(EDGES)) -> None:
        super().__init__(directory, links={"ping_s": 5.0, "redial_s": 0.2, "greet_s": 10.0})
        self.directory = directory
        self.edges = dict(list(EDGES.items())[:edges])

    def __enter__(self) -> Town:
        roles = {"roles": ["broker", "backend", "coordinator"]}
        self.start("back", broker=roles, balancing={"assign": "nearest", "report_s": 1.0})
        for name, place in self.edges.items():
            known = {"backend": self["back"].address, "location": list(place)}
            self.start(name, parent="back", broker=known)
        path = self.directory / "channels.toml"
        path.write_text(FILE)
        self.pubctl("channel", "create", str(path), "--unchecked")
        return self

    def pubctl(self, *words: str) -> Any:
        command = [sys.executable, "-m", "tools.pubctl.main", *words]
        command += ["-b", self["back"].address, "-o", "json", "-t", "30s"]
        environment = {"GRAPEVINE_KEYS": str(self["back"].keys), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
        return msgspec.json.decode(done.stdout)

    def balance(self, verb: str = "show", **settings: Any) -> Any:
        with Channel(self["back"].address, 30.0, self["back"].keys) as channel:
            return channel.ask(f"balance.{verb}", **settings).body

    @contextmanager
    def driven(self) -> Iterator[Plain]:
        with grapevine.connect(self["back"].address, name="driver", keys=str(self["back"].keys)) as client:
            driver = Plain(client)
            try:
                yield driver
            finally:
                driver.stop()


class Person:
    """Subscribes to two sets from where it is, one in four also to the reports; keeps what came."""

    def __init__(self, number: int, chance: Random, centre: tuple[float, float]) -> None:
        self.name = f"p{number}"
        self.where = (chance.gauss(centre[0], 0.01), chance.gauss(centre[1], 0.02))
        self.lows = chance.sample(range(40), 2)
        self.rows: dict[int, list[tuple[int, int]]] = {low: [] for low in self.lows}
        self.reports: list[int] | None = None if number % MIXED else []
        self.brokers: list[str] = []
        self.failure: Exception | None = None

    async def live(self, address: str, keys: str, subscribed: asyncio.Semaphore, gate: asyncio.Event) -> None:
        try:
            async with subscribed:
                client = await aio.connect(
                    address, name=self.name, keys=keys, place=True, location=self.where, timeout=120
                )
                wanted = [(low, await client.subscribe_channel("Above", {"low": low}, timeout=120))
                          for low in self.lows]  # fmt: skip
                reports = [await client.subscribe("class = 'report'", timeout=120)] * (
                    self.reports is not None
                )
                self.brokers.append(client.broker)
            gate_ = asyncio.create_task(gate.wait())
            readers = [asyncio.create_task(self._read(low, sub)) for low, sub in wanted]
            readers += [asyncio.create_task(self._hear(sub)) for sub in reports]
            ended, _ = await asyncio.wait([gate_, *readers], return_when=asyncio.FIRST_COMPLETED)
            for reader in readers:
                reader.cancel()
            for one in ended:
                one.result()
            self.brokers.append(client.broker)
            await client.close()
        except Exception as error:
            self.failure = error

    async def _read(self, low: int, results: Any) -> None:
        async for result in results:
            self.rows[low].append((result.position, result.row["id"]))

    async def _hear(self, reports: Any) -> None:
        assert self.reports is not None
        async for message in reports:
            self.reports.append(message.attributes["id"])


class People:
    """All of them in a thread with an event loop of its own."""

    def __init__(self, people: list[Person], address: str, keys: str) -> None:
        self.people = people
        self._address, self._keys = address, keys
        self._loop = asyncio.new_event_loop()
        self._gate: asyncio.Event | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self._loop.run_until_complete(self._live())

    async def _live(self) -> None:
        self._gate, at_once = asyncio.Event(), asyncio.Semaphore(16)
        await asyncio.gather(*(p.live(self._address, self._keys, at_once, self._gate) for p in self.people))

    @property
    def here(self) -> int:
        return sum(bool(person.brokers) for person in self.people)

    def check(self) -> None:
        for person in self.people:
            if person.failure is not None:
                raise person.failure

    def stop(self) -> None:
        assert self._gate is not None
        self._loop.call_soon_threadsafe(self._gate.set)
        self.thread.join(120)
        self.check()

    def at(self) -> Counter[str]:
        return Counter(person.brokers[-1] for person in self.people if person.brokers)


class Publisher:
    """Reports one after the other until it is stopped."""

    def __init__(self, client: grapevine.Client, every_s: float) -> None:
        self.client = client
        self.every_s = every_s
        self.count = 0
        self.stopped = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.stopped:
            self.client.publish({"class": "report", "id": self.count})
            self.count += 1
            time.sleep(self.every_s)
        self.client.flush(timeout=120)

    def stop(self) -> int:
        self.stopped = True
        self.thread.join(120)
        return self.count


def complete(people: list[Person], count: int) -> bool:
    rows = all(len(rows) >= count - low - 1 for person in people for low, rows in person.rows.items())
    return rows and all(len(p.reports) >= count for p in people if p.reports is not None)


def mistakes(people: list[Person], count: int) -> list[str]:
    """Whoever has not every report above its parameter, once and in order."""
    found = []
    for person in people:
        if person.reports not in (None, list(range(count))):
            found.append(f"{person.name}: {len(person.reports or ())} reports of {count}, or not in order")
        for low, rows in person.rows.items():
            got, due = [each for _, each in rows], list(range(low + 1, count))
            if got != due:
                absent, more = len(set(due) - set(got)), len(got) - len(set(got))
                found.append(
                    f"{person.name} above {low}: {absent} missing, {more} twice, {len(got)} of {len(due)}"
                )
    return found
