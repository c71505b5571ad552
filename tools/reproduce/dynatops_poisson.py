"""One run of the Poisson model (DYNATOPS 6.1.2, figures 7 to 9): the same users under every system.

Systems: Bayeux (users sit still, Tapestry), CHash and BNR (the same on the ring, hashed or reconfigured),
UP and DYNATOPS (users placed by similarity), TCO rerun and incremental; "ours" is DYNATOPS with fingers of
base 16, a session straight to the root, and a search with patience 10. An event is published by a random
user; the first leg counts in messages and delay (D-12). Reconfiguration messages are counted in three ways:
`one by one`, a message for every hop of every topic's join and leave; `frames`, topics that go the same way
at the same time share one, and each step is acknowledged; for TCO a changed link is one message as in the
paper, or with what the two must tell each other: all their topics, or a frame each way.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np

from overlay.coordinate.cost import Cost, Geometry, Matrix
from overlay.coordinate.greedy import dynatops_greedy, is_worth_computing
from tools.reproduce.dynatops_overlays import Tapestry, hops, notified
from tools.reproduce.dynatops_tco import changed_links, connect, flooded, rerun
from tools.reproduce.dynatops_users import Brokers, Clusters, Interests

BROKERS, TOPICS, EACH, EVENTS = 100, 1000, 5, 50.0
DELAY_WEIGHT = 1.0
STEPS = 5


class Setting(msgspec.Struct, frozen=True):
    pattern: str = "M"
    rate: float = 0.1
    free_h: int = 10  # T_free
    seed: int = 1
    hours: int = 100
    users: int = 50_000
    cluster: int = 5
    load_weight: float = 0.0
    whole: bool = True
    tco_every_h: int = 10  # TCO is followed for two hours in so many
    sampled_h: int = 5  # one hour in so many is measured


Outcome = dict[str, dict[str, float]]  # by system, then by metric: means over the run


class Mapping:
    """Brokers on a ring; reconfigured every T_free if that pays."""

    def __init__(self, geometry: Geometry, roots: Matrix, at: Matrix, patience: int | None) -> None:
        self.geometry, self.roots, self.at = geometry, roots, at
        self.patience = patience  # None: never
        self.hops = hops(geometry)
        self.messages = self.frames = self.changed = self.times = 0.0

    def reconfigure(self, wanted: Matrix, hours: int) -> None:
        if self.patience is None:
            return
        events = np.full(len(self.roots), EVENTS * hours)
        cost = Cost(self.geometry, self.roots, events, wanted, self.at, DELAY_WEIGHT)
        if not is_worth_computing(cost.total(), *wanted.shape):
            return
        before = self.at
        plan = dynatops_greedy(cost, patience=self.patience)
        if plan.pays:
            self.at = plan.at
            one_by_one, frames = self._sent(wanted, before)
            self.messages += one_by_one
            self.frames += frames
            self.changed += plan.changed
            self.times += 1

    def _sent(self, wanted: Matrix, before: Matrix) -> tuple[int, int]:
        """Messages and frames of 5.1.2's protocol: acknowledged steps, pointers from the manager (D-8)."""
        size = self.geometry.size
        changed = np.flatnonzero(self.at != before)
        fixed = 2 * STEPS * size + 2 * len(changed)
        one_by_one, frames = fixed, set[tuple[int, ...]]()
        for node in map(int, changed):
            differ = np.flatnonzero(wanted[self.at[node]] != wanted[before[node]])
            roots = self.roots[differ]
            one_by_one += int((self.hops[node, roots] + self.hops[roots, node]).sum())
            for root in np.unique(roots):
                for leg, start, end in ((0, node, int(root)), (1, int(root), node)):
                    way = self.geometry.ways(start)[end]
                    here = start
                    for number, hop in enumerate(way[way < size].tolist()):
                        frames.add((leg, number, here, hop))
                        here = hop
        return one_by_one, fixed + 2 * len(frames)


class Means:
    def __init__(self) -> None:
        self.values: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, system: str, **metrics: float) -> None:
        for metric, value in metrics.items():
            self.values[system, metric].append(value)

    def outcome(self) -> Outcome:
        found: Outcome = defaultdict(dict)
        for (system, metric), values in self.values.items():
            found[system][metric] = float(np.mean(values))
        return dict(found)


class World(NamedTuple):
    """What all systems of one seed share."""

    ring: Geometry
    wide: Geometry
    keys: Matrix
    at: Matrix
    tapestry: Tapestry
    tapestry_roots: Matrix
    clusters: list[list[int]]


def world_of(setting: Setting) -> World:
    chance = np.random.default_rng(setting.seed)
    positions = chance.integers(0, 1 << 64, BROKERS, dtype=np.uint64)
    keys = chance.integers(0, 1 << 64, TOPICS, dtype=np.uint64)
    tapestry = Tapestry(BROKERS, chance)
    roots = np.array([tapestry.root(key) for key in chance.integers(0, 4, (TOPICS, tapestry.digits))])
    clusters = chance.permutation(BROKERS).reshape(-1, setting.cluster).tolist()
    ring, wide = Geometry(positions), Geometry(positions, 16)
    return World(ring, wide, keys, chance.permutation(BROKERS), tapestry, roots, clusters)


def run(setting: Setting) -> Outcome:
    world, means = world_of(setting), Means()
    _followed(setting, world, means, placed=False)
    _followed(setting, world, means, placed=True)
    return means.outcome()


def _followed(setting: Setting, world: World, means: Means, placed: bool) -> None:
    """The whole time with users who sit still, or who are placed by similarity."""
    interests = Interests(setting.pattern, TOPICS, EACH, Random(setting.seed))
    brokers = Brokers(BROKERS, TOPICS)
    clusters = Clusters(brokers, world.clusters, setting.load_weight)
    chance = Random(setting.seed + 1)
    for user in range(setting.users):
        interest = interests.whole(user)
        cluster = chance.randrange(len(world.clusters))
        home = clusters.join(interest, cluster) if placed else chance.randrange(BROKERS)
        brokers.change(user, interest, home)
    brokers.taken_changes()
    roots = world.ring.owner(world.keys)
    mappings = {
        "UP" if placed else "CHash": Mapping(world.ring, roots, world.at, None),
        "DYNATOPS" if placed else "BNR": Mapping(world.ring, roots, world.at, 1),
    }
    if placed:
        mappings["ours"] = Mapping(world.wide, roots, world.at, 10)
    measure = _Measured(setting, world, means, mappings, brokers, placed)
    arrivals = np.random.default_rng(setting.seed + 2)
    for hour in range(setting.hours):
        clusters.update()
        who = np.repeat(np.arange(setting.users), arrivals.poisson(setting.rate, setting.users))
        arrivals.shuffle(who)
        for user in who.tolist():
            interest = brokers.interest[user]
            interest = interests.whole(user) if setting.whole else interests.one_other(user, interest)
            home = brokers.home[user]
            brokers.change(user, interest, clusters.choose(interest, home) if placed else home)
        measure.hour(hour)


class _Measured:
    def __init__(
        self,
        setting: Setting,
        world: World,
        means: Means,
        mappings: dict[str, Mapping],
        brokers: Brokers,
        placed: bool,
    ) -> None:
        self.setting, self.world, self.means, self.mappings = setting, world, means, mappings
        self.brokers, self.placed = brokers, placed
        self.tapestry_hops = hops(world.tapestry)
        self.chance = np.random.default_rng(setting.seed + 3)
        self.links: Matrix | None = None  # TCO's, where they are followed
        self.kept: Matrix | None = None  # of the incremental one
        self.before: Matrix | None = None

    def hour(self, hour: int) -> None:
        changes = self.brokers.taken_changes()
        name = "placed" if self.placed else "static"
        self.means.add(name, changes=len(changes), moves=self.brokers.moves)
        self.brokers.moves = 0
        self._management(changes)
        users = self.brokers.users()
        if hour % self.setting.free_h == 0:
            for mapping in self.mappings.values():
                mapping.reconfigure(users > 0, self.setting.free_h)
        if hour % self.setting.sampled_h == 0:
            self._notification(users)
            load = np.array(self.brokers.load)
            self.means.add(
                name, load_sd=float(load.std() / load.mean()), topics=float((users > 0).sum(1).mean())
            )
        if not self.placed and self.setting.tco_every_h:
            self._tco(hour, users)
        if hour == self.setting.hours - 1:
            for system, mapping in self.mappings.items():
                each = {"messages": mapping.messages, "frames": mapping.frames, "changed": mapping.changed}
                self.means.add(system, **{f"reconfiguration_{k}_h": v / (hour + 1) for k, v in each.items()})
                self.means.add(system, reconfigurations=mapping.times)

    def _management(self, changes: list[tuple[int, int]]) -> None:
        """A change goes to the root and the tree's update comes back."""
        broker, topic = np.array(changes, dtype=np.int64).reshape(-1, 2).T
        for system, mapping in self.mappings.items():
            node, root = np.argsort(mapping.at)[broker], mapping.roots[topic]
            messages = float((mapping.hops[node, root] + mapping.hops[root, node]).sum())
            updates = BROKERS * (self.setting.cluster - 1) if self.placed else 0
            self.means.add(system, management=messages + updates)
        if not self.placed:
            root = self.world.tapestry_roots[topic]
            messages = float((self.tapestry_hops[broker, root] + self.tapestry_hops[root, broker]).sum())
            self.means.add("Bayeux", management=messages)

    def _notification(self, users: Matrix) -> None:
        share = np.bincount(list(self.brokers.home.values()), minlength=BROKERS) / len(self.brokers.home)
        for system, mapping in self.mappings.items():
            up = np.minimum(mapping.hops, 1) if system == "ours" else mapping.hops
            found = notified(mapping.geometry, mapping.roots, users[mapping.at], share[mapping.at], up)
            self.means.add(system, **found._asdict())
        if not self.placed:
            world = self.world
            found = notified(world.tapestry, world.tapestry_roots, users, share, self.tapestry_hops)
            self.means.add("Bayeux", **found._asdict())

    def _tco(self, hour: int, users: Matrix) -> None:
        """Built in one hour, changed in the next: what a rerun and an incremental one change."""
        wanted = users > 0
        phase = hour % self.setting.tco_every_h
        if phase == 0:
            self.links = connect(wanted, np.zeros((BROKERS, BROKERS), bool), self.chance)
            self.kept, self.before = self.links, wanted
        elif phase == 1 and self.links is not None and self.before is not None and self.kept is not None:
            new = rerun(wanted, self.before, self.links, self.chance)
            each = wanted.sum(1)
            opened = np.argwhere(np.triu(new & ~self.links))
            told = float(sum(each[one] + each[other] for one, other in opened))
            changed = changed_links(new, self.links)
            added = changed_links(connect(wanted, self.kept, self.chance), self.kept)
            self.means.add("TCO", links_h=changed, messages_h=changed + told, frames_h=4 * changed)
            self.means.add("TCO incremental", links_h=added, frames_h=4 * added)
            homes = np.array(list(self.brokers.home.values()))
            publishers = homes[self.chance.integers(0, len(homes), TOPICS)]
            self.means.add("TCO", **flooded(users, new, publishers, self.chance)._asdict())
            self.means.add("TCO", degree=float(new.sum(1).max()))
