"""`pubctl channel demo`: emergencies in Helsinki, from the first broker to the judgement over every row.

A back end that is the coordinator too, five brokers about the city, Spark, hundreds of subscribers placed at
the nearest broker. Reports and locations are published, channels run, and in the middle of it balancing is
switched on: subscribers move to other brokers and miss nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import grapevine
from grapevine import aio
from tools.pubctl.channel import Channel
from tools.pubctl.crew import Crew
from tools.pubctl.demo.helsinki import BROKERS, CHANNELS, City, Person, Report
from tools.pubctl.demo.stage import free_ports
from tools.pubctl.topology import BrokerPlan, Topology

BACK = "back"
ATTACH_AT_ONCE = 16
WALK_S = 2.0
LOOK_S = 1.0
QUIET_S = 3.0
PATIENCE_S = 120.0
BALANCE = {
    "mode": "on",
    "beta": 1.0,
    "theta": 1.0,
    "gamma": 9.0,
    "moves": 40,
    "check_s": 2.0,
    "window_s": 15.0,
}


class Heard:
    """What came for one person."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.place = person.home
        self.near: list[int] = []
        self.near_me: list[int] = []
        self.last: dict[str, Any] = {}
        self.broker = ""
        self.failure: Exception | None = None

    def judge(self, reports: list[Report]) -> bool:
        """Every report that is due around home, once and in order; around itself none twice."""
        due = [report.id for report in reports if self.person.wants(report, *self.place)]
        return self.near == due and len(set(self.near_me)) == len(self.near_me) and self.failure is None


class Audience:
    """All subscribers, in a thread with an event loop of its own."""

    def __init__(self, city: City, address: str, keys: Path) -> None:
        self.heard = [Heard(person) for person in city.people]
        self._address, self._keys = address, str(keys)
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_until_complete(self._all())

    async def _all(self) -> None:
        gate = asyncio.Semaphore(ATTACH_AT_ONCE)
        await asyncio.gather(*(self._one(heard, gate) for heard in self.heard))

    async def _one(self, heard: Heard, gate: asyncio.Semaphore) -> None:
        person = heard.person
        try:
            async with gate:
                client = await aio.connect(
                    self._address, name=person.name, keys=self._keys, place=True, location=person.home,
                    timeout=PATIENCE_S,
                )  # fmt: skip
                asked = {"type": person.type, "lat": person.home[0], "lon": person.home[1]}
                near = await client.subscribe_channel("EmergenciesNear", asked, timeout=PATIENCE_S)
                heard.place = (near.parameters["lat"], near.parameters["lon"])
                readers = [self._read(near, heard.near, heard)]
                if person.walks:
                    me = await client.subscribe_channel(
                        "EmergenciesNearMe", {"user": person.name}, timeout=PATIENCE_S
                    )
                    readers.append(self._read(me, heard.near_me, heard))
                heard.broker = client.broker
            tasks = [asyncio.create_task(reader) for reader in readers]
            await self._end.wait()
            for task in tasks:
                task.cancel()
            heard.broker = client.broker
            await client.close()
        except Exception as error:  # told with the judgement
            heard.failure = error

    async def _read(self, results: Any, into: list[int], heard: Heard) -> None:
        async for result in results:
            into.append(result.row["id"])
            if "shelters" in result.row:
                heard.last = result.row

    @property
    def here(self) -> int:
        return sum(bool(each.broker or each.failure) for each in self.heard)

    @property
    def rows(self) -> int:
        return sum(len(each.near) + len(each.near_me) for each in self.heard)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)


class Scene:
    """Brokers in a directory; ended by `down`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.keys = directory / "keys"
        self.crew = Crew(directory, self.keys)
        ports = iter(free_ports(1 + len(BROKERS)))
        back = BrokerPlan(BACK, listen=[f"tcp://127.0.0.1:{next(ports)}"])
        back.sections = {
            "broker": {"roles": ["broker", "backend", "coordinator"]},
            "balancing": {"assign": "nearest", "report_s": 1.0},
        }
        plans = [back]
        for name, place in BROKERS.items():
            plan = BrokerPlan(name, listen=[f"tcp://127.0.0.1:{next(ports)}"], neighbours=[BACK])
            plan.sections = {"broker": {"backend": back.address, "location": list(place)}}
            plans.append(plan)
        self.topology = Topology(plans, [], {"links": {"ping_s": 2.0, "redial_s": 0.2}})
        self.address = back.address

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        with Channel(self.address, 30.0, self.keys) as channel:
            return channel.ask(verb, **arguments).body

    def create(self, city: City) -> Path:
        from pipeline.channels.files import read_file

        path = self.directory / "emergencies.toml"
        path.write_text(CHANNELS)
        shelters = self.directory / "shelters.csv"
        shelters.write_text(city.shelters_file())
        found = read_file(path, {})
        datasets = [
            each if each.fed else msgspec.structs.replace(each, file=str(shelters))
            for each in found.datasets.values()
        ]
        definitions = {"datasets": datasets, "channels": list(found.channels.values())}
        self.ask("channel.create", definitions=msgspec.json.encode(definitions).decode())
        return path


class Driving:
    """The driver beside the play, in a thread."""

    def __init__(self, spark: Any, client: grapevine.Client) -> None:
        from pipeline.channels.serve import Service

        self._stopped = False
        self.ready = threading.Event()
        self.said: list[str] = []
        service = Service(client, spark, 2, self.said.append, lambda: self._stopped, self.ready.set)
        self._thread = threading.Thread(target=service.run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._thread.join(30)


class Play:
    def __init__(self, city: City, scene: Scene, seconds: float, rate: float) -> None:
        self.city = city
        self.scene = scene
        self.seconds = seconds
        self.rate = rate
        self.reports: list[Report] = []
        self.looks: list[dict[str, Any]] = []  # what the coordinator shows, second by second
        self.placed: dict[str, int] = {}

    def run(self, audience: Audience, client: grapevine.Client, tell: Callable[[int, int], None]) -> None:
        begun = time.monotonic()
        balanced = False
        next_walk = next_look = begun
        while (now := time.monotonic()) < begun + self.seconds:
            while len(self.reports) < (now - begun) * self.rate:
                self._report(client)
            if now >= next_walk:
                next_walk += WALK_S
                self._walk(client)
            if now >= next_look:
                next_look = now + LOOK_S
                self._look(now - begun)
                tell(len(self.reports), audience.rows)
            if not balanced and now >= begun + self.seconds / 2:
                balanced = True
                self.scene.ask("balance.set", **BALANCE)
            time.sleep(0.02)
        client.flush(timeout=PATIENCE_S)
        self._await_quiet(audience, begun, tell)

    def warm_up(self) -> None:
        """The first executions make Spark load and plan everything: they are not what is to be seen."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not all(self._executed().values()):
            time.sleep(LOOK_S)

    def _report(self, client: grapevine.Client) -> None:
        report = self.city.report(len(self.reports) + 1)
        self.reports.append(report)
        text = f"{report.type} number {report.id}: keep away, help is coming"
        client.publish({"class": "report", **report._asdict(), "text": text})

    def _walk(self, client: grapevine.Client) -> None:
        for person in self.city.people:
            if person.walks:
                person.walk(WALK_S)
                lat, lon = person.at
                client.publish({"class": "location", "user": person.name, "lat": lat, "lon": lon})

    def _look(self, at_s: float) -> None:
        self.looks.append({"at_s": round(at_s, 1), **self.scene.ask("balance.show")})

    def _executed(self) -> dict[str, int]:
        return {row["name"]: row["executed"] for row in self.scene.ask("channel.ls")["channels"]}

    def _await_quiet(self, audience: Audience, begun: float, tell: Callable[[int, int], None]) -> None:
        """An execution that was planned before the last report may be under way; the next one sees it."""
        enough = {name: executed + 2 for name, executed in self._executed().items()}
        deadline = time.monotonic() + PATIENCE_S
        rows, since = -1, time.monotonic()
        while time.monotonic() < deadline:
            due = all(executed >= enough[name] for name, executed in self._executed().items())
            if audience.rows != rows or self.looks[-1]["moving"] or not due:
                rows, since = audience.rows, time.monotonic()
            if time.monotonic() > since + QUIET_S:
                return
            time.sleep(LOOK_S)
            self._look(time.monotonic() - begun)
            tell(len(self.reports), audience.rows)

    def summary(self, audience: Audience) -> dict[str, Any]:
        wrong = [heard for heard in audience.heard if not heard.judge(self.reports)]
        flowing = [look for look in self.looks if look["mean_bytes_s"] > 0]
        half = [look for look in flowing if look["at_s"] < self.seconds / 2]
        after = [look for look in flowing if look["at_s"] <= self.seconds]
        return {
            "brokers": 1 + len(BROKERS),
            "subscribers": len(audience.heard),
            "reports": len(self.reports),
            "rows": audience.rows,
            "exact": not wrong,
            "wrong": [heard.person.name for heard in wrong][:20],
            "placed": self.placed,
            "ended": {
                row["broker"]: row["subscribers"] for row in self.looks[-1]["brokers"] if row["serves"]
            },
            "cov_nearest": half[-1]["cov"] if half else None,
            "cov_balanced": after[-1]["cov"] if after else None,
            "moved": self.looks[-1]["moved"],
            "failed": self.looks[-1]["failed"],
            "map": "ONE" if self.city.real else "made up",
        }
