"""Many brokers that come onto a ring at once."""

from __future__ import annotations

from msgspec.structs import replace

from tools.simulator.ring import not_ideal
from tools.simulator.scenario import Brokers, Clients, Faults, find
from tools.simulator.simulation import Simulation


def test_many_that_join_at_once_find_their_places_within_a_few_periods() -> None:
    """They are chains that lie between each other. One pair found each other in a period, because who has got
    another predecessor was asked for it once a period; now it tells the former one."""
    calm = find("chord-calm")
    brokers = Brokers(overlay="chord", count=100, seeds=4)
    clients = Clients(publishers=0, subscribers=0)
    simulation = Simulation(replace(calm, brokers=brokers, clients=clients, faults=Faults()), 1)
    simulation.start()
    simulation.world.run(8.0)
    cores = [broker.core for broker in simulation.brokers if broker.core is not None]
    assert all(core.ready for core in cores) and not not_ideal(cores)
    assert not simulation.oracle.violations
