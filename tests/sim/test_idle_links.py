"""A ring closes links that nobody needs, and dials who is wanted again."""

from __future__ import annotations

from msgspec.structs import replace

from overlay.chord.idle import IdleLinks
from overlay.chord.planes import Planes
from tools.simulator.ring import part
from tools.simulator.scenario import Brokers, Clients, Faults, find
from tools.simulator.simulation import Simulation


def ring(count: int, idle_s: float) -> Simulation:
    calm = find("chord-calm")
    brokers = Brokers(overlay="chord", count=count, seeds=4)
    chord = replace(calm.chord, idle_s=idle_s, probe_s=1_000.0)
    clients = Clients(publishers=0, subscribers=0)
    simulation = Simulation(replace(calm, chord=chord, brokers=brokers, clients=clients, faults=Faults()), 1)
    simulation.start()
    simulation.world.run(30.0)
    return simulation


def links(simulation: Simulation) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Those that are there, and those that somebody needs."""
    cores = [broker.core for broker in simulation.brokers if broker.core is not None]
    there = {(min(core.id, peer), max(core.id, peer)) for core in cores for peer in core.peers}
    pairs = ((core.id, node.broker) for core in cores for node in part(core, Planes).needed())
    return there, {(min(pair), max(pair)) for pair in pairs}


def test_links_that_nobody_needs_are_closed_and_nobody_is_dead_for_it() -> None:
    simulation = ring(24, 3.0)
    there, needed = links(simulation)
    assert there == needed
    cores = [broker.core for broker in simulation.brokers if broker.core is not None]
    assert sum(part(core, IdleLinks).closed for core in cores) > 0
    for core in cores:
        contacts = part(core, Planes).contacts
        assert not any(contacts.died_as(other.id) for other in cores)


def test_without_it_there_are_more() -> None:
    there, needed = links(ring(24, 1_000.0))
    assert len(there) > len(needed)


def test_who_is_wanted_again_is_dialled_again() -> None:
    simulation = ring(24, 3.0)
    there, _ = links(simulation)
    one = simulation.brokers[0].core
    assert one is not None
    others = [broker.core for broker in simulation.brokers[1:] if broker.core is not None]
    far = next(other for other in others if (min(one.id, other.id), max(one.id, other.id)) not in there)
    planes = part(one, Planes)
    planes.contacts.want(part(far, Planes).membership.me, simulation.world.now)
    simulation.world.run(simulation.world.now + 1.5)
    assert far.id in one.peers
