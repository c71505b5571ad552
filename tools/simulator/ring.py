"""Brokers of a ring in the simulator: what is owed there, what goes wrong there, and when it is at rest.

A subscription counts from its confirmation; it is owed everything that is settled without its publisher
being told otherwise, whatever broker or link failed on the way, unless its own broker did. Order is kept
for each publisher and topic. The faults respect what the ring is promised to bear: a broker that lives is
never away for as long as others take to give it up, and so many brokers next to each other as a list of
successors is long do not fail within one repair.

After every step the ring as a whole is looked at (ring_invariant.py); at rest every list on it must be what
the ring as a whole says.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import groupby
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Value
from grapevine.wire.chord import CHORD
from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    CUT_LINK_LOST,
    Batch,
    Hello,
    LaneBatch,
    LaneMarks,
    Marks,
    Ping,
    Publish,
)
from overlay.chord.membership import Membership
from overlay.chord.path import ChordPath
from overlay.chord.planes import Planes
from overlay.chord.roots import Roots
from overlay.chord.topics import Refusal, Term, terms_of, topic_of
from overlay.chord.wants import Wants
from overlay.core import Core
from overlay.settings import ChordSettings, CoreSettings, JournalSettings, OverlaySettings
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.faults import FaultPlan
from tools.simulator.oracle import Oracle
from tools.simulator.owed import Counted, Published
from tools.simulator.reach import Edge
from tools.simulator.reconfiguring import reconfigure, rings, two_planes
from tools.simulator.ring_clusters import not_up_to_date, placed, wrong_beliefs
from tools.simulator.ring_invariant import RingWatch
from tools.simulator.scenario import Faults, Scenario, draw
from tools.simulator.world import World

if TYPE_CHECKING:
    from typing import TypeVar

    from tools.simulator.simulation import Simulation

    B = TypeVar("B")

REPAIR_S = 4.0  # beyond the time after which a broker is given up
SMALL, SAMPLED = 100, 200  # in a large ring one of so many changes is looked at
SOON = 4  # times the length of a list, in periods of stabilising: lists are right so soon after healing
AIMED = (Hello, Batch, LaneBatch, Marks, LaneMarks, Ping, Publish)  # and all that only rings say


class RingOracle(Oracle):
    """Every broker of the ring owes to every subscription that counts."""

    by_links = False
    terms: tuple[Term, ...] = terms_of(("topic",))

    def owed_from(self, broker: int, record: Published) -> list[tuple[Counted, tuple[Edge, ...]]]:
        return [
            (counted, ())
            for counted in self._counting
            if counted.announced.subscribes and matches(counted.announced.filter, record.attributes)
        ]

    def order_of(self, record: Published) -> Hashable:
        return (record.life, self.topic(record.attributes))

    def cut(self, client: ClientHost, first: int, last: int, reason: int) -> None:
        """A durable publication is never given up because a link was lost (DP-D2)."""
        super().cut(client, first, last, reason)
        if client.durable and reason == CUT_LINK_LOST:
            self.violation(f"{client.name}'s durable publications {first} to {last} were cut")

    def topic(self, attributes: Mapping[str, Value]) -> str | None:
        found = topic_of(attributes, self.terms)
        return None if isinstance(found, Refusal) else found

    def link_lost(self, one: int, other: int) -> None: ...


class RingFaults(FaultPlan):
    """`failed`: when each broker failed last; the ring may need REPAIR_S and twice the time after which a
    broker is given up to repair that."""

    successors = ChordSettings().successors

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.failed: dict[BrokerHost, float] = {}
        self.places = {one: (identify(one.name), identify(one.name)) for one in self.brokers}
        self.most_at_once = 0  # next to each other, within one repair
        self.healed_at = self.ideal_at = inf  # everybody is back; all lists are right

    def heal(self) -> None:
        super().heal()
        self.healed_at = self.world.now

    def crash(self, broker: BrokerHost, step: int = 0, least_s: float = 0.0) -> None:
        self.failed[broker] = self.world.now
        self.most_at_once = max(self.most_at_once, self._next_to(broker))
        super().crash(broker, step, least_s)

    def may_fail(self, broker: BrokerHost) -> bool:
        """Never so many that are next to each other as a list is long, within one repair, nor the last live
        entry of anybody's list."""
        staying = sum(not one.left for one in self.brokers)
        if self._next_to(broker) >= min(self.successors, staying - 1):
            return False
        return not self._last_of_a_list(broker)

    def _next_to(self, broker: BrokerHost) -> int:
        """How many next to each other have failed lately, with this one; in each plane there is."""
        repaired = self.world.now - 2 * self.lost_after_s - REPAIR_S
        self._see_places()
        failed = {one for one in self.brokers if one is broker or self.failed.get(one, -inf) > repaired}
        staying = [one for one in self.brokers if not one.left]
        runs = []
        for plane in range(2):
            ring = sorted(staying, key=lambda one: self.places[one][plane])
            runs.append(longest_run([one in failed for one in ring]))
        return max(runs)

    def _see_places(self) -> None:
        """Where everybody is, or was when it failed, in the plane that is and in the next one."""
        for one in self.brokers:
            if one.core is not None:
                planes = part(one.core, Planes)
                following = planes.next or planes.current
                places = (planes.membership.me.position, following.membership.me.position)
                self.places[one] = places

    def _last_of_a_list(self, broker: BrokerHost) -> bool:
        cores = [one.core for one in self.brokers if one.core is not None and one is not broker]
        rings = [ring for core in cores for ring in core.behaviours if isinstance(ring, Membership)]
        live = {ring.me for ring in rings if not ring.leaving}
        return any(ring.member and ring.successors and live.isdisjoint(ring.successors) for ring in rings)

    def schedule(self, faults: Faults, seconds: float) -> None:
        super().schedule(faults, seconds)
        for _ in range(draw(faults.reconfigurations, self.random)):
            self.world.after(self.random.uniform(0, seconds), lambda _: reconfigure(self))

    def _pause(self, _: object) -> None:
        if (running := self.running()) and not self.over:
            broker = self.random.choice(running)
            self.counts["pause"] += 1
            self.watcher.fault_at(list(broker.ends.values()), broker.last_kind)
            broker.pause(self.random.choice((0.2, 1.0, 0.6 * self.lost_after_s)))

    def _spoil_disk(self, broker: BrokerHost) -> None:
        """Not while it is cut off as well: it would be silent for as long as others take to give it up."""

    def _wall(self, _: object) -> None:
        if not self.over:
            share = self.random.uniform(0.2, 0.5)
            inside = frozenset(h.index for h in self.network.hosts if self.random.random() < share)
            self.counts["wall"] += 1
            self.network.wall_off(inside, self.world.now + self.random.choice((0.5, 1.0, 2.0)))


def longest_run(circle: list[bool]) -> int:
    """Of marks next to each other, all round."""
    if all(circle):
        return len(circle)
    start = circle.index(False)
    runs = groupby(circle[start:] + circle[:start])
    return max((len(list(run)) for marked, run in runs if marked), default=0)


class RingForm:
    aims = sorted(cls.kind for cls in (*CHORD, *AIMED))

    def addresses(self, scenario: Scenario, number: int, brokers: int, random: Random) -> tuple[str, ...]:
        seeds = min(scenario.brokers.seeds or brokers, brokers)
        return tuple(f"sim://b{other}" for other in range(seeds))

    def settings(self, scenario: Scenario, random: Random, addresses: tuple[str, ...]) -> CoreSettings:
        return CoreSettings(
            overlay=OverlaySettings("chord"),
            chord=msgspec.structs.replace(scenario.chord, members=addresses),
            topics=scenario.topics,
            reconfiguration=scenario.reconfiguration,
            placement=scenario.placement,
            links=scenario.links,
            clients=scenario.attachments,
            journal=JournalSettings(scenario.durable.segment_bytes)
            if scenario.durable
            else JournalSettings(),
        )

    def roles(self, scenario: Scenario, number: int) -> frozenset[str]:
        return frozenset(("broker", "coordinator") if number == 0 else ("broker",))

    def oracle(self, world: World, indices: dict[str, int], judge_every: int) -> Oracle:
        return RingOracle(world, indices, judge_every)

    def faults(self, scenario: Scenario) -> tuple[type[FaultPlan], float]:
        return RingFaults, scenario.chord.lost_after_s

    def watch(self, simulation: Simulation) -> None:
        """After every step of every broker: is it still one ring?"""
        known = RingWatch(1 if len(simulation.brokers) <= SMALL else SAMPLED)

        def step(broker: BrokerHost, core: Core) -> None:
            self._watch_rebuilding(simulation, part(core, Roots))
            planes = part(core, Planes).all
            changed = [known.look((broker.index, p.slot), p.membership, p.roots) for p in planes]
            if any(changed):
                cores = [one.core for one in simulation.brokers if one.core is not None]
                for ring in rings([part(one, Planes) for one in cores]):
                    for text in known.check(ring):
                        simulation.oracle.violation(text)

        simulation.watcher.on_step = step

    def _watch_rebuilding(self, simulation: Simulation, roots: Roots) -> None:
        """A root is rebuilt from its members only if all who had a copy have failed with it."""
        faults = simulation.faults
        assert isinstance(faults, RingFaults)
        if roots.rebuilding.times and faults.most_at_once <= roots.membership.settings.copies:
            roots.rebuilding.times = 0
            simulation.oracle.violation(f"{roots.core.name} had no copy of a root that died alone")

    # --- rest ---------------------------------------------------------------------------------------------

    def unrest(self, simulation: Simulation) -> list[str]:
        unrest = []
        staying = [broker for broker in simulation.brokers if not broker.left]
        cores = [broker.core for broker in staying if broker.core is not None]
        for core in cores:
            unrest += two_planes(core)
            if part(core, ChordPath).waits:
                unrest.append(f"{core.name} has publications that wait for a way")
            if not all(part(core, Wants).known.values()):
                unrest.append(f"{core.name} waits for roots")
            if any(lane.out.unsettled for peer in core.peers.values() for lane in peer.every_lane()):
                unrest.append(f"{core.name} has publications under way")
        unrest += not_up_to_date(cores)
        wrong = not_ideal(cores)
        faults = simulation.faults
        assert isinstance(faults, RingFaults)
        if not wrong and len(cores) == len(staying):
            faults.ideal_at = min(faults.ideal_at, simulation.world.now)
        return unrest or wrong

    def figures(self, simulation: Simulation) -> dict[str, float]:
        """How many sessions a broker has, and how soon after healing all lists were right."""
        faults = simulation.faults
        assert isinstance(faults, RingFaults)
        sessions = [len(broker.core.peers) for broker in simulation.brokers if broker.core is not None]
        cores = [broker.core for broker in simulation.brokers if broker.core is not None]
        return {
            **placed(cores),
            "sessions_mean": round(sum(sessions) / max(1, len(sessions)), 1),
            "sessions_most": max(sessions, default=0),
            "lists_right_s": round(max(0.0, faults.ideal_at - faults.healed_at), 2),
            "lists_right_bar_s": SOON
            * simulation.scenario.chord.successors
            * simulation.scenario.chord.stabilise_s,
        }

    # --- tables -------------------------------------------------------------------------------------------

    def compare(self, simulation: Simulation) -> None:
        """Each topic's root knows all brokers that want it, and so do its copies. A broker that failed is
        known until its silence or the next publication tells."""
        cores = [broker.core for broker in simulation.brokers if broker.core is not None]
        tell = simulation.oracle.violation
        wanted: dict[int, set[int]] = {}
        found: dict[int, set[int]] = {}
        for core in cores:
            for topic in part(core, Wants).subscribed:
                wanted.setdefault(topic, set()).add(part(core, Membership).me.position)
            for topic, members in part(core, Roots).topics.items():
                if topic in found:
                    tell(f"{core.name}: topic {topic:x} has two roots")
                found[topic] = set(members)
        for topic in sorted(wanted.keys() | found.keys()):
            if not wanted.get(topic, set()) <= found.get(topic, set()):
                tell(f"topic {topic:x}: wanted by {wanted.get(topic)}, its root knows {found.get(topic)}")
        for core in cores:
            for text in wrong_copies(core, cores):
                tell(text)
        for text in wrong_beliefs(cores):
            tell(text)

    def compare_empty(self, simulation: Simulation) -> None:
        for broker in simulation.brokers:
            if broker.core is not None:
                for what, size in left_over(broker.core):
                    simulation.oracle.violation(f"{broker.name}: {what} still holds {size}")


def not_ideal(cores: list[Core]) -> list[str]:
    """Whose list is not what the ring as a whole says."""
    rings = [part(core, Membership) for core in cores]
    rings.sort(key=lambda ring: ring.me.position)
    nodes = [ring.me for ring in rings]
    wrong = []
    for rank, ring in enumerate(rings):
        length = min(ring.length, len(nodes) - 1)
        successors = tuple(nodes[(rank + step) % len(nodes)] for step in range(1, length + 1))
        if len(nodes) > 1 and (ring.predecessor, ring.successors) != (nodes[rank - 1], successors):
            wrong.append(f"{ring.me.name}'s neighbours on the ring are not the nearest")
    return wrong


def wrong_copies(core: Core, cores: list[Core]) -> Iterator[str]:
    """At a root's nearest successors."""
    by_id = {other.id: other for other in cores}
    roots = part(core, Roots)
    for node in roots.membership.successors[: roots.membership.settings.copies]:
        copy = part(by_id[node.broker], Roots).copies.get(roots.membership.me)
        if copy is None or not copy.complete:
            yield f"{node.name} has no copy of {core.name}'s topics"
        elif {t: set(m) for t, m in copy.topics.items()} != {t: set(m) for t, m in roots.topics.items()}:
            yield f"{node.name}'s copy of {core.name}'s topics differs"


def part(core: Core, kind: type[B]) -> B:
    return next(one for one in core.behaviours if isinstance(one, kind))


def left_over(core: Core) -> list[tuple[str, int]]:
    path, wants, roots = part(core, ChordPath), part(core, Wants), part(core, Roots)
    sizes = {
        "clients": len(core.clients) + len(core.numbered),
        "wants": len(wants.subscribed) + len(wants.known) + wants.waiting,
        "held": sum(len(way.held) for way in path.ways.values()) + len(path.stranded),
        "topics": len(roots.topics) + sum(len(copy.topics) for copy in roots.copies.values()),
        "subscriptions": len(path.chord.subscriptions) + len(path.chord.advertisements),
        "unsettled": sum(lane.out.unsettled for peer in core.peers.values() for lane in peer.every_lane()),
    }
    return [(what, size) for what, size in sizes.items() if size]
