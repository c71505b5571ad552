"""A ring that was split for longer than brokers wait for each other stays two rings; both sides say so."""

from __future__ import annotations

from msgspec.structs import replace

from overlay.chord.probe import RingProbe
from tools.simulator.ring import part
from tools.simulator.scenario import Brokers, Clients, Faults, find
from tools.simulator.simulation import Simulation


def test_a_split_ring_is_told() -> None:
    calm = find("chord-calm")
    chord = replace(calm.chord, lost_after_s=2.0, probe_s=1.0)
    brokers = Brokers(overlay="chord", count=8, seeds=4)
    clients = Clients(publishers=0, subscribers=0)
    simulation = Simulation(replace(calm, chord=chord, brokers=brokers, clients=clients, faults=Faults()), 1)
    simulation.watcher.on_step = lambda broker, core: None  # two rings are what this is about
    simulation.start()
    world = simulation.world
    world.run(12.0)
    probes = [part(broker.core, RingProbe) for broker in simulation.brokers if broker.core is not None]
    assert len(probes) == 8 and not any(probe.elsewhere for probe in probes)
    simulation.network.wall_off(frozenset((0, 1, 4, 5)), world.now + 10.0)
    world.run(world.now + 30.0)
    assert all(probe.elsewhere for probe in probes)
