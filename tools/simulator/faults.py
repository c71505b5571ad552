"""What goes wrong, when, and to whom: drawn from the seed before the run begins.

Every fault ends by itself or is undone by `heal`, except the lasting ones. A crash comes at a random time, or
at a protocol step: the broker that takes or sends a message of the chosen kind for the n-th time goes down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from grapevine.wire.identity import identify
from grapevine.wire.relocation import Relocate
from overlay.core import Core
from overlay.data.client import Client
from overlay.relocate.migration import Migration
from overlay.relocate.relocation import ALGORITHMS, Relocation
from overlay.softlinks.chooser import Chooser
from overlay.softlinks.move_commands import MoveCommands
from tools.simulator import deaths, lost_disks
from tools.simulator.aims import AIMS, HANDOVERS, MOVES, RARE, STEPS
from tools.simulator.apps import App
from tools.simulator.broker import BrokerHost
from tools.simulator.handing_over import HandingOver
from tools.simulator.late import LateUpdates
from tools.simulator.network import End, Network
from tools.simulator.scenario import Faults, draw
from tools.simulator.watcher import NAMES, Aim, Watcher
from tools.simulator.world import World

TRIES, CUT_OFF_S = 100, 1.4  # of a broker whose publisher is to die with it
LOOK_S, LOOKS = 0.01, 400  # how often it is asked whether a move has turned


def has_streams(core: Core) -> bool:
    """Whoever has some is not asked to leave: they do not go elsewhere yet."""
    return core.journal is not None and bool(core.journal.contents.streams)


class FaultPlan:
    def __init__(
        self,
        world: World,
        network: Network,
        brokers: list[BrokerHost],
        apps: list[App],
        watcher: Watcher,
        random: Random,
        lost_after_s: float,
    ) -> None:
        self.world = world
        self.network = network
        self.brokers = brokers
        self.apps = apps
        self.watcher = watcher
        self.random = random
        self.lost_after_s = lost_after_s
        self.aims: list[int] = AIMS  # of the overlay's kind
        self.counts: Counter[str] = Counter()
        self.over = False
        self.stranded = False  # some of these are alive
        self.given_up: set[BrokerHost] = set()  # dead, or cut off, for good
        self.moving = False  # publishers are relocated
        self.late: LateUpdates | None = None
        self.wandering = False  # brokers move
        self.handing_over = False  # clients are handed over
        watcher.on_aim = self._aimed_crash
        for broker in brokers:
            broker.on_disk_error = self._stopped_by_disk
        watcher.on_disk_failed = self._restart_later

    def schedule(self, faults: Faults, seconds: float) -> None:
        kinds: list[tuple[str, Callable[[Any], Any]]] = [
            ("crashes", self._crash),
            ("aimed", self._aim),
            ("breaks", self._break),
            ("clogs", self._clog),
            ("late_updates", self._late_update),
            ("walls", self._wall),
            ("pauses", self._pause),
            ("slow_disks", self._slow_disk),
            ("disk_faults", self._disk_fault),
            ("leaves", self._leave),
            ("switches", self._switch),
            ("algorithms", self._switch_algorithm),
            ("client_breaks", self._client_break),
            ("client_pauses", self._client_pause),
            ("client_lazy", self._client_lazy),
            ("client_crashes", self._client_crash),
            ("together", self._together),
            ("relocations", self._relocate),
            ("handovers", self._hand_over),
            ("moves", self._move),
            ("slow_moves", self._slow_move),
            ("one_way", self._one_way),
            ("clock_jumps", self._clock_jump),
            ("disk_errors", self._disk_error),
            ("lost_disks", lambda _: lost_disks.lose_disk(self)),
            ("deaths", self.die),
            ("lasting", self._lasting),
        ]
        self.wandering = draw(faults.moves, Random(0)) > 0
        self.moving = draw(faults.relocations, Random(0)) > 0
        self.handing_over = draw(faults.handovers, Random(0)) > 0
        for name, call in kinds:
            for _ in range(draw(getattr(faults, name), self.random)):
                self.world.after(self.random.uniform(0, seconds), call)

    def heal(self) -> None:
        """No more faults; everybody who is down comes back."""
        self.over = True
        self.watcher.aim = None
        self.network.walls.clear()
        for host in self.network.hosts:
            for end in host.ends.values():
                end.clogged_until = 0.0
                if end.flight:
                    self.world.at(self.world.now, end.arrive)
        for broker in self.brokers:
            broker.disk.slow = 1.0
            if broker.journal is not None:
                broker.make_room()
                broker.journal.disk.fail_syncs = broker.journal.disk.lose_syncs = 0
            self.restart(broker)
        for app in self.apps:
            if not app.host.up:
                app.start()

    # --- brokers ------------------------------------------------------------------------------------

    def running(self) -> list[BrokerHost]:
        return [broker for broker in self.brokers if broker.up]

    def _crash(self, _: object) -> None:
        if (running := self.running()) and not self.over:
            self._crash_if_allowed(self.random.choice(running))

    def crash(self, broker: BrokerHost, step: int = 0, least_s: float = 0.0) -> None:
        self.counts["crash"] += 1
        self.watcher.fault_at(list(broker.ends.values()), step or broker.last_kind, crash=True)
        broker.crash()
        self.watcher.crashed(broker)
        self._restart_later(broker, least_s)

    def _restart_later(self, broker: BrokerHost, least_s: float = 0.0) -> None:
        # Mostly back before its neighbours give it up, sometimes not.
        down_s = self.random.uniform(0.1, 0.7 * self.lost_after_s)
        if self.random.random() < 0.2:
            down_s += self.lost_after_s
        self.world.after(max(down_s, least_s), self.restart, broker)

    def _disk_fault(self, _: object) -> None:
        running = [broker for broker in self.running() if broker.journal is not None]
        if running and not self.over:
            broker = self.random.choice(running)
            assert broker.journal is not None
            faults = broker.journal.faults()
            name = self.random.choice(sorted(faults))
            self.counts[name] += 1
            faults[name]()
            if name == "full disk":
                self.world.after(self.random.uniform(0.5, 5.0), lambda _: broker.make_room(), None)

    def restart(self, broker: BrokerHost) -> None:
        if not broker.up and not broker.left and broker not in self.given_up:
            broker.start()

    def _switch(self, _: object) -> None:
        """Another strategy at one broker."""
        if (running := self.running()) and not self.over:
            self.counts["switch"] += 1
            broker = self.random.choice(running)
            assert broker.core is not None
            chooser = next(one for one in broker.core.behaviours if isinstance(one, Chooser))
            chooser.set_strategy(self.random.choice(chooser.strategies), broker.clock())
            broker.wake()

    def _switch_algorithm(self, _: object) -> None:
        """Another algorithm of relocation at one broker."""
        if (running := self.running()) and not self.over:
            self.counts["algorithm"] += 1
            broker = self.random.choice(running)
            assert broker.core is not None
            relocation = next(one for one in broker.core.behaviours if isinstance(one, Relocation))
            relocation.change(algorithm=self.random.choice(ALGORITHMS))

    def _aim(self, _: object) -> None:
        if not self.over:
            aims = [cls.kind for cls in MOVES] if self.moving and self.random.random() < 0.7 else self.aims
            if self.wandering and self.random.random() < 0.7:
                aims = list(STEPS)
            if self.handing_over and self.random.random() < 0.7:
                aims = list(HANDOVERS)
            kind = aims[(self.world.seed + self.counts["aim"] * 7) % len(aims)]
            self.counts["aim"] += 1
            self.aim(kind)

    def aim(self, kind: int) -> None:
        self.watcher.aim = Aim(kind, self.random.random() < 0.5, self.random.randint(1, 4))

    def _aimed_crash(self, broker: BrokerHost, aim: Aim) -> bool:
        """Whether it went down: a message is lost with the broker only."""
        went_down = self._crash_if_allowed(broker, aim.kind)
        self.counts[f"crash at {NAMES[aim.kind]}"] += went_down
        return went_down

    def _crash_if_allowed(self, broker: BrokerHost, step: int = 0) -> bool:
        if not (allowed := self.may_fail(broker)):
            self.counts["crash put off"] += 1
        else:
            self.crash(broker, step)
        return allowed

    def may_fail(self, broker: BrokerHost) -> bool:
        return True  # whether the overlay is promised to bear it

    def _pause(self, _: object) -> None:
        if (running := self.running()) and not self.over:
            broker = self.random.choice(running)
            self.counts["pause"] += 1
            self.watcher.fault_at(list(broker.ends.values()), broker.last_kind)
            broker.pause(
                self.random.choice((0.2, 1.0, 3.0, 0.9 * self.lost_after_s, 1.5 * self.lost_after_s))
            )

    def _slow_disk(self, _: object) -> None:
        if (running := self.running()) and not self.over:
            broker = self.random.choice(running)
            self.counts["slow disk"] += 1
            broker.disk.slow = self.random.choice((50.0, 500.0, 2000.0))
            self.world.after(self.random.uniform(1, 8), self._quick_disk, broker)

    def _quick_disk(self, broker: BrokerHost) -> None:
        broker.disk.slow = 1.0

    def _clock_jump(self, _: object) -> None:
        if not self.over:
            self.counts["clock jump"] += 1
            self.random.choice(self.brokers).jump_s += self.random.choice((-3600.0, -30.0, 30.0, 86_400.0))

    def _disk_error(self, _: object) -> None:
        if (running := self.running()) and not self.over:
            self.counts["disk error"] += 1
            self.random.choice(running).disk.fails = True

    def _stopped_by_disk(self, broker: BrokerHost) -> None:
        self.counts["stopped by its disk"] += 1
        self.crash(broker)

    def die(self, _: object) -> None:
        if not self.over:
            deaths.die(self)

    def _lasting(self, _: object) -> None:
        """Half of those that stay may be lost; the others must go on without them."""
        running = [broker for broker in self.running() if broker not in self.given_up]
        if self.over or 2 * len(running) <= len(self.brokers) + 1:
            return
        broker = self.random.choice(running)
        self.given_up.add(broker)
        self.watcher.fault_at(list(broker.ends.values()), broker.last_kind)
        if self.random.random() < 0.5:
            self.counts["dead for good"] += 1
            broker.crash()
            self.watcher.crashed(broker)
        else:
            self.counts["cut off for good"] += 1
            self.stranded = True
            self.network.strand(broker)

    def _leave(self, _: object) -> None:
        candidates = [
            broker
            for broker in self.running()[1:]
            if broker.core is not None and broker.core.ready and not has_streams(broker.core)
        ]
        if len(candidates) > 2 and not self.over:
            broker = self.random.choice(candidates)
            self.counts["leave"] += 1
            self.watcher.fault_at(list(broker.ends.values()), broker.last_kind)
            if self.random.random() < 0.3:
                self.aim(RARE[(self.world.seed + self.counts["leave"]) % len(RARE)])
            broker.leave()

    # --- links --------------------------------------------------------------------------------------

    def _links(self, clients: bool) -> list[End]:
        count = len(self.brokers)
        return [end for end in self.network.connections() if (end.other.host.index >= count) == clients]  # type: ignore[union-attr]

    def _break(self, _: object, clients: bool = False) -> None:
        if (links := self._links(clients)) and not self.over:
            end = self.random.choice(links)
            self.counts["client break" if clients else "break"] += 1
            self.watcher.fault_at([end])
            told, other = self.random.random() < 0.7, self.random.random() < 0.7
            self.network.break_connection(end, told=told, other_told=other)

    def _one_way(self, _: object) -> None:
        if (links := self._links(self.random.random() < 0.3)) and not self.over:
            end = self.random.choice(links)
            self.counts["one way"] += 1
            self.watcher.fault_at([end])
            self.network.break_one_way(end if end.other is None or self.random.random() < 0.5 else end.other)

    def _client_break(self, _: object) -> None:
        self._break(_, clients=True)

    def _clog(self, _: object) -> None:
        if (links := self._links(self.random.random() < 0.3)) and not self.over:
            end = self.random.choice(links)
            self.counts["clog"] += 1
            self.watcher.fault_at([end])
            self.network.clog(end, self.world.now + self.random.choice((0.3, 1.5, 4.0, 8.0)))

    def _wall(self, _: object) -> None:
        if not self.over:
            share = self.random.uniform(0.2, 0.5)
            inside = frozenset(h.index for h in self.network.hosts if self.random.random() < share)
            self.counts["wall"] += 1
            crossing = [
                end
                for end in self.network.connections()
                if (end.host.index in inside) != (end.other.host.index in inside)  # type: ignore[union-attr]
            ]
            self.watcher.fault_at(crossing)
            seconds = self.random.choice((0.5, 2.0, 0.8 * self.lost_after_s, 1.3 * self.lost_after_s))
            self.network.wall_off(inside, self.world.now + seconds)

    # --- clients ------------------------------------------------------------------------------------

    def _client(self) -> App | None:
        up = [app for app in self.apps if app.host.up]
        return self.random.choice(up) if up and not self.over else None

    def _client_pause(self, _: object) -> None:
        if (app := self._client()) is not None:
            self.counts["client pause"] += 1
            app.host.pause(self.random.choice((0.3, 1.5, 4.0, 12.0)))

    def _client_lazy(self, _: object) -> None:
        if (app := self._client()) is not None:
            self.counts["client lazy"] += 1
            app.host.be_lazy(self.random.choice((0.5, 3.0, 10.0)))

    def _client_crash(self, _: object) -> None:
        if (app := self._client()) is not None:
            self.counts["client crash"] += 1
            self.watcher.fault_at(list(app.host.ends.values()))
            if self.random.random() < 0.3:
                app.host.stop()  # no crash at all: it says good-bye and comes back
            else:
                app.host.crash()
            self.world.after(self.random.uniform(0.1, 5.0), self._client_restart, app)

    def _together(self, _: object) -> None:
        """A publisher's first broker is cut off from its neighbours, and when something is on its disk and
        nowhere else both die: it must still arrive."""
        apps = [
            app for app in self.apps if app.host.durable and app.publishes and app.host.session is not None
        ]
        if apps and not self.over:
            app = self.random.choice(apps)
            if (broker := self._first_broker(app)) is not None:
                for end in broker.ends.values():
                    if end.other is not None and isinstance(end.other.host, BrokerHost):
                        self.network.clog(end, self.world.now + CUT_OFF_S)
                self._spoil_disk(broker)
                self._await_persisted((app, TRIES))

    def _spoil_disk(self, broker: BrokerHost) -> None:
        chance = self.random.random()
        if chance < 0.5:
            broker.disk.slow = 200.0
        elif chance < 0.7 and broker.journal is not None:
            broker.journal.disk.fail_syncs = 1

    def _first_broker(self, app: App) -> BrokerHost | None:
        session = app.host.session
        name = "" if session is None or app.host.end is None else session.broker_name
        return next((broker for broker in self.running() if broker.name == name), None)

    def _await_persisted(self, waiting: tuple[App, int]) -> None:
        app, tries = waiting
        session, broker = app.host.session, self._first_broker(app)
        if self.over or session is None or broker is None or not self.may_fail(broker):
            return
        if session.outgoing.persisted > session.outgoing.settled:
            self.counts["publisher and broker"] += 1
            app.host.crash()
            self.world.after(self.random.uniform(0.1, 5.0), self._client_restart, app)
            if broker.journal is not None and self.random.random() < 0.3:
                self.counts["rot"] += 1
                broker.journal.rot(tail=True)
            self.crash(broker, least_s=2 * CUT_OFF_S)  # when what was on its way has arrived
        elif tries:
            self.world.after(LOOK_S, self._await_persisted, (app, tries - 1))

    def _relocate(self, _: object) -> None:
        """Not a fault, but at any time: a publisher is asked to move to any broker."""
        running = self.running()
        departing = [(broker, client) for broker in running for client in self.publishers(broker)]
        if departing and not self.over:
            source, client = self.random.choice(departing)
            self.relocate(source, client, self.random.choice(running))

    def _hand_over(self, _: object) -> None:
        if not self.over:
            HandingOver(self.world, self.network, self.random, self.counts).some(self.running())

    def _late_update(self, _: object) -> None:
        """Of a publisher's that is asked to move far."""
        if self.late is None:
            self.late = LateUpdates(self)
        running = self.running()
        ways = [(b, c, t) for b in running for c in self.publishers(b) for t in running if t is not b]
        if ways and not self.over:
            self.random.shuffle(ways)
            self.late.begin(*max(ways, key=self._length))

    def _length(self, way: tuple[BrokerHost, Client, BrokerHost]) -> int:
        core = way[0].core
        return len(self.path(core, way[2])) if core is not None else 0

    def publishers(self, broker: BrokerHost) -> list[Client]:
        assert broker.core is not None
        return [client for client in broker.core.clients.values() if client.advertisements]

    def relocate(self, source: BrokerHost, client: Client, target: BrokerHost) -> Relocate | None:
        """The offer, if it was made."""
        core = source.core
        assert core is not None
        path = self.path(core, target)
        if len(path) < 2:
            return None
        migration = next(b for b in core.behaviours if isinstance(b, Migration))
        refused = migration.offer(client, path, target.name, (target.address,), source.clock())
        self.counts["relocation refused" if refused else "relocation"] += 1
        source.wake()
        return None if refused else migration.departures[client].offer

    def path(self, core: Core, target: BrokerHost) -> tuple[int, ...]:
        """As the brokers' links are now; empty if there is no way."""
        cores = {broker.core.id: broker.core for broker in self.running() if broker.core is not None}
        paths: dict[int, tuple[int, ...]] = {core.id: (core.id,)}
        front = [core.id]
        while front:
            broker = front.pop(0)
            for other, peer in cores[broker].peers.items():
                if peer.link is not None and other in cores and other not in paths:
                    paths[other] = (*paths[broker], other)
                    front.append(other)
        return paths.get(identify(target.name), ())

    def _move(self, _: object) -> BrokerHost | None:
        """Not a fault either: a broker is told to take another parent within its neighbourhood."""
        running = self.running()
        if not running or self.over:
            return None
        broker = self.random.choice(running)
        core = broker.core
        assert core is not None
        mover = next(b for b in core.behaviours if isinstance(b, MoveCommands))
        master = mover.moves.neighbourhoods.master
        far = [other for other in master.via if not mover.moves.refusal(other)]
        if not far:
            return None
        self.counts["move"] += 1
        mover.move(self.random.choice(far), broker.clock())
        broker.wake()
        return broker

    def _slow_move(self, _: object) -> None:
        if (broker := self._move(_)) is not None:
            self._slow_when_turned((broker, LOOKS))

    def _slow_when_turned(self, state: tuple[BrokerHost, int]) -> None:
        """What its old parent has sent by then is late: the plane must be kept for it."""
        broker, looks = state
        if self.over or broker.core is None or not looks:
            return
        mover = next(b for b in broker.core.behaviours if isinstance(b, MoveCommands))
        move = mover.moves.state
        if move is None or not move.turned:
            self.world.after(LOOK_S, self._slow_when_turned, (broker, looks - 1))
            return
        for end in broker.ends.values():
            if end.other is not None and identify(end.other.host.name) == move.old:
                self.counts["slow move"] += 1
                self.network.clog(end, self.world.now + self.random.uniform(0.3, 0.9))

    def _client_restart(self, app: App) -> None:
        if not app.host.up:
            app.start()
