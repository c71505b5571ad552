"""Clients of a ring go where others want the same topics: one by one, and a share of the seeds of
chord-placement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from grapevine.wire.identity import identify
from overlay.administration.reports import Reports
from overlay.chord.clusters import Cluster
from overlay.chord.placing import PINNED, Placement
from overlay.core import Core
from overlay.settings import PlacementSettings
from tests.sim.stories import Story
from tools.simulator.clients import ClientHost
from tools.simulator.placement_mutants import PLACEMENT_MUTANTS
from tools.simulator.ring import part
from tools.simulator.scenario import Brokers, Clients, Faults, find
from tools.simulator.seeds import simulate
from tools.simulator.simulation import Simulation

NAMES = ("ann", "bob", "cat", "dan", "eve")
RULE = PlacementSettings("paper", load_weight=0.0, rest_s=5.0, t_update_s=0.3)


class Ring(Story):
    """Three brokers, one cluster; what clients want is said and waited for."""

    def __init__(self, placement: PlacementSettings = RULE) -> None:
        calm = find("chord-placement")
        brokers, clients = Brokers(overlay="chord", count=3, seeds=3), Clients(publishers=0, subscribers=0)
        scenario = replace(calm, brokers=brokers, clients=clients, placement=placement, faults=Faults())
        Simulation.__init__(self, scenario, 1)
        for broker in self.brokers:
            broker.start()
        self.wait(lambda: len(self.cores()) == 3 and all(core.ready for core in self.cores()))

    def wants(self, name: str, broker: int, *filters: str) -> ClientHost:
        host = self.client(name, broker)
        for filter in filters:
            self.asks(host, filter)
        return host

    def asks(self, host: ClientHost, filter: str) -> None:
        state = self.subscribe(host, filter)
        self.wait(lambda: state.confirmed)

    def at(self, host: ClientHost) -> str:
        return "".join(core.name for core in self.cores() if identify(host.name) in core.clients)

    def placements(self) -> list[Placement]:
        return [part(core, Placement) for core in self.cores()]


def ordinary(names: tuple[str, ...] = NAMES) -> Iterator[str]:
    return (name for name in names if identify(name) % PINNED)


def test_a_client_goes_where_its_topics_are_and_rests_there() -> None:
    ring, names = Ring(), ordinary()
    ring.wants("sports" + next(names), 1, "topic in ('golf', 'chess', 'polo')")
    ring.wants("music" + next(names), 2, "topic in ('jazz', 'rock', 'soul')")
    ring.run_for(3.0)
    fan = ring.wants(next(names), 0, "topic = 'golf'", "topic = 'chess'")
    ring.wait(lambda: ring.at(fan) == "b1", 5.0)
    moved_at = ring.world.now
    ring.run_for(0.5)  # what comes before its old broker has said that it is here belongs to the move
    for filter in ("topic = 'jazz'", "topic = 'rock'", "topic = 'soul'"):
        ring.asks(fan, filter)
    ring.wait(lambda: ring.at(fan) == "b2", 12.0)
    assert ring.world.now - moved_at >= RULE.rest_s - 0.5
    ring.run_for(20.0)
    assert ring.at(fan) == "b2" and sum(one.moved for one in ring.placements()) == 2
    events = [event.kind for core in ring.cores() for event in core.events.since(0, 100)]
    assert events.count("placement.moved") == 2
    assert not ring.oracle.violations


def test_home_wins_a_tie_and_what_the_client_had_counts_there() -> None:
    ring, names = Ring(), ordinary()
    one = ring.wants(next(names), 0, "topic = 'golf'")
    other = ring.wants(next(names), 1, "topic = 'polo'")
    ring.run_for(5.0)
    ring.asks(other, "topic = 'golf'")  # half of what it wants is at either
    ring.run_for(8.0)
    assert ring.at(one) == "b0" and ring.at(other) == "b1"


def test_who_is_pinned_stays() -> None:
    ring = Ring()
    pinned = next(name for name in map(str, range(1000)) if identify(name) % PINNED == 0)
    ring.wants("y" + next(ordinary()), 1, "topic = 'golf'")
    ring.run_for(3.0)
    host = ring.wants(pinned, 0, "topic = 'golf'")
    ring.run_for(8.0)
    assert ring.at(host) == "b0" and sum(one.tally.pinned for one in ring.placements()) == 1
    shown = part(ring.cores()[0], Reports).listing.place()["placement"]
    assert shown["cluster"] == ["b1", "b2"] and not shown["costs_more_than_it_saves"]
    assert shown["joins_and_leaves_a_change"] == {"placed": 1.0, "pinned": 1.0}


def test_clusters_of_different_names_keep_to_themselves() -> None:
    ring = Ring()
    for core, name in zip(ring.cores(), ("east", "west", "west"), strict=True):
        part(core, Cluster).settings = replace(RULE, cluster=name)
    ring.run_for(4.0)
    known = [[one.node.name for one in part(core, Cluster).colleagues.values()] for core in ring.cores()]
    assert known == [[], ["b2"], ["b1"]]


def test_without_the_rule_there_is_nothing() -> None:
    def has(core: Core) -> bool:
        return any(isinstance(one, Placement | Cluster) for one in core.behaviours)

    assert not any(map(has, Ring(PlacementSettings()).cores()))


@pytest.mark.parametrize("seed", [0, 2])
def test_interests_change_and_clients_move(seed: int) -> None:
    result = simulate(find("chord-placement"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0 and result.overlay["placed"] > 0


@pytest.mark.parametrize("name", PLACEMENT_MUTANTS)
def test_a_wrong_belief_is_seen(name: str) -> None:
    assert any(not simulate(find("chord-placement"), name, None, seed).ok for seed in range(3)), name
