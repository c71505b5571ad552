"""Links of a ring that break: somebody always dials again."""

from __future__ import annotations

from tests.sim.test_idle_links import ring
from tools.simulator.simulation import Simulation


def connections(simulation: Simulation) -> list[int]:
    """How many brokers each has a link with."""
    cores = [broker.core for broker in simulation.brokers if broker.core is not None]
    return [sum(peer.link is not None for peer in core.peers.values()) for core in cores]


def test_if_each_side_takes_the_other_for_who_has_dialled_one_of_them_dials() -> None:
    """Greetings that were late: each side had given its own dial up when it answered the other's. They gave
    each other up, and both were the root of what one of them was."""
    simulation = ring(5, 1_000.0)
    before = connections(simulation)
    for broker in simulation.brokers:
        assert broker.core is not None
        for peer in broker.core.peers.values():
            peer.dialled = False
    for end in list(simulation.network.connections()):
        simulation.network.break_connection(end, told=True, other_told=True)
    simulation.world.run(simulation.world.now + 3.0)
    assert connections(simulation) == before
    assert not simulation.oracle.violations
