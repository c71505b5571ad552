"""A whole execution of a channel, as `pubctl channel serve` runs it: planned by a real back end, reports
fetched from its log, sets, the statement, rows encoded, put and committed on the back end's disk.

The driver is the one of `serve` with its steps one after the other, so that each has a time of its own.
Reports are published and sets subscribed by real clients before the clock runs. Of each size there are two
executions before those that count; a figure is the one that took the least.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grapevine
from bench.running import say
from grapevine import aio
from grapevine.client.session.driving import Driver, Execute, KeepRows, Runs
from pipeline.channels.encoding import runs_of
from pipeline.channels.execution import Executor
from pipeline.channels.tables import Tables
from tests.system.overlay import ROOT, Daemon, Overlay

WARM = 2
AT_ONCE = 64  # subscriptions that wait for their confirmation
FILE = """
[dataset.Reports]
filter = "class = 'report'"
columns = "id bigint, type string, lat double, lon double"
"""
CHANNEL = """
[channel.Near{sets}]
period = "1d"
new = "Reports"
parameters.type = "string"
parameters.lat = "double"
parameters.lon = "double"
parameters.km = "double"
sql = "{sql}"
"""


class Clocked(Executor):
    """Says how long each part of a job took."""

    def __init__(self, spark: Any, tables: Tables) -> None:
        super().__init__(spark, tables)
        self.spent: Counter[str] = Counter()

    def run(self, job: Execute) -> Runs:
        begin = time.perf_counter()
        session = self.session(job.channel.name)
        self.tables.bind(session, job.channel, job.plan, job.datasets)
        statement = self.statement(session, job.channel)
        text = self._over_sets(session, statement, job)
        bound = time.perf_counter()
        found = session.sql(text).toArrow()
        ran = time.perf_counter()
        runs = runs_of(found, statement.ordered, job.plan.at)
        self.spent += Counter(tables=bound - begin, statement=ran - bound, encode=time.perf_counter() - ran)
        return runs


class Executions:
    def __init__(self, client: grapevine.Client, spark: Any) -> None:
        self.client = client
        self.tables = Tables()
        self.executor = Clocked(spark, self.tables)
        self.driver = Driver("bench", 1)
        self.driver.start(time.time())
        self.spent: Counter[str] = Counter()
        self.rows = 0
        while not self.driver.channels:
            self._turn()

    def _turn(self) -> None:
        driver = self.driver
        asks, driver.asks = driver.asks, []
        for task, verb, body in asks:
            begin = time.perf_counter()
            answer = self.client.ask_back_end(verb, body, 120.0)
            self.spent[verb] += time.perf_counter() - begin
            driver.answered(task, answer, time.time())
        jobs, driver.jobs = driver.jobs, []
        for task, job in jobs:
            driver.done(task, self._do(job), time.time())

    def _do(self, job: Execute | KeepRows) -> Any:
        if isinstance(job, Execute):
            runs = self.executor.run(job)
            self.rows = sum(run.rows for run in runs)
            return runs
        begin = time.perf_counter()
        kept = self.tables.keep(job.dataset, job.rows, job.start)
        self.spent["keep"] += time.perf_counter() - begin
        return kept

    def execute(self, name: str) -> dict[str, Any]:
        """One execution now; its channel would be due once a day."""
        driver = self.driver
        before = driver.executed.get(name, 0)
        self.spent.clear()
        self.executor.spent.clear()
        begin = time.perf_counter()
        driver._begin(driver._execute(driver.channels[name]))
        while driver.executed.get(name, 0) == before:
            self._turn()
        whole = time.perf_counter() - begin
        parts = {**self.spent, **self.executor.spent}
        parts["other"] = whole - sum(parts.values())
        return {"s": whole, "rows": self.rows, "parts": {key: round(s, 3) for key, s in parts.items()}}


async def subscribed(back: Daemon, of: dict[str, dict[int, tuple[Any, ...]]]) -> list[aio.Client]:
    clients = []
    for channel, sets in of.items():  # a client each: it may have 10,000
        client = await aio.connect(back.address, name=channel, keys=str(back.keys))
        clients.append(client)
        gate = asyncio.Semaphore(AT_ONCE)

        async def subscribe(
            values: tuple[Any, ...], channel: str = channel, gate: Any = gate, client: Any = client
        ) -> None:
            async with gate:
                given = dict(zip(("type", "lat", "lon", "km"), values))
                await client.subscribe_channel(channel, given, timeout=120)

        await asyncio.gather(*(subscribe(values) for values in sets.values()))
        say(f"{len(sets)} sets are subscribed")
    return clients


def publish(client: grapevine.Client, rows: list[tuple[int, str, float, float]]) -> None:
    for number, kind, lat, lon in rows:
        client.publish({"class": "report", "id": number, "type": kind, "lat": lat, "lon": lon})
    client.flush(timeout=300)


def create(back: Daemon, path: Path, sql: str, sizes: list[int]) -> None:
    path.write_text(FILE + "".join(CHANNEL.format(sets=sets, sql=sql) for sets in sizes))
    words = ["-m", "tools.pubctl.main", "-b", back.address, "channel", "create", str(path), "--unchecked"]
    environment = {"GRAPEVINE_KEYS": str(back.keys), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, *words], env=environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def measure(spark: Any, sql: str, sizes: Any, sets_of: Any, reports_of: Any, rounds: int) -> list[Any]:
    """`sizes` are (sets, reports), each number of sets once."""
    best: dict[tuple[int, int], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, Overlay(Path(directory)) as overlay:
        overlay.start("back", broker={"roles": ["broker", "backend"]})
        back = overlay["back"]
        create(back, Path(directory) / "channels.toml", sql, [sets for sets, _ in sizes])
        loop = asyncio.new_event_loop()
        of = {f"Near{sets}": sets_of(reports_of(count), sets) for sets, count in sizes}
        people = loop.run_until_complete(subscribed(back, of))
        keys = str(back.keys)
        with (
            grapevine.connect(back.address, name="driver", keys=keys) as client,
            grapevine.connect(back.address, name="reporter", keys=keys) as publisher,
        ):
            executions = Executions(client, spark)
            for number in range(WARM + rounds):
                for sets, count in sizes:
                    executions.execute(f"Near{sets}")  # what was published for the other is new to it, too
                    publish(publisher, reports_of(count))
                    found = executions.execute(f"Near{sets}")
                    say(f"a whole execution, {sets} sets x {count} reports: {found['s']:.2f} s, {found}")
                    known = best.get((sets, count))
                    if number >= WARM and (known is None or found["s"] < known["s"]):
                        best[sets, count] = found
        for one in people:
            loop.run_until_complete(one.close())
        loop.close()
    return [
        {"sets": sets, "reports": count, "way": "whole execution", **best[sets, count]}
        for sets, count in sizes
    ]
