"""One run: a world from a scenario and a seed, through its phases.

Safety: load and faults, judged by the oracle as it happens. Liveness: everything is healed that is not lost
for good; the overlay must come to rest, everything must be settled, a fresh publication must reach exactly
its subscribers, the tables must be what brute force says, and when everybody has left nothing may remain.
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
from overlay.administration.census import Census
from overlay.core import Core
from overlay.journal.streams import Streams
from overlay.outbox import Kept
from overlay.profiles import Start, build
from overlay.tree.tombstones import PATIENCE
from tools.simulator.apps import App
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.cluster import MATCHER
from tools.simulator.digest import Digest
from tools.simulator.forms import FORMS
from tools.simulator.journal import SimulatedJournal
from tools.simulator.last_values import LastReader, keep_stream
from tools.simulator.latency import latency
from tools.simulator.matchers import matcher_named
from tools.simulator.members import GroupWatch, Membership
from tools.simulator.network import Network
from tools.simulator.result import Result
from tools.simulator.scenario import Scenario, draw, draw_float
from tools.simulator.versions import counted_as_new, protocols
from tools.simulator.watcher import Watcher
from tools.simulator.workloads import workload
from tools.simulator.world import World

FRESH = 5  # publications of each publisher in the liveness phase
STEP_S = 0.25
SLICES = 40  # of the load, for measuring speed
BANS_S = 12.0  # a ban on soft links outlives the broker it protected by this and two lost links
ANSWERED_S = 10.0  # a question that takes longer is lost
# What an administrator does is no fault: nothing may be told as undelivered because of it.
IN_GOOD_ORDER = {"leave", "move", "switch", "algorithm", "reconfiguration"}


def streams_of(core: Core) -> Streams | None:
    return next((one for one in core.behaviours if isinstance(one, Streams)), None)


class Simulation:
    def __init__(self, scenario: Scenario, seed: int, *, codec: bool | None = None) -> None:
        self.scenario = scenario
        self.form = FORMS[scenario.brokers.overlay]
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
        self.oracle = self.form.oracle(world, self._indices, scenario.judge_every)
        self.watcher = Watcher(self.oracle, scenario.validate_every)
        self.groups = GroupWatch(self.oracle)
        self.matcher: Callable[[], Matcher] = matcher_named(scenario.brokers.matcher)
        self.brokers = self._make_brokers(world.stream("brokers"))
        self.apps = self._make_apps(world.stream("clients"))
        self.oracle.serves = self._serves
        self.oracle.disk_told = self._disk_told
        self.oracle.stream_told = self._stream_told
        self.messages_per_s = 0.0
        self.ending = False  # nobody keeps streams any more
        plan, lost_after_s = self.form.faults(scenario)
        self.faults = plan(
            world, self.network, self.brokers, self.apps, self.watcher, world.stream("faults"), lost_after_s
        )
        self.faults.aims = self.form.aims
        self.form.watch(self)

    def _serves(self, broker: int, client: ClientHost) -> bool:
        """Whether it has the session that the client speaks of: not an earlier one, nor the next."""
        core, session = self.brokers[broker].core, client.session
        known = core.clients.get(identify(client.name)) if core is not None else None
        if known is None or session is None:
            return False
        return known.epoch in (session._epoch, getattr(session.moving.place, "epoch", None))

    def _disk_told(self, broker: int) -> bool:
        """Whether a loss there is excused: damage was done to it, and reported; or it lied about a sync."""
        journal = self.brokers[broker].journal
        if journal is None:
            return False
        damaged = journal.disk.faults.keys() & {"rot", "misdirected"}
        return (journal.reported > 0 and bool(damaged)) or journal.lied

    def _stream_told(self, broker: int) -> bool:
        """Whether a gap is in order: there is damage, no room at some time, or a lie."""
        journal = self.brokers[broker].journal
        if journal is None:
            return False
        damaged = journal.disk.faults.keys() & {"rot", "misdirected"}
        return journal.was_full or journal.lied or bool(damaged)

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
            if scenario.durable is not None:
                broker.journal = SimulatedJournal(self.world.stream(f"journal b{number}"))
            broker.skew_s = random.uniform(-1, 1) * scenario.network.skew_s
            self._indices[broker.name] = broker.index
            self.watcher.add_broker(broker)
            brokers.append(broker)
        self._addresses = [self.form.addresses(scenario, n, count, random) for n in range(count)]
        self.protocols = protocols(count, scenario.brokers.older, self.world.stream("versions"))
        return brokers

    def _build(self, broker: BrokerHost, incarnation: int, kept: Kept) -> Core:
        addresses = self._addresses[broker.index]
        settings = self.form.settings(self.scenario, self.world.stream("settings"), addresses)
        core = build(
            Start(
                broker.name,
                incarnation,
                settings,
                self.world.stream(f"core {broker.name} {incarnation}"),
                (broker.address,),
                self.matcher,
                kept,
                self.form.roles(self.scenario, broker.index),
                opened=None if broker.journal is None else broker.journal.open(incarnation),
                effort=self.scenario.effort.effort(),
            )
        )
        core.protocol = self.protocols[broker.index]
        self.oracle.flooding = settings.tree.routing == "flooding"
        self.oracle.ordered = settings.overlay.ordered
        self.watcher.attach(broker, core)
        return core

    def _make_apps(self, random: Random) -> list[App]:
        clients = self.scenario.clients
        publishers, subscribers = draw(clients.publishers, random), draw(clients.subscribers, random)
        count = publishers + subscribers
        return [self._make_app(number, number < publishers, random) for number in range(count)]

    def make_host(self, kind: type[ClientHost], number: int, random: Random) -> ClientHost:
        clients = self.scenario.clients
        taking = [b for b in self.brokers if self.form.roles(self.scenario, b.index) != MATCHER]
        homes = random.sample(taking, min(clients.brokers, len(taking)))
        window = draw(clients.window, random)
        host = kind(
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
        return host

    def _make_app(self, number: int, publishes: bool, random: Random) -> App:
        clients, load = self.scenario.clients, self.scenario.load
        host = self.make_host(ClientHost, number, random)
        if self.scenario.durable is not None:
            host.durable = random.random() < self.scenario.durable.publications
            if not publishes and random.random() < self.scenario.durable.readers:
                host.durable_filter = workload(load.kind).subscription(
                    self.world.stream(f"durable c{number}")
                )
            self._enrol(host, number, publishes)
        subscribes = not publishes or random.random() < clients.mixed
        wanted = draw(clients.subscriptions, random) if subscribes else 0
        return App(
            host,
            workload(load.kind),
            self.world.stream(f"app c{number}"),
            load,
            publishes=publishes,
            subscriptions=wanted if host.member is None else 0,
            every_s=draw_float(load.every_s, random),
        )

    def _enrol(self, host: ClientHost, number: int, publishes: bool) -> None:
        """Some ask, some are members of a group."""
        durable, random = self.scenario.durable, self.world.stream(f"group c{number}")
        assert durable is not None
        if publishes:
            host.asks = random.random() < durable.asks
        elif random.random() < durable.members:
            group = f"g{random.randrange(durable.groups)}"
            filter = workload(self.scenario.load.kind).subscription(self.world.stream(f"filter of {group}"))
            host.member = Membership(self.groups, group, filter, random)
        elif random.random() < durable.last:
            host.member = LastReader(
                self.oracle, workload(self.scenario.load.kind).subscription(random), durable.key
            )

    # --- running ------------------------------------------------------------------------------------

    def run(self) -> Result:
        """All phases; whatever a broker or a session raises on the way is a violation."""
        began = perf_counter()
        try:
            with counted_as_new(self.scenario.brokers.newer):
                self.phases()
        except Exception as error:
            where = extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno} {where.name}"
            self.oracle.violation(f"raised {error!r} at {place}")
        return self.result(perf_counter() - began)

    def phases(self) -> None:
        self.safety()
        if self.settle():
            self._collect_streams()
            self.oracle.judge()
            if self.oracle.cut_connected and not (+self.faults.counts).keys() - IN_GOOD_ORDER:
                self.oracle.violation(
                    f"nothing has failed, and {self.oracle.cut_connected} are told as undelivered"
                )
            self.fresh()
            self._end_streams()
            if not self.faults.given_up:
                self.forget()
                self.form.compare(self)
                self.finish()
        else:
            self.oracle.judge()

    def _collect_streams(self) -> None:
        cores = [(broker, broker.core) for broker in self.brokers if broker.core is not None]
        for broker, core in cores:
            self.oracle.streams.collect(broker.index, core)
        self.groups.judge((broker.name, core) for broker, core in cores)

    def _end_streams(self) -> None:
        """Administrators remove them, so that nothing may remain in the end."""
        self.ending = True
        for app in self.apps:
            app.host.durable_filter = app.host.member = None
            if app.host.reader is not None and app.host.session is not None:
                app.host.reader.ended = True
        for broker in self.brokers:
            if broker.core is not None and (streams := streams_of(broker.core)) is not None:
                for stream in list(streams.journal.contents.streams.values()):
                    streams.end(stream, broker.clock())
                broker.wake()

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
        if self.scenario.durable is not None and self.scenario.durable.last:
            self.world.after(1.5, self._keep_stream, self.scenario.durable.key)

    def _keep_stream(self, key: str) -> None:
        """An administrator looks now and then whether there is one."""
        broker = self.brokers[0]
        if broker.core is not None and (streams := streams_of(broker.core)) is not None and not self.ending:
            keep_stream(broker, streams, key)
        self.world.after(1.0, self._keep_stream, key)

    def _start_broker(self, broker: BrokerHost) -> None:
        if not broker.up and not broker.left:
            broker.start()

    def _start_app(self, app: App) -> None:
        if not app.host.up:
            app.start()

    def settle(self) -> bool:
        """Heal everything and wait for rest; False is a violation of liveness."""
        self.faults.heal()
        self.groups.calm = True
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
        unrest += [f"{app.host.name} waits for its group" for app in self.apps if self._waits(app)]
        gone = self.faults.given_up
        staying = [broker for broker in self.brokers if not broker.left and broker not in gone]
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
            if core.journal is not None and core.journal.contents.custody.items:
                unrest.append(f"{broker.name} has custody of something")
            unrest += self.groups.unrest(broker.name, core)
            missed = [peer.name for peer in core.peers.values() if peer.link is None]
            unrest += [f"{broker.name} misses {name}" for name in missed]
        return unrest + self.form.unrest(self) or self._without_newest()

    def _waits(self, app: App) -> bool:
        """Whether it is a member of a group that it has not been taken into."""
        reader, member = app.host.reader, app.host.member
        return isinstance(member, Membership) and reader is not None and reader.state is None

    def _without_newest(self) -> list[str]:
        """Readers of last values that do not have the newest."""
        cores = {broker.name: broker.core for broker in self.brokers if broker.core is not None}
        readers = [(app.host, app.host.member) for app in self.apps]
        return [
            text for host, one in readers if isinstance(one, LastReader) for text in one.behind(host, cores)
        ]

    def fresh(self) -> None:
        """Now everything must be exact."""
        first = len(self.oracle.publications)
        for app in self.apps:
            if app.publishes:
                app.publish(FRESH)
        if not self.world.run_while(self._restless, self.world.now + self.scenario.heal_s, STEP_S):
            self.oracle.violation("fresh publications did not settle: " + ", ".join(self._unrest()))
        self._collect_streams()
        self.oracle.judge_exact(first, whole=not self.faults.given_up)

    def forget(self) -> None:
        """Give everybody the time to notice links that ended in silence, and to forget what they leave."""
        links = self.scenario.links
        self.world.run(self.world.now + (1 + PATIENCE) * links.lost_after_s + 5 * links.ping_s)

    def finish(self) -> None:
        """Everybody leaves; nothing may remain."""
        for app in self.apps:
            app.host.stop()
        self.forget()
        self.world.run(self.world.now + 2 * self.scenario.links.lost_after_s + BANS_S)
        self.world.run_while(self._asking, self.world.now + ANSWERED_S, STEP_S)
        self.form.compare_empty(self)

    def _asking(self) -> bool:
        """A coordinator asks everybody now and then: its question is no leak while it is answered."""
        cores = [broker.core for broker in self.brokers if broker.core is not None]
        return any(isinstance(one, Census) and one.asking for core in cores for one in core.behaviours)

    def _faults(self) -> dict[str, int]:
        """With what the disks have lost and said so."""
        told = {"durable lost and told": self.oracle.told_lost} if self.oracle.told_lost else {}
        return {**self.faults.counts, **told}

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
            excused=sum(self.oracle.excused.values()),
            excused_by_reason={reason: n for reason, n in sorted(self.oracle.excused.items()) if n},
            cut=self.oracle.cut_count,
            crying_wolf=self.oracle.crying_wolf,
            faults=dict(sorted(self._faults().items())),
            faults_by_step=dict(sorted(self.watcher.faults_by_step.items())),
            crashes_by_step=dict(sorted(self.watcher.crashes_by_step.items())),
            violations=list(self.oracle.violations),
            violation_count=self.oracle.violation_count,
            virtual_s=self.world.now,
            seconds=seconds,
            overlay=self.form.figures(self),
            memory_mb=getrusage(RUSAGE_SELF).ru_maxrss // 1024,
        )
