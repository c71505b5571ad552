"""One run: a world from a scenario and a seed, through its phases.

Safety: load and faults, judged by the oracle as it happens. Liveness: everything is healed; the overlay
must come to rest, everything must be settled, a fresh publication must reach exactly its subscribers, the
tables must be what brute force says, and when everybody has left nothing may remain.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter, process_time
from traceback import extract_tb

from grapevine.client.session import SessionSettings
from grapevine.wire.identity import identify
from matching.interface import Matcher
from overlay.core import Core
from overlay.profiles import tree_broker
from tools.simulator import tables
from tools.simulator.apps import App
from tools.simulator.broker import BrokerHost, Known
from tools.simulator.clients import ClientHost
from tools.simulator.digest import Digest
from tools.simulator.faults import FaultPlan
from tools.simulator.latency import latency
from tools.simulator.matchers import matcher_named
from tools.simulator.network import Network
from tools.simulator.oracle import Oracle
from tools.simulator.result import Result
from tools.simulator.scenario import Scenario, core_settings, draw, draw_float
from tools.simulator.watcher import Watcher
from tools.simulator.workloads import workload
from tools.simulator.world import World

FRESH = 5  # publications of each publisher in the liveness phase
STEP_S = 0.25
SLICES = 40  # of the load, for measuring speed
BANS_S = 12.0  # a ban on soft links outlives the broker it protected by this and two lost links


class Simulation:
    def __init__(self, scenario: Scenario, seed: int, *, codec: bool | None = None) -> None:
        self.scenario = scenario
        self.seed = seed
        self.world = world = World(seed)
        wires = scenario.network
        self.network = Network(
            world,
            latency(wires.latency, world.stream("latency"), wires.scale_s, wires.file),
            world.stream("network"),
            jitter_s=wires.jitter_s,
            codec=wires.codec if codec is None else codec,
        )
        self.digest = Digest()
        self._indices: dict[str, int] = {}
        self.oracle = Oracle(world, self._indices, scenario.judge_every)
        self.watcher = Watcher(self.oracle, scenario.validate_every)
        self.matcher: Callable[[], Matcher] = matcher_named(scenario.brokers.matcher)
        self.brokers = self._make_brokers(world.stream("brokers"))
        self.apps = self._make_apps(world.stream("clients"))
        self.oracle.serves = self._serves
        self.messages_per_s = 0.0
        lost_after_s = scenario.links.lost_after_s
        self.faults = FaultPlan(
            world, self.network, self.brokers, self.apps, self.watcher, world.stream("faults"), lost_after_s
        )

    def _serves(self, broker: int, client: ClientHost) -> bool:
        core = self.brokers[broker].core
        return core is not None and identify(client.name) in core.clients

    # --- making -------------------------------------------------------------------------------------

    def _make_brokers(self, random: Random) -> list[BrokerHost]:
        scenario = self.scenario
        count = draw(scenario.brokers.count, random)
        brokers = []
        for number in range(count):
            broker = BrokerHost(
                self.world,
                self.network,
                f"b{number}",
                self._build,
                random=self.world.stream(f"host b{number}"),
                digest=self.digest,
                capacity=scenario.capacity,
            )
            broker.skew_s = random.uniform(-1, 1) * scenario.network.skew_s
            self._indices[broker.name] = broker.index
            self.watcher.add_broker(broker)
            brokers.append(broker)
        self._neighbours = [self._candidates(number, random) for number in range(count)]
        return brokers

    def _candidates(self, number: int, random: Random) -> tuple[str, ...]:
        """Addresses of earlier brokers, so that what is configured is a tree whichever one answers."""
        if number == 0:
            return ()
        parent = (number - 1) // self.scenario.brokers.fanout
        others = [other for other in range(number) if other != parent]
        random.shuffle(others)
        chosen = [parent, *others[: self.scenario.brokers.candidates - 1]]
        return tuple(f"sim://b{other}" for other in chosen)

    def _build(self, broker: BrokerHost, incarnation: int, known: Known) -> Core:
        settings = core_settings(self.scenario, self.world.stream("settings"), self._neighbours[broker.index])
        core = tree_broker(
            broker.name,
            incarnation,
            settings,
            self.world.stream(f"core {broker.name} {incarnation}"),
            (broker.address,),
            known,
            self.matcher,
            parent=str(broker.disk.kept.get("parent", "")),
            coordinator=broker.index == 0,
            places=broker.disk.kept.get("places", ()),  # type: ignore[arg-type]
        )
        self.oracle.flooding = settings.tree.routing == "flooding"
        self.oracle.ordered = settings.overlay.ordered
        self.watcher.attach(broker, core)
        return core

    def _make_apps(self, random: Random) -> list[App]:
        clients = self.scenario.clients
        publishers, subscribers = draw(clients.publishers, random), draw(clients.subscribers, random)
        count = publishers + subscribers
        return [self._make_app(number, number < publishers, random) for number in range(count)]

    def _make_app(self, number: int, publishes: bool, random: Random) -> App:
        clients, load = self.scenario.clients, self.scenario.load
        homes = random.sample(self.brokers, min(clients.brokers, len(self.brokers)))
        window = draw(clients.window, random)
        host = ClientHost(
            self.world,
            self.network,
            f"c{number}",
            tuple(broker.address for broker in homes),
            self.oracle,
            random=self.world.stream(f"host c{number}"),
            digest=self.digest,
            settings=SessionSettings(
                publish_window=window, receive_window=window, attach_s=2.0, silent_s=4.0
            ),
        )
        host.skew_s = random.uniform(-1, 1) * self.scenario.network.skew_s
        self.watcher.add_client(host)
        subscribes = not publishes or random.random() < clients.mixed
        return App(
            host,
            workload(load.kind),
            self.world.stream(f"app c{number}"),
            load,
            publishes=publishes,
            subscriptions=draw(clients.subscriptions, random) if subscribes else 0,
            every_s=draw_float(load.every_s, random),
        )

    # --- running ------------------------------------------------------------------------------------

    def run(self) -> Result:
        """All phases; whatever a broker or a session raises on the way is a violation."""
        began = perf_counter()
        try:
            self.safety()
            if self.settle():
                self.oracle.judge()
                self.fresh()
                self.forget()
                tables.compare(self)
                self.finish()
            else:
                self.oracle.judge()
        except Exception as error:
            where = extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno} {where.name}"
            self.oracle.violation(f"raised {error!r} at {place}")
        return self.result(perf_counter() - began)

    def safety(self) -> None:
        self.start()
        self.faults.schedule(self.scenario.faults, self.scenario.seconds)
        rates = []
        for _ in range(SLICES):
            messages, began = self._messages(), process_time()
            self.world.run(self.world.now + self.scenario.seconds / SLICES)
            rates.append((self._messages() - messages) / max(process_time() - began, 1e-6))
        self.messages_per_s = median(rates[SLICES // 2 :])

    def _messages(self) -> int:
        return sum(broker.forwarded + broker.delivered for broker in self.brokers)

    def start(self) -> None:
        random = self.world.stream("start")
        for broker in self.brokers:
            self.world.after(random.uniform(0, 1.0), self._start_broker, broker)
        for app in self.apps:
            self.world.after(random.uniform(0, 3.0), self._start_app, app)

    def _start_broker(self, broker: BrokerHost) -> None:
        if not broker.up and not broker.left:
            broker.start()

    def _start_app(self, app: App) -> None:
        if not app.host.up:
            app.start()

    def settle(self) -> bool:
        """Heal everything and wait for rest; False is a violation of liveness."""
        self.faults.heal()
        for app in self.apps:
            app.active = False
        if self.world.run_while(self._restless, self.world.now + self.scenario.heal_s, STEP_S):
            return True
        self.oracle.violation("no rest after all was healed: " + ", ".join(self._unrest()))
        return False

    def _restless(self) -> bool:
        return next(iter(self._unrest()), None) is not None

    def _unrest(self) -> list[str]:
        """Who has not come to rest, and why."""
        unrest = [f"{app.host.name} is not idle" for app in self.apps if not app.idle]
        staying = [broker for broker in self.brokers if not broker.left]
        for broker in staying:
            core = broker.core
            if core is None or not core.ready:
                unrest.append(f"{broker.name} is not ready")
                continue
            if broker.leaving:  # its clients are on their way elsewhere
                unrest.append(f"{broker.name} is leaving")
            if broker.paused_until > self.world.now:
                unrest.append(f"{broker.name} is paused")
            streams = [client.deliveries for client in core.clients.values()]
            if any(stream.in_flight or stream.backlog for stream in streams):
                unrest.append(f"{broker.name} has deliveries under way")
            missed = [peer.name for peer in core.peers.values() if peer.link is None]
            unrest += [f"{broker.name} misses {name}" for name in missed]
        if not self.oracle.reach.is_tree(len(staying)):
            unrest.append("the brokers are not one tree")
        return unrest

    def fresh(self) -> None:
        """Now everything must be exact."""
        first = len(self.oracle.publications)
        for app in self.apps:
            if app.publishes:
                app.publish(FRESH)
        if not self.world.run_while(self._restless, self.world.now + self.scenario.heal_s, STEP_S):
            self.oracle.violation("fresh publications did not settle: " + ", ".join(self._unrest()))
        self.oracle.judge_exact(first)

    def forget(self) -> None:
        """Give everybody the time to notice links that ended in silence and to give them up."""
        links = self.scenario.links
        self.world.run(self.world.now + links.lost_after_s + 5 * links.ping_s)

    def finish(self) -> None:
        """Everybody leaves; nothing may remain."""
        for app in self.apps:
            app.host.stop()
        self.forget()
        self.world.run(self.world.now + 2 * self.scenario.links.lost_after_s + BANS_S)
        tables.compare_empty(self)

    def result(self, seconds: float) -> Result:
        return Result(
            scenario=self.scenario.name,
            seed=self.seed,
            digest=self.digest.hex(),
            brokers=len(self.brokers),
            messages=self._messages(),
            messages_per_s=round(self.messages_per_s),
            deliveries=self.oracle.deliveries,
            publications=len(self.oracle.publications),
            owed=self.oracle.owed_checked,
            excused=self.oracle.excused,
            faults=dict(sorted(self.faults.counts.items())),
            faults_by_step=dict(sorted(self.watcher.faults_by_step.items())),
            crashes_by_step=dict(sorted(self.watcher.crashes_by_step.items())),
            violations=list(self.oracle.violations),
            violation_count=self.oracle.violation_count,
            virtual_s=self.world.now,
            seconds=seconds,
            memory_mb=getrusage(RUSAGE_SELF).ru_maxrss // 1024,
        )
