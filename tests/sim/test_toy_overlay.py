"""The seams hold what they promise: an overlay of another kind runs on the shared parts, under the oracle."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters import parse
from grapevine.wire.messages import Hello, LaneBatch, LaneMarks
from overlay.administration.census import Census
from overlay.profiles import PROFILES
from overlay.settings import CoreSettings, LinkSettings, OverlaySettings, TreeSettings
from tests.sim.toy_messages import Ask, Heard, Known, Wanted
from tests.sim.toy_overlay import toy_broker
from tools.simulator import tables
from tools.simulator.clients import ClientHost
from tools.simulator.faults import FaultPlan
from tools.simulator.forms import FORMS
from tools.simulator.oracle import Oracle
from tools.simulator.scenario import Brokers, Clients, Faults, Scenario
from tools.simulator.simulation import Simulation
from tools.simulator.tables import behaviour
from tools.simulator.watcher import NAMES
from tools.simulator.world import World

SEEDS = 50
LINKS = LinkSettings(lost_after_s=60.0, ping_s=0.5, greet_s=1.0, redial_s=0.3, window=256)


class ToyForm:
    aims = [Hello.kind, LaneBatch.kind, LaneMarks.kind]  # noqa: RUF012  a form is one object

    def addresses(self, scenario: Scenario, number: int, brokers: int, random: Random) -> tuple[str, ...]:
        return tuple(f"sim://b{other}" for other in range(brokers) if other != number)

    def settings(self, scenario: Scenario, random: Random, addresses: tuple[str, ...]) -> CoreSettings:
        return CoreSettings(OverlaySettings("toy"), TreeSettings(addresses), scenario.links)

    def roles(self, scenario: Scenario, number: int) -> frozenset[str]:
        return frozenset(("broker",))

    def unrest(self, simulation: Simulation) -> list[str]:
        wanted = len(simulation.brokers) - 1
        cores = [broker.core for broker in simulation.brokers if broker.core is not None]
        return [f"{core.name} does not know all" for core in cores if len(core.peers) != wanted]

    def compare(self, simulation: Simulation) -> None:
        """Nothing is known of others but their publishers, which the leak check looks at."""

    def compare_empty(self, simulation: Simulation) -> None:
        tables.compare_empty(simulation)

    def oracle(self, world: World, indices: dict[str, int], judge_every: int) -> Oracle:
        return Oracle(world, indices, judge_every)

    def faults(self, scenario: Scenario) -> tuple[type[FaultPlan], float]:
        return FaultPlan, scenario.links.lost_after_s

    def watch(self, simulation: Simulation) -> None: ...

    def figures(self, simulation: Simulation) -> dict[str, int]:
        return {}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROFILES, "toy", toy_broker)
    monkeypatch.setitem(FORMS, "toy", ToyForm())
    for message in (Known, Heard, Ask, Wanted):
        monkeypatch.setitem(NAMES, message.kind, message.__name__)


def scenario() -> Scenario:
    return Scenario(
        "toy",
        seconds=8.0,
        brokers=Brokers(overlay="toy", count=(3, 5)),
        clients=Clients(publishers=(2, 4), subscribers=(2, 5)),
        faults=Faults(crashes=(0, 2), aimed=(0, 2), breaks=(1, 4), clogs=(0, 2), client_breaks=(0, 3)),
        links=LINKS,
    )


@pytest.mark.parametrize("part", range(5))
def test_fifty_seeds_with_broken_links_and_restarts(part: int) -> None:
    lanes = 0
    for seed in range(part * SEEDS // 5, (part + 1) * SEEDS // 5):
        simulation = Simulation(scenario(), seed)
        result = simulation.run()
        assert not result.violations, (seed, result.violations)
        assert result.owed, seed
        peers = [peer for broker in simulation.brokers if broker.core for peer in broker.core.peers.values()]
        lanes += sum(lane.received_total for peer in peers for lane in peer.every_lane()[1:])
    assert lanes, "nothing went over a second lane"


def test_a_filter_is_refused_with_the_overlays_own_words() -> None:
    simulation = Simulation(Scenario("toy", brokers=Brokers(overlay="toy", count=3), links=LINKS), 1)
    simulation.apps.clear()
    for broker in simulation.brokers:
        broker.start()
    world = simulation.world
    client = ClientHost(
        world,
        simulation.network,
        "asker",
        (simulation.brokers[0].address,),
        simulation.oracle,
        random=world.stream("asker"),
        digest=simulation.digest,
    )
    simulation.watcher.add_client(client)
    client.start()
    world.run(world.now + 5.0)
    refused, taken = client.subscribe(parse("secret = 1")), client.subscribe(parse("open = 1"))
    world.run(world.now + 2.0)
    assert refused.request.error is not None
    assert "this overlay keeps no secrets" in str(refused.request.error)
    assert taken.confirmed


def test_a_question_reaches_everybody_once() -> None:
    simulation = Simulation(Scenario("toy", brokers=Brokers(overlay="toy", count=4), links=LINKS), 1)
    for broker in simulation.brokers:
        broker.start()
    world, asked = simulation.world, simulation.brokers[2]
    world.run(world.now + 5.0)
    assert asked.core is not None
    answers: list[str] = []
    census = behaviour(asked.core, Census)
    census.ask("brief", None, asked.clock(), lambda found, now: answers.extend(r["name"] for r in found))
    asked.wake()
    world.run(world.now + 5.0)
    assert sorted(answers) == ["b0", "b1", "b2", "b3"]
