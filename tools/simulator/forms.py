"""What the simulator must know of each overlay: how its brokers are configured, when it is at rest, what its
tables must hold then, and which of its messages a crash may be aimed at. One form a kind of overlay.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

import msgspec

from overlay.settings import CoreSettings
from overlay.tree.tombstones import Tombstones
from tools.simulator import cluster, tables
from tools.simulator.aims import AIMS, ONEHOP_AIMS
from tools.simulator.edges import NoCycle
from tools.simulator.faults import FaultPlan
from tools.simulator.oracle import Oracle
from tools.simulator.ring import RingForm
from tools.simulator.scenario import Scenario, core_settings
from tools.simulator.world import World

if TYPE_CHECKING:
    from tools.simulator.simulation import Simulation


class Form(Protocol):
    aims: list[int]  # kinds of messages

    def addresses(self, scenario: Scenario, number: int, brokers: int, random: Random) -> tuple[str, ...]:
        """Of other brokers, in the configuration of this one."""

    def settings(self, scenario: Scenario, random: Random, addresses: tuple[str, ...]) -> CoreSettings:
        """What a broker is told; `random` gives the same to every one of a run."""

    def roles(self, scenario: Scenario, number: int) -> frozenset[str]: ...

    def unrest(self, simulation: Simulation) -> list[str]:
        """Why the overlay itself has not come to rest."""

    def compare(self, simulation: Simulation) -> None:
        """Tables against brute force, at rest; differences are violations."""

    def compare_empty(self, simulation: Simulation) -> None:
        """The same when all clients have left: nothing of theirs may remain."""

    def oracle(self, world: World, indices: dict[str, int], judge_every: int) -> Oracle:
        """What is owed to whom on this overlay."""

    def faults(self, scenario: Scenario) -> tuple[type[FaultPlan], float]:
        """What may go wrong, and after how long a silent broker is given up."""

    def watch(self, simulation: Simulation) -> None:
        """Look at the overlay as a whole after every step, if something must hold of it all the time."""

    def figures(self, simulation: Simulation) -> dict[str, float]:
        """What there is to say of the overlay as a whole, in the end."""


class TreeForm:
    aims = AIMS

    def addresses(self, scenario: Scenario, number: int, brokers: int, random: Random) -> tuple[str, ...]:
        """Of earlier brokers, so that what is configured is a tree whichever one answers."""
        if number == 0:
            return ()
        parent = (number - 1) // scenario.brokers.fanout
        others = [other for other in range(number) if other != parent]
        random.shuffle(others)
        chosen = [parent, *others[: scenario.brokers.candidates - 1]]
        return tuple(f"sim://b{other}" for other in chosen)

    def settings(self, scenario: Scenario, random: Random, addresses: tuple[str, ...]) -> CoreSettings:
        return core_settings(scenario, random, addresses)

    def roles(self, scenario: Scenario, number: int) -> frozenset[str]:
        return frozenset(("broker", "coordinator") if number == 0 else ("broker",))

    def unrest(self, simulation: Simulation) -> list[str]:
        cores = [broker.core for broker in simulation.brokers if broker.core is not None]
        burying = [core.name for core in cores if tables.behaviour(core, Tombstones).router.lost]
        if burying:  # who publishes then may be told of a cut, for fear that it was owed to somebody lost
            return [f"{name} has tombstones" for name in burying]
        gone = simulation.faults.given_up
        if simulation.faults.stranded or (gone and not simulation.scenario.healing.after_s):
            return []  # parts of a tree are all that can be
        staying = sum(not broker.left and broker not in gone for broker in simulation.brokers)
        return [] if simulation.oracle.reach.is_tree(staying) else ["the brokers are not one tree"]

    def compare(self, simulation: Simulation) -> None:
        tables.compare(simulation)

    def compare_empty(self, simulation: Simulation) -> None:
        tables.compare_empty(simulation)

    def oracle(self, world: World, indices: dict[str, int], judge_every: int) -> Oracle:
        return Oracle(world, indices, judge_every)

    def faults(self, scenario: Scenario) -> tuple[type[FaultPlan], float]:
        return FaultPlan, scenario.links.lost_after_s

    def watch(self, simulation: Simulation) -> None:
        if simulation.scenario.faults.deaths:
            NoCycle(simulation)

    def figures(self, simulation: Simulation) -> dict[str, float]:
        return {}


class ClusterForm:
    """A one-hop cluster: the first is a matcher, then they take turns (cluster.py)."""

    aims = ONEHOP_AIMS

    def addresses(self, scenario: Scenario, number: int, brokers: int, random: Random) -> tuple[str, ...]:
        """The first member has none; the others know it and some that were there before."""
        if number == 0:
            return ()
        others = random.sample(range(number), min(2, number))
        return tuple(dict.fromkeys(f"sim://b{other}" for other in (0, *others)))

    def settings(self, scenario: Scenario, random: Random, addresses: tuple[str, ...]) -> CoreSettings:
        """Whatever is subscribed is known to all, as with flooding on a tree."""
        settings = core_settings(scenario, random, ())
        tree = msgspec.structs.replace(settings.tree, routing="flooding")
        onehop = msgspec.structs.replace(settings.onehop, seeds=addresses)
        return msgspec.structs.replace(settings, tree=tree, onehop=onehop)

    def roles(self, scenario: Scenario, number: int) -> frozenset[str]:
        """Where matchers forward, everybody has both: only then do two brokers fill each other's windows."""
        if scenario.onehop.delivery == "matcher":
            return cluster.BOTH
        brokers = scenario.brokers
        if brokers.dispatchers:
            assert isinstance(brokers.count, int), "who is a dispatcher is counted from the end"
            first = brokers.count - brokers.dispatchers
            return cluster.DISPATCHER if number >= first else cluster.MATCHER
        return cluster.ROLES[number % len(cluster.ROLES)]

    def unrest(self, simulation: Simulation) -> list[str]:
        return cluster.unrest([broker for broker in simulation.brokers if not broker.left])

    def compare(self, simulation: Simulation) -> None:
        cluster.compare(simulation)

    def compare_empty(self, simulation: Simulation) -> None:
        tables.compare_empty(simulation)

    def oracle(self, world: World, indices: dict[str, int], judge_every: int) -> Oracle:
        return cluster.ClusterOracle(world, indices, judge_every)

    def faults(self, scenario: Scenario) -> tuple[type[FaultPlan], float]:
        return FaultPlan, scenario.links.lost_after_s

    def watch(self, simulation: Simulation) -> None: ...

    def figures(self, simulation: Simulation) -> dict[str, float]:
        return {}


FORMS: dict[str, Form] = {"tree": TreeForm(), "chord": RingForm(), "onehop": ClusterForm()}
