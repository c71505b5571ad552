"""A ring that was split for longer than brokers wait for each other stays two rings; both sides say so."""

from __future__ import annotations

from msgspec.structs import replace

from overlay.chord.probe import RingProbe
from overlay.core import Core
from tools.simulator.ring import not_ideal, part
from tools.simulator.scenario import Brokers, Clients, Faults, find
from tools.simulator.simulation import Simulation

SIDE = (0, 1, 4, 5)


def split() -> Simulation:
    calm = find("chord-calm")
    chord = replace(calm.chord, lost_after_s=2.0, probe_s=1.0)
    brokers = Brokers(overlay="chord", count=8, seeds=4)
    clients = Clients(publishers=0, subscribers=0)
    simulation = Simulation(replace(calm, chord=chord, brokers=brokers, clients=clients, faults=Faults()), 1)
    simulation.watcher.on_step = lambda broker, core: None  # two rings are what this is about
    simulation.start()
    world = simulation.world
    world.run(12.0)
    assert len(probes(simulation)) == 8 and not any(probe.elsewhere for probe in probes(simulation))
    simulation.network.wall_off(frozenset(SIDE), world.now + 10.0)
    world.run(world.now + 30.0)
    return simulation


def cores(simulation: Simulation) -> list[Core]:
    return [broker.core for broker in simulation.brokers if broker.core is not None]


def probes(simulation: Simulation) -> list[RingProbe]:
    return [part(core, RingProbe) for core in cores(simulation)]


def test_a_split_ring_is_told() -> None:
    assert all(probe.elsewhere for probe in probes(split()))


def test_the_brokers_of_one_side_started_again_join_the_other() -> None:
    """As the guide says: all of them are stopped, then started."""
    simulation = split()
    one_side = [simulation.brokers[number] for number in SIDE]
    for broker in one_side:
        broker.crash()
        simulation.watcher.crashed(broker)
    simulation.world.run(simulation.world.now + 1.0)
    for broker in one_side:
        broker.start()
    simulation.world.run(simulation.world.now + 30.0)
    assert len(cores(simulation)) == 8 and not not_ideal(cores(simulation))
    assert not any(probe.elsewhere for probe in probes(simulation))


def test_configured_members_that_all_restart_find_the_ring_that_goes_on_without_them() -> None:
    """Nobody of them was on a ring, so they founded one, although the others had met them by then."""
    calm = find("chord-calm")
    brokers = Brokers(overlay="chord", count=14, seeds=4)
    clients = Clients(publishers=0, subscribers=0)
    simulation = Simulation(replace(calm, brokers=brokers, clients=clients, faults=Faults()), 1)
    simulation.start()
    simulation.world.run(12.0)
    for broker in simulation.brokers[:4]:
        broker.crash()
        simulation.watcher.crashed(broker)
        simulation.world.after(0.5, lambda one: one.start(), broker)
    simulation.world.run(simulation.world.now + 20.0)
    assert len(cores(simulation)) == 14 and not not_ideal(cores(simulation))
    assert not simulation.oracle.violations
