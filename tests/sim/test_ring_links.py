"""Links of a ring that break: somebody always dials again."""

from __future__ import annotations

from overlay.administration.reports import Ask, Reports
from tests.sim.test_idle_links import ring
from tools.simulator.ring import part
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


def test_neighbours_on_a_ring_are_no_parents_and_children() -> None:
    simulation = ring(5, 1_000.0)
    for broker in simulation.brokers:
        assert broker.core is not None
        reports = part(broker.core, Reports)
        listing = reports.listing
        place = listing.place()
        assert "parent" not in place and "depth" not in place
        roles = {row["name"]: row["role"] for row in reports.links(Ask())["rows"]}
        assert roles[place["predecessor"]] == "predecessor"
        followers = [name for name in place["successors"] if name != place["predecessor"]]
        assert {roles[name] for name in followers} == {"successor"}
        told = [happened for happened in broker.core.events.since(0) if happened.kind == "link.up"]
        assert told and not any(word in one.text for one in told for word in ("child", "parent"))
    end = next(iter(list(simulation.network.connections())))
    simulation.network.break_connection(end, told=True, other_told=True)
    simulation.world.run(simulation.world.now + 2.0)
    down = [
        happened
        for broker in simulation.brokers
        for happened in (broker.core.events.since(0) if broker.core is not None else ())
        if happened.kind == "link.down"
    ]
    assert simulation.brokers[0].core is not None
    kept_s = simulation.brokers[0].core.settings.chord.lost_after_s
    assert down and all(one.text.endswith(f"are kept for {kept_s:g} s") for one in down)
