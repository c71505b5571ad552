"""One run of the location model (DYNATOPS 6.1.1, figures 6 and 9): cells of a grid are topics and have a
broker each.

A user wants the own cell and those of four random others. Systems: Bayeux with users who sit still, who go
to their cell's broker, and that with near neighbours in its tables; GeoPS, a quadtree of 32 x 32 whose
leaves are brokers, with geocast; on the ring users at their cell's broker (reconfigured: BNR) and users
placed by similarity in a cluster of neighbouring cells, the one they are in (UP; reconfigured: DYNATOPS).
Round trips are 2 ms and a millisecond for 100 km (D-9); the search minimises hops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from overlay.coordinate.cost import Cost, Geometry, Matrix
from overlay.coordinate.greedy import dynatops_greedy
from tools.reproduce.dynatops_checkins import Grid, Visit, lingering, visits
from tools.reproduce.dynatops_overlays import Overlay, Tapestry, hops
from tools.reproduce.dynatops_users import Brokers, Clusters

FRIENDS = 4
LEAVES = 32
TILES = {1: (1, 1), 2: (1, 2), 5: (1, 5), 10: (2, 5), 20: (2, 10), 50: (5, 10)}  # rows, columns of a cluster
EVENTS = 50.0  # of an average topic in an hour
SAMPLED = 150  # events that are measured


class Setting(msgspec.Struct, frozen=True):
    cluster: int = 10
    load_weight: float = 0.0
    free_h: float = 240.0
    seed: int = 1
    users: int = 8000
    cell: int = 2
    update_h: float = 24.0


Outcome = dict[str, dict[str, float]]


def run(setting: Setting, data: Path | None = None) -> Outcome:
    return Replay(setting, data).outcome()


class Replay:
    def __init__(self, setting: Setting, data: Path | None) -> None:
        self.setting = setting
        self.grid = Grid(setting.cell)
        self.chance = np.random.default_rng(setting.seed)
        self.visits = visits(data, setting.users, self.grid, self.chance)
        self.friends = self.chance.integers(0, setting.users, (setting.users, FRIENDS)).tolist()
        self.followers: list[list[int]] = [[] for _ in range(setting.users)]
        for user, friends in enumerate(self.friends):
            for friend in friends:
                self.followers[friend].append(user)
        cells = self.grid.cells
        self.at: dict[int, int] = {}  # user -> cell
        self.systems = {name: Brokers(cells, cells) for name in ("static", "loc", "placed")}
        self.systems["geops"] = Brokers(LEAVES * LEAVES, cells)
        self.own_moves = dict.fromkeys(self.systems, 0)
        self.fixed = self.chance.integers(0, cells, setting.users).tolist()
        self.clusters = Clusters(self.systems["placed"], self._tiles(), setting.load_weight)
        self.choose: dict[str, Callable[[int, tuple[int, ...]], int]] = {
            "static": lambda user, interest: int(self.fixed[user]),
            "loc": lambda user, interest: self.at[user],
            "placed": self._placed,
            "geops": lambda user, interest: self.leaf(self.at[user]),
        }
        self._play()

    def _tiles(self) -> list[list[int]]:
        high, wide = TILES[self.setting.cluster]
        found: dict[tuple[int, int], list[int]] = {}
        for cell in range(self.grid.cells):
            row, column = divmod(cell, self.grid.columns)
            found.setdefault((row // high, column // wide), []).append(cell)
        return list(found.values())

    def leaf(self, cell: int) -> int:
        row, column = divmod(cell, self.grid.columns)
        return row * LEAVES // self.grid.rows * LEAVES + column * LEAVES // self.grid.columns

    def _placed(self, user: int, interest: tuple[int, ...]) -> int:
        cluster, home = self.clusters.of[self.at[user]], self.systems["placed"].home.get(user)
        if home is None:
            return self.clusters.join(interest, cluster)
        return self.clusters.choose(interest, home, cluster)

    def _play(self) -> None:
        """The first quarter is to fill the tables and is not counted."""
        updated, warm = -1e9, len(self.visits) // 4
        for number, visit in enumerate(self.visits):
            if visit.hour - updated >= self.setting.update_h:
                self.clusters.update()
                updated = visit.hour
            if number == warm:
                for system in self.systems.values():
                    system.taken_changes()
                    system.moves = 0
                self.own_moves = dict.fromkeys(self.systems, 0)
                self.clusters.updates = 0
            self._visit(visit)
        self.counted = self.visits[warm:]

    def _visit(self, visit: Visit) -> None:
        self.at[visit.user] = visit.cell
        for user in (visit.user, *(one for one in self.followers[visit.user] if one in self.at)):
            near = (self.at[friend] for friend in self.friends[user] if friend in self.at)
            interest = tuple(sorted({self.at[user], *near}))
            for name, system in self.systems.items():
                if user == visit.user or system.interest.get(user) != interest:
                    home = system.home.get(user)
                    broker = self.choose[name](user, interest)
                    system.change(user, interest, broker)
                    self.own_moves[name] += user == visit.user and home is not None and home != broker

    def outcome(self) -> Outcome:
        found: Outcome = {"trace": {k: float(v) for k, v in lingering(self.visits)._asdict().items()}}
        for name, system in self.systems.items():
            load = np.array(system.load)
            found[name] = {
                "changes": len(system.changes),
                "handovers": system.moves,
                "own_handovers": self.own_moves[name],
                "load_sd": float(load.std() / load.mean()),
            }
        Measured(self, found).all()
        return found


class Measured:
    """Management and notification at the end of a replay."""

    def __init__(self, replay: Replay, found: Outcome) -> None:
        self.replay, self.found = replay, found
        cells, chance = replay.grid.cells, np.random.default_rng(replay.setting.seed + 9)
        self.cells = cells
        self.round_trip_ms = 2.0 + replay.grid.distances_km() / 100
        self.events = np.bincount([visit.cell for visit in replay.counted], minlength=cells).astype(float)
        self.sampled = chance.choice(cells, SAMPLED, p=self.events / self.events.sum())
        self.publisher = self._publishers(chance)
        self.ring = Geometry(chance.integers(0, 1 << 64, cells, dtype=np.uint64))
        self.ring_roots = self.ring.owner(chance.integers(0, 1 << 64, cells, dtype=np.uint64))
        self.hashed = chance.permutation(cells)
        self.plain = Tapestry(cells, np.random.default_rng(replay.setting.seed))
        near = replay.grid.distances_km()
        self.near = Tapestry(cells, np.random.default_rng(replay.setting.seed), near=near)
        keys = chance.integers(0, 4, (cells, self.plain.digits))
        self.plain_roots = np.array([self.plain.root(key) for key in keys])
        self.near_roots = np.array([self.near.root(key) for key in keys])

    def _publishers(self, chance: np.random.Generator) -> list[int]:
        """A user in the topic's cell if there is one."""
        inside: dict[int, list[int]] = {}
        for user, cell in self.replay.at.items():
            inside.setdefault(cell, []).append(user)
        everybody = list(self.replay.at)
        pools = [inside.get(int(cell), everybody) for cell in self.sampled]
        return [pool[chance.integers(len(pool))] for pool in pools]

    def all(self) -> None:
        itself = np.arange(self.cells)
        self._system("Bayeux(static)", "static", self.plain, self.plain_roots, itself)
        self._system("Bayeux(loc)", "loc", self.plain, self.plain_roots, itself)
        self._system("Bayeux(loc+PNS)", "loc", self.near, self.near_roots, itself)
        self._system("DYNATOPS(UP)", "placed", self.ring, self.ring_roots, self.hashed)
        for name, system, patience in (
            ("DYNATOPS(BNR)", "loc", 1),
            ("DYNATOPS", "placed", 1),
            ("DYNATOPS patience 10", "placed", 10),
        ):
            at = self._reconfigured(name, system, patience)
            self._system(name, system, self.ring, self.ring_roots, at)
        self._geops()

    def _reconfigured(self, name: str, system: str, patience: int) -> Matrix:
        wanted = self.replay.systems[system].users() > 0
        events = self.events / self.events.mean() * EVENTS * self.replay.setting.free_h
        plan = dynatops_greedy(
            Cost(self.ring, self.ring_roots, events, wanted, self.hashed, 1.0), patience=patience
        )
        self.found.setdefault(name, {}).update(changed=plan.changed, predicted_messages=plan.cost)
        return plan.at

    def _system(self, name: str, system: str, overlay: Overlay, roots: Matrix, at: Matrix) -> None:
        brokers = self.replay.systems[system]
        node_of = np.argsort(at)
        broker, topic = np.array(brokers.changes, dtype=np.int64).reshape(-1, 2).T
        legs = hops(overlay)
        node, root = node_of[broker], roots[topic]
        management = float((legs[node, root] + legs[root, node]).sum())
        if system == "placed":
            management += self.replay.clusters.updates
        users, relays, messages, delay, served = brokers.users(), 0, 0, 0.0, 0
        for cell, publisher in zip(self.sampled, self.publisher, strict=True):
            home, top = brokers.home[publisher], int(roots[cell])
            up = _passed(overlay, int(node_of[home]), top)
            first_ms = self.round_trip_ms[home, self.replay.at[publisher]] / 2 + self._ms(at, up)
            edges: set[tuple[int, int]] = set()
            members = np.flatnonzero(users[:, cell])
            for member in members:
                way = _passed(overlay, top, int(node_of[member]))
                edges.update(itertools.pairwise(way))
                delay += float(users[member, cell]) * (first_ms + self._ms(at, way))
            served += int(users[members, cell].sum())
            messages += len(edges) + len(up) - 1
            relays += len(edges) - sum(1 for member in members if node_of[member] != top)
        self.found.setdefault(name, {}).update(
            management=management,
            messages=messages / SAMPLED,
            relays=relays / SAMPLED,
            delay_ms=float(delay / served),
            load_sd=self.found[system]["load_sd"],
        )

    def _ms(self, at: Matrix, way: list[int]) -> float:
        return float(sum(self.round_trip_ms[at[a], at[b]] / 2 for a, b in itertools.pairwise(way)))

    def _geops(self) -> None:
        brokers = self.replay.systems["geops"]
        management = sum(2 * len(_up_and_down(b, self.replay.leaf(t))) - 2 for b, t in brokers.changes)
        users, messages, delay, served = brokers.users(), 0, 0.0, 0
        for cell in self.sampled:
            edges: set[tuple[tuple[int, int, int], ...]] = set()
            for leaf in np.flatnonzero(users[:, cell]).tolist():
                way = _up_and_down(self.replay.leaf(int(cell)), leaf)
                edges.update(itertools.pairwise(way))
                each = sum(self._quad_ms(a, b) for a, b in itertools.pairwise(way))
                delay += int(users[leaf, cell]) * (1.0 + each)
                served += int(users[leaf, cell])
            messages += len(edges)
        self.found["GeoPS"] = {
            "management": float(management),
            "messages": messages / SAMPLED,
            "delay_ms": delay / served,
            "load_sd": self.found["geops"]["load_sd"],
        }

    def _quad_ms(self, one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
        """Half a round trip between the middles of two squares of the quadtree."""
        north_east: list[float] = []
        for axis, (per_degree, degrees) in enumerate(((111.0, 20.0), (87.0, 60.0)), 1):
            middles = [(square[axis] + 0.5) * (1 << square[0]) * degrees / LEAVES for square in (one, other)]
            north_east.append((middles[0] - middles[1]) * per_degree)
        return 1.0 + math.hypot(*north_east) / 200


def _passed(overlay: Overlay, start: int, end: int) -> list[int]:
    """The way, `start` included."""
    way = overlay.ways(start)[end]
    return [start, *way[way < overlay.size].tolist()]


def _up_and_down(start: int, end: int) -> list[tuple[int, int, int]]:
    """Squares (level, row, column) from leaf to leaf over the smallest common one."""
    a, b = divmod(start, LEAVES), divmod(end, LEAVES)
    top = 0
    while (a[0] >> top, a[1] >> top) != (b[0] >> top, b[1] >> top):
        top += 1
    up = [(level, a[0] >> level, a[1] >> level) for level in range(top + 1)]
    return up + [(level, b[0] >> level, b[1] >> level) for level in range(top - 1, -1, -1)]
