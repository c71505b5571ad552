"""Channels under faults: a back end, brokers, the library's own driver, subscribers that come and go.

The first broker is the back end and the coordinator, which moves subscribers all the time. Now and then a
channel is replaced: its next version asks the same in other words, and must go on. The driver is the
sans-IO class that `pubctl channel serve` runs; in Spark's place a function evaluates `id > :low` over the
rows it was given, after some time. Judged at rest:

- feeding: what any subscription at the back end would be owed is in the log, none twice;
- execution: the results of a set are the reports that its executions saw as new, each once, in order, and
  among them all that came to the log after a subscriber of it was confirmed;
- delivery: a subscriber has every row after the position it began at, once and in order. One that forgot
  its position when it was killed may see again what it had not acknowledged, and misses nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from grapevine.client.session import SessionSettings
from grapevine.client.session.channels import Ask, ChannelSubscriptionState
from grapevine.client.session.driving import Driver, Execute, KeepRows, Runs
from grapevine.filters import parse
from grapevine.wire.catalog import Channel, Column, Comparison, Dataset, Direct, Term
from grapevine.wire.channels import CHANNELS, execution_of, in_whole, position
from grapevine.wire.driving import run_of
from grapevine.wire.handover import HANDOVER
from grapevine.wire.parameters import Parameter
from overlay.channels.executions import store_name
from overlay.channels.store import Store, memory_disks
from overlay.channels.verbs import ChannelVerbs, Definitions
from overlay.core import Core
from overlay.outbox import Kept
from overlay.profiles import Start, build
from overlay.settings import BalancingSettings
from tools.simulator.apps import App
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.scenario import Scenario, draw, draw_float
from tools.simulator.simulation import STEP_S, Simulation
from tools.simulator.workloads import workload

REPORTS = Dataset("Reports", "class = 'report'", (("id", "bigint"),))
NEW = Channel(
    "Above", "SELECT id FROM Reports WHERE id > :low", (Parameter("low", "bigint"),), 1.0, ("Reports",)
)
LIVE = msgspec.structs.replace(NEW, name="Live", period_s=0.0)
ABOVE = Direct((Column("id", "id", "bigint"),), (Comparison("id", "bigint", ">", Term("low")),), ())
DIRECT = msgspec.structs.replace(LIVE, name="Direct", direct=ABOVE)  # no driver has a part in it
ALL = msgspec.structs.replace(NEW, name="All", new=())  # everything each time: changes are delivered
# Every now and then somebody is to go elsewhere.
BALANCING = BalancingSettings(
    mode="on", alpha=0.05, beta=1e-9, theta=1e-9, gamma=1.0, moves=100, in_flight=3, cooldown_s=2.0,
    check_s=1.5, report_s=0.5, window_s=5.0,
)  # fmt: skip
CRANK_S = 0.03
VERBS = {
    "plan": "planning", "sets": "planned", "rows": "planned", "state": "planned", "put": "put",
    "commit": "committing",
}  # fmt: skip
# Who dies at which step of an execution; three of them in a seed, all of them in six.
STRIKING = list(
    itertools.product(
        ("driver", "back", "edge"), ("planning", "planned", "running", "put", "committing", "told")
    )
)
STRIKES = 3
LOWS = (0, 50, 100, 150, 1000)


class Turning(App):
    """An application that does something every now and then while it lives."""

    def start(self) -> None:
        self.host.start()
        assert self.host.session is not None
        self.host.session.channels.kept = True
        self.begin()
        self.host.world.after(CRANK_S, self._turn, self.host.life)

    def _turn(self, life: int) -> None:
        if life == self.host.life and self.host.session is not None:
            if self.host.paused_until <= self.host.world.now:
                self.turn()
                self.host.pump()
            self.host.world.after(CRANK_S, self._turn, life)

    def begin(self) -> None: ...
    def turn(self) -> None: ...


class Reporter(Turning):
    """Publishes reports with rising ids."""

    def begin(self) -> None:
        self._due = 0.0
        self.host.advertise(parse("class = 'report'"))

    def turn(self) -> None:
        if self.active and self.host.world.now >= self._due:
            self._due = self.host.world.now + self.random.expovariate(1 / self.every_s)
            for _ in range(draw(self.load.burst, self.random)):
                self.host.publish({"class": "report", "id": self.random.randrange(200)})


class DriverApp(Turning):
    """`aim` is who is to be killed, and at which step of an execution; `on_aim` does it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.aim = ("", "")
        self.on_aim: Callable[[str, str], None] = lambda who, step: None

    def steps(self, executed: int) -> set[str]:
        """Of the executions under way; `executed` were committed before this turn."""
        found = {"running" for _, _, job in self._jobs if isinstance(job, Execute)}
        found |= {VERBS[ask.message.verb] for _, ask in self._asks if ask.message.verb in VERBS}
        return found | ({"told"} if sum(self.driver.executed.values()) > executed else set())

    def begin(self) -> None:
        self.driver = Driver(self.host.name, self.host.incarnation & 0xFFFFFF)
        self.rows: list[tuple[int, int]] = []  # (position, id) of the one dataset
        self._asks: list[tuple[int, Ask]] = []
        self._jobs: list[tuple[float, int, Execute | KeepRows]] = []
        self.driver.start(self.host.clock())

    def turn(self) -> None:
        session, now = self.host.session, self.host.clock()
        assert session is not None
        executed = sum(self.driver.executed.values())
        for task, ask in list(self._asks):
            if ask.answer is not None:
                self._asks.remove((task, ask))
                self.driver.answered(task, ask.answer, now)
        for due, task, job in list(self._jobs):
            if due <= self.host.world.now:
                self._jobs.remove((due, task, job))
                self.driver.done(task, self._do(job), now)
        self.driver.tick(now)
        asks, self.driver.asks = self.driver.asks, []
        self._asks += [(task, session.channels.ask(verb, body)) for task, verb, body in asks]
        jobs, self.driver.jobs = self.driver.jobs, []
        for task, job in jobs:
            self._jobs.append((self.host.world.now + self.random.uniform(0.0, 0.4), task, job))
        who, step = self.aim
        if step in self.steps(executed):
            self.aim = ("", "")
            self.host.world.after(0.0, lambda _: self.on_aim(who, step), None)  # what it asks is on its way

    def _do(self, job: Execute | KeepRows) -> Any:
        if isinstance(job, KeepRows):
            known = {at for at, _ in self.rows}
            for at, row in job.rows:
                if at not in known:
                    self.rows.append((at, msgspec.msgpack.decode(row.attributes)["id"]))
            return len(self.rows)
        if self.random.random() < 0.05:
            return RuntimeError("a job that fails")
        ((_, after, up_to),) = job.plan.cuts
        after = after if job.channel.new else 0
        fresh = [each for at, each in sorted(self.rows) if after < at <= up_to]
        runs: Runs = []
        for be, form in sorted(job.sets.items()):
            (low,) = msgspec.msgpack.decode(form)
            found = [msgspec.msgpack.encode((job.plan.at, {"id": each})) for each in fresh if each > low]
            if found:
                runs.append(run_of(be, found))
        return runs

    @property
    def idle(self) -> bool:
        return self.host.up and self.host.idle and bool(self.driver.lease)


class Subscriber(Turning):
    """Has some sets of the channels. One that remembers goes on after its own position; some also subscribe
    to what others publish, which the oracle judges as anybody's, also while they move."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.remembers = self.random.random() < 0.5
        self.mixed = self.random.random() < 0.5
        self.seen: dict[tuple[str, int], list[tuple[int, int]]] = {}  # (position, id) in order of arrival
        self.since: dict[tuple[str, int], int] = {}
        self.logged: Callable[[], int] = lambda: 0  # reports in the log by now
        self.owed_after: dict[tuple[str, int], int] = {}  # reports in the log when it was confirmed
        self.states: dict[tuple[str, int], ChannelSubscriptionState] = {}
        self.wrong: list[str] = []
        count = min(max(self.wanted, 1), len(LOWS))
        self.keys = [
            (name, low)
            for name in ("Above", "Live", "Direct", "All")
            for low in self.random.sample(LOWS, count)
        ]

    def begin(self) -> None:
        assert self.host.session is not None
        for key in self.keys:
            seen = self.seen.get(key)
            after = seen[-1][0] if seen and self.remembers else None
            channels = self.host.session.channels
            self.states[key] = channels.subscribe(key[0], {"low": key[1]}, after, self.host.clock(), None)
        self._last: dict[tuple[str, int], int] = {}  # in this life
        if self.mixed:
            low = self.random.choice(LOWS)
            self.host.subscribe(parse(f"class = 'report' and id > {low}"))

    def turn(self) -> None:
        session = self.host.session
        assert session is not None
        if self.host.lazy_until > self.host.world.now:
            return
        for key, state in self.states.items():
            if state.error is not None:
                self.wrong.append(f"{self.host.name} {key}: {state.error}")
                continue
            if state.confirmed:
                self.since.setdefault(key, state.since)
                self.owed_after.setdefault(key, self.logged())
            for result in session.channels.take(state, 100):
                last = self._last.get(key, -1)
                if result.position <= last:
                    self.wrong.append(f"{self.host.name} {key}: position {result.position} after {last}")
                self._last[key] = result.position
                self.seen.setdefault(key, []).append((result.position, result.row["id"]))


class ChannelSimulation(Simulation):
    def __init__(self, scenario: Scenario, seed: int, *, codec: bool | None = None) -> None:
        self.disks = memory_disks()
        super().__init__(scenario, seed, codec=codec)
        self.faults.aims = [each.kind for each in (*CHANNELS, *HANDOVER)]

    def _build(self, broker: BrokerHost, incarnation: int, kept: Kept) -> Core:
        first = broker.index == 0
        if first:
            for disk in self.disks:
                disk.crash()  # type: ignore[union-attr]
        settings = self.form.settings(
            self.scenario, self.world.stream("settings"), self._addresses[broker.index]
        )
        settings = msgspec.structs.replace(settings, balancing=BALANCING)
        core = build(
            Start(
                broker.name, incarnation, settings, self.world.stream(f"core {broker.name} {incarnation}"),
                (broker.address,), self.matcher, kept,
                frozenset(("broker", "coordinator", "backend") if first else ("broker",)),
                disks=self.disks if first else None, backend="" if first else "sim://b0",
            )
        )  # fmt: skip
        self.oracle.flooding = settings.tree.routing == "flooding"
        self.watcher.attach(broker, core)
        return core

    def start(self) -> None:
        """The datasets are there before anybody publishes: what came before them would not be owed."""
        broker = self.brokers[0]
        broker.start()
        assert broker.core is not None
        verbs = next(b for b in broker.core.behaviours if isinstance(b, ChannelVerbs))
        verbs.create(Definitions([REPORTS], [NEW, LIVE, DIRECT, ALL]), False, broker.clock())
        self.feed = self.oracle.announce_kept(0, parse(REPORTS.filter), -1)
        broker.wake()
        self.world.run(self.world.now + 0.5)  # on disk: a catalog that was never confirmed may be lost
        super().start()
        chance = self.world.stream("replacing")
        for _ in range(chance.randrange(3)):
            at = self.world.now + chance.uniform(1.0, self.scenario.seconds)
            self.world.at(at, self._replace, chance.choice((NEW, LIVE, DIRECT, ALL)))
        chance = self.world.stream("striking")
        for number in range(STRIKES):
            aim = STRIKING[(self.world.seed * STRIKES + number) % len(STRIKING)]
            self.world.at(self.world.now + chance.uniform(0.5, self.scenario.seconds), self._aim, aim)

    def _aim(self, aim: tuple[str, str]) -> None:
        (driver,) = (app for app in self.apps if isinstance(app, DriverApp))
        driver.aim, driver.on_aim = aim, self._strike

    def _strike(self, who: str, step: str) -> None:
        """Whoever it is dies at this step of an execution, unless faults are over."""
        others = [broker for broker in self.brokers[1:] if broker.up]
        (driver,) = (app for app in self.apps if isinstance(app, DriverApp))
        if self.faults.over:
            return
        if who == "driver":
            struck = driver.host.up
            driver.host.crash()
            self.world.after(1.0, self.faults._client_restart, driver)
        elif who == "back":
            struck = self.brokers[0].up and self.faults._crash_if_allowed(self.brokers[0])
        else:
            chance = self.world.stream("struck")
            struck = bool(others) and self.faults._crash_if_allowed(chance.choice(others))
        self.watcher.crashes_by_step[f"{who}-{step}"] += struck

    def _replace(self, channel: Channel) -> None:
        broker = self.brokers[0]
        if broker.core is None or broker.paused_until > self.world.now:
            return
        verbs = next(b for b in broker.core.behaviours if isinstance(b, ChannelVerbs))
        assert verbs.desk is not None
        version = verbs.desk.store.catalog.channels[channel.name].version
        other = msgspec.structs.replace(channel, sql=f"{channel.sql} AND {version} = {version}")
        verbs.create(Definitions([], [other]), True, broker.clock())
        broker.wake()

    def _make_apps(self, random: Random) -> list[App]:
        clients = self.scenario.clients
        kinds = [
            *[Reporter] * draw(clients.publishers, random),
            *[Subscriber] * draw(clients.subscribers, random),
            DriverApp,
        ]
        apps = [self._channel_app(number, kind, random) for number, kind in enumerate(kinds)]
        for app in apps:
            if isinstance(app, Subscriber):
                app.logged = lambda: self.disks.log.end(REPORTS.name)
        return apps

    def _channel_app(self, number: int, kind: type[Turning], random: Random) -> App:
        scenario = self.scenario
        homes = random.sample(self.brokers, min(scenario.clients.brokers, len(self.brokers)))
        if kind is DriverApp:
            homes = self.brokers[:1]
        host = ClientHost(
            self.world,
            self.network,
            f"c{number}",
            tuple(broker.address for broker in homes),
            self.oracle,
            random=self.world.stream(f"host c{number}"),
            digest=self.digest,
            settings=SessionSettings(publish_window=64, receive_window=64, attach_s=2.0, silent_s=4.0),
        )
        self.watcher.add_client(host)
        return kind(
            host,
            workload(scenario.load.kind),
            self.world.stream(f"app c{number}"),
            scenario.load,
            publishes=False,
            subscriptions=draw(scenario.clients.subscriptions, random),
            every_s=draw_float(scenario.load.every_s, random),
        )

    # --- judging ------------------------------------------------------------------------------------------

    def phases(self) -> None:
        self.safety()
        self.settle()
        self.world.run(self.world.now + 10.0)  # the last executions
        if not self.world.run_while(self._behind, self.world.now + self.scenario.heal_s, STEP_S):
            self.oracle.violation("results are still under way: " + ", ".join(self._missing()[:5]))
        self._judge()

    @property
    def store(self) -> Store:
        core = self.brokers[0].core
        assert core is not None
        verbs = next(b for b in core.behaviours if isinstance(b, ChannelVerbs))
        assert verbs.desk is not None
        return verbs.desk.store

    def _subscribers(self) -> list[Subscriber]:
        return [app for app in self.apps if isinstance(app, Subscriber)]

    def _stored(self, name: str, low: int) -> list[tuple[int, int]]:
        """(position, id) of all results that are kept of a set."""
        store = self.store
        version = store.catalog.channels[name].version
        mine = [
            (*known.kept.earlier, (version, be))
            for be, known in store.interest.by_be.items()
            if (known.kept.channel, known.kept.version) == (name, version)
            and msgspec.msgpack.decode(known.kept.form) == [low]
        ]
        return [
            (position(execution, row), msgspec.msgpack.decode(packed)[1]["id"])
            for ids in mine
            for where, be in ((store_name(name, each), be) for each, be in ids)
            for execution in store.results.executions(where)
            for row, packed in enumerate(store.results.read(where, execution, be), 1)
        ]

    def _missing(self) -> list[str]:
        found = [text for app in self._subscribers() for key in app.keys if (text := self._lacks(app, key))]
        log, progress = self.store.log, self.store.executions.progress
        behind = [
            n for n in progress if progress[n].cuts.get("Reports", log.end("Reports")) < log.end("Reports")
        ]
        return found + [f"{name} has not seen all reports" for name in behind]

    def _lacks(self, app: Subscriber, key: tuple[str, int]) -> str:
        if key not in app.since:
            return f"{app.host.name} {key} is not confirmed"
        due = [at for at, _ in self._due(app, key)]
        if key[0] == "All" and len(due) < len(self._wanted(key)):
            return f"{key} has not seen all reports"
        absent = set(due) - {at for at, _ in app.seen.get(key, ())}
        return f"{app.host.name} {key} lacks {len(absent)} of {len(due)}" if absent else ""

    def _due(self, app: Subscriber, key: tuple[str, int]) -> list[tuple[int, int]]:
        """(position, id) of all that it is to have had since it was confirmed. One that came when its set had
        a result already has that as a whole first: here rows are never removed, so it is all that there was
        until then."""
        since, stored = app.since[key], self._stored(*key)
        due = [each for each in stored if each[0] > since]
        if not in_whole(since):
            return due
        before = [each for at, each in stored if at <= since]
        return [(since + number, each) for number, each in enumerate(before, 1)] + due

    def _behind(self) -> bool:
        return bool(self._missing())

    def _judge(self) -> None:
        self._judge_feeding()
        for app in self._subscribers():
            for text in app.wrong:
                self.oracle.violation(text)
            for key in app.keys:
                self._judge_delivery(app, key)
                self._judge_execution(app, key)
        self.oracle.deliveries = sum(len(seen) for app in self._subscribers() for seen in app.seen.values())

    def _judge_feeding(self) -> None:
        """A dataset is owed what any subscription at the back end is (`Oracle.judge`), and each once."""
        log = self.store.log
        rows = log.read("Reports", 0, log.end("Reports"), 1 << 40)
        fed = [int.from_bytes(read.row.payload, "little") for read in rows]
        if len(set(fed)) != len(fed):
            self.oracle.violation(f"{len(fed) - len(set(fed))} reports are in the log twice")
        for number in fed:
            self.oracle.in_stream(self.feed, number)
        self.oracle.judge()

    def _judge_execution(self, app: Subscriber, key: tuple[str, int]) -> None:
        """A set that was there from the first execution on saw every report that matches, once, in order."""
        wanted = self._wanted(key)
        got = [each for _, each in self._stored(*key)]
        if got != wanted[len(wanted) - len(got) :]:
            self.oracle.violation(f"{key}: results are not the reports since its first execution")
        if key in app.owed_after and len(got) < len(owed := self._wanted(key, app.owed_after[key])):
            self.oracle.violation(f"{app.host.name} {key}: {len(got)} results, {len(owed)} since confirmed")

    def _wanted(self, key: tuple[str, int], after: int = 0) -> list[int]:
        """Reports that match, of those after a position of the log."""
        log = self.store.log
        rows = log.read("Reports", after, log.end("Reports"), 1 << 40)
        ids = [msgspec.msgpack.decode(read.row.attributes)["id"] for read in rows]
        return [each for each in ids if each > key[1]]

    def _judge_delivery(self, app: Subscriber, key: tuple[str, int]) -> None:
        since = app.since.get(key)
        if since is None:
            self.oracle.violation(f"{app.host.name} {key} was never confirmed")
            return
        due, seen = self._due(app, key), app.seen.get(key, [])
        if key[0] == "All" and (ids := {each for _, each in seen}) != set(self._wanted(key)):
            self.oracle.violation(f"{app.host.name} {key}: {len(ids)} reports, not the whole result")
        if app.remembers:
            if seen != due:
                first = next(
                    (i for i, pair in enumerate(zip(seen, due)) if pair[0] != pair[1]),
                    min(len(seen), len(due)),
                )
                at = execution_of(due[first][0]) if first < len(due) else "the end"
                self.oracle.violation(
                    f"{app.host.name} {key}: {len(seen)} rows, due {len(due)}, differ at {at}"
                )
        elif set(seen) != set(due):
            self.oracle.violation(f"{app.host.name} {key}: {len(set(due) - set(seen))} rows are missing")
