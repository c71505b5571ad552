"""G4: with soft links POP and GRAPE decide as they do without, between real brokers in the simulator.

The figure is POP's Figure 1: nobody subscribes at B5, which soft links pass by; B2, which another one passes,
has subscribers of its own. Random trees follow.
"""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from grapevine.filters import parse
from overlay.data.routes import Route
from overlay.relocate import grape, pop
from overlay.relocate.grape import Choice
from overlay.relocate.ways import onward
from overlay.settings import OverlaySettings, RelocationSettings
from overlay.softlinks.chooser import Chooser
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Stage
from overlay.tree.peer import Peer
from tests.paper.figure import Figure
from tests.paper.test_pop_migration import PARENTS, SUBSCRIBERS
from tools.simulator.tables import behaviour

Links = tuple[tuple[str, str], ...]
SOFT: Links = (("B1", "B6"), ("B1", "B7"), ("B1", "B3"), ("B5", "B8"))
STRATEGIES = [(True, "SD"), (True, "SH"), (False, "S1"), (False, "S2"), (False, "SH")]
NEVER = 0.001  # moves per minute: decisions are taken and nobody goes


def settings(algorithm: str, moves_per_minute: float = NEVER) -> RelocationSettings:
    return RelocationSettings(
        algorithm, threshold=12, window_s=1.0, traces_max=12, moves_per_minute=moves_per_minute
    )


class World(Figure):
    """Brokers, subscribers of `n >= some`, a publisher P at `home`, and soft links that stay."""

    def __init__(
        self,
        relocation: RelocationSettings,
        ordered: bool = True,
        parents: dict[str, str] = PARENTS,
        subscribers: dict[str, list[int]] | None = None,
        home: str = "B1",
    ) -> None:
        super().__init__(parents, relocation, OverlaySettings(ordered=ordered, delta=4))
        if subscribers is None:
            subscribers = {broker: [0] * count for broker, count in SUBSCRIBERS.items()}
        for broker, wanted in subscribers.items():
            for number, least in enumerate(wanted):
                self.subscribe(broker, 1, f"class = 'STOCK' and n >= {least} and n != {-1 - number}")
        self.client("P", home)
        self.run(1.0)
        self.clients["P"].advertise(parse("class = 'STOCK'"))
        self.run(2.0)
        self.sent: dict[str, int] = {}
        send = self.network.send

        def counting(end, message, *more):  # type: ignore[no-untyped-def]
            kind = type(message).__name__
            self.sent[kind] = self.sent.get(kind, 0) + 1
            return send(end, message, *more)

        self.network.send = counting  # type: ignore[method-assign]

    def link(self, strategy: str, links: Links) -> None:
        for source, target in links:
            core, host = self.core(source), self.brokers[source]
            behaviour(core, Chooser).set_strategy(strategy, host.clock())
            behaviour(core, Shortcuts).open(self.core(target).id, host.clock())
            host.wake()
        self.run(2.0)
        shortcuts = [behaviour(self.core(name), Shortcuts) for name in self.parents]
        softs = [soft for one in shortcuts for soft in one.softs.out.values()]
        assert [soft.stage for soft in softs] == [Stage.ACTIVE] * len(links)

    def publish(self, rounds: int = 20) -> None:
        for _ in range(rounds):
            self.clients["P"].publish(*({"class": "STOCK", "n": n} for n in range(4)))
            self.run(0.1)
        self.run(1.0)

    def profiles(self) -> dict[str, tuple[dict[str, float], float]]:
        names = {self.core(name).id: name for name in self.parents}
        return {
            name: ({names[b]: count for b, count in sorted(table.downstream.items()) if count}, table.local)
            for name in self.parents
            for table in self.relocation_at(name).pop.tables.values()
        }

    def target(self, home: str = "B1") -> str:
        (verdict,) = self.relocation_at(home).verdicts.values()
        return verdict.name

    def judged(self, home: str = "B1") -> list[Choice]:
        choices: list[Choice] = []
        decide = self.relocation_at(home).grape.judged
        self.relocation_at(home).grape.judged = lambda client, choice, now: (
            choices.append(choice),
            decide(client, choice, now),
        )[1]
        return choices


def loads(choice: Choice) -> dict[int, int]:
    return {candidate.broker: candidate.messages for candidate in choice.candidates}


# --- Figure 1 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ordered", "strategy"), STRATEGIES)
def test_pop_has_the_same_profile_at_every_broker(ordered: bool, strategy: str) -> None:
    """POP 3.1: also at B5, which no publication passes."""
    plain, linked = World(settings("pop"), ordered), World(settings("pop"), ordered)
    linked.link(strategy, SOFT)
    for world in (plain, linked):
        world.publish()
    assert linked.profiles() == plain.profiles()
    assert linked.profiles()["B5"] == ({"B6": 15.0}, 0.0)
    assert linked.target() == plain.target() == "B6"
    assert "Probe" not in plain.sent and linked.sent["Probe"] > 0


@pytest.mark.parametrize(("ordered", "strategy"), STRATEGIES)
def test_grape_works_out_the_same_loads(ordered: bool, strategy: str) -> None:
    """GRAPE 4.1: B5 answers with nothing delivered, and would forward everything without soft links."""
    chosen = []
    for links in ((), SOFT):
        world = World(settings("grape"), ordered)
        choices = world.judged()
        world.link(strategy, links)
        world.publish()
        assert choices and {world.core(name).id for name in PARENTS} == choices[0].traces.keys()
        chosen.append((loads(choices[0]), world.target()))
        bypassed = choices[0].traces[world.core("B5").id]
        assert bypassed.deliveries == 0 and not any(bypassed.bits)
        assert not any(world.relocation_at(name).grape.noted for name in PARENTS)
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(("ordered", "strategy"), [(True, "SD"), (False, "S2")])
@pytest.mark.parametrize("algorithm", ["pop", "grape"])
def test_the_publisher_goes_where_it_goes_without_soft_links(
    ordered: bool, strategy: str, algorithm: str
) -> None:
    homes = []
    for links in ((), SOFT):
        world = World(settings(algorithm, moves_per_minute=60.0), ordered)
        world.link(strategy, links)
        world.publish(80)
        homes.append(world.publisher_home("P"))
        assert all(len(got) == 4 * 80 for got in world.ledger.got.values())
        assert len(world.ledger.got) == sum(SUBSCRIBERS.values())
    assert homes[0] == homes[1] and len(homes[0]) == 1


def test_at_most_one_probe_and_one_request_a_link() -> None:
    links = len(PARENTS) - 1
    world = World(settings("pop"))
    world.link("SD", SOFT)
    world.clients["P"].publish({"class": "STOCK", "n": 0})  # the first of a window is always traced
    world.run(1.0)
    assert world.sent["TraceResult"] == links
    # B1 asks B2 and B5, past whom it has soft links, and these ask on; B4 gets the publication alone.
    assert world.sent["Probe"] == links - 1
    world = World(settings("grape"))
    world.link("SD", SOFT)
    world.publish(3)
    assert world.sent["TraceInformationRequest"] == world.sent["TraceInformationAnswer"] == links


def test_without_probes_pop_would_choose_another_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_neighbours(route: Route, peers: object) -> dict[object, bool]:
        return {peer: True for peer in route.peers if isinstance(peer, Peer)}

    world = World(settings("pop"), ordered=False)
    monkeypatch.setattr(pop, "sides_of", only_neighbours)
    world.link("S2", (("B1", "B6"), ("B1", "B7"), ("B1", "B8")))
    world.publish()
    assert world.target() == "B2"


def test_without_names_grape_would_not_hear_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_named(ways: object) -> dict[int, tuple[bool, tuple[tuple[int, ...], ...]]]:
        return {broker: (True, ()) for broker, (served, _) in onward(ways).items() if served}  # type: ignore[arg-type]

    world = World(settings("grape"), ordered=False)
    monkeypatch.setattr(grape, "onward", nobody_named)
    choices = world.judged()
    world.link("S2", (("B1", "B6"), ("B1", "B7"), ("B1", "B8")))
    world.publish()
    asked = {world.core(name).id for name in ("B1", "B2", "B3", "B4")}
    assert choices[0].traces.keys() == asked


# --- failures ---------------------------------------------------------------------------------------------


def test_a_broker_that_was_served_and_has_restarted_makes_the_session_void() -> None:
    world = World(settings("grape"))
    choices = world.judged()
    world.link("SD", SOFT)
    world.clients["P"].publish(*({"class": "STOCK", "n": 9} for _ in range(11)))
    world.run(0.5)
    world.brokers["B6"].crash()
    world.brokers["B6"].start()
    world.run(5.0)
    world.clients["P"].publish({"class": "STOCK", "n": -9})  # the last of the session, for nobody
    world.run(0.9)
    assert not choices
    world.publish()
    assert choices, "the next session is whole"


@pytest.mark.parametrize("fault", ["crash", "silence"])
def test_a_trace_whose_probe_is_lost_is_over_and_not_counted(fault: str) -> None:
    world = World(settings("pop"))
    world.link("SD", SOFT)
    world.brokers["B5"].crash() if fault == "crash" else world.brokers["B5"].pause(1.0)
    world.clients["P"].publish({"class": "STOCK", "n": 0})
    world.run(0.5)
    (profiled,) = world.relocation_at("B1").pop.publishers.values()
    assert (profiled.outstanding, profiled.traces) == ((1, 0) if fault == "silence" else (0, 0))
    world.run(20.0)
    assert (profiled.outstanding, profiled.traces) == ((0, 1) if fault == "silence" else (0, 0))
    assert not any(world.relocation_at(name).pop._open for name in PARENTS if name != "B5")


# --- random trees -----------------------------------------------------------------------------------------


def tree(random: Random) -> tuple[dict[str, str], dict[str, list[int]], Links]:
    count = random.randint(5, 9)
    parents = {"B0": ""}
    for number in range(1, count):
        parents[f"B{number}"] = f"B{max(0, number - random.randint(1, 3))}"
    subscribers = {
        name: [random.randrange(4) for _ in range(random.randint(1, 4))]
        for name in parents
        if random.random() < 0.6
    }
    near = {frozenset(pair) for pair in parents.items()}
    pairs = [(a, b) for a in parents for b in parents if a != b and frozenset((a, b)) not in near]
    far = [pair for pair in pairs if len(path(parents, *pair)) <= 4]
    return parents, subscribers, tuple(random.sample(far, min(len(far), random.randint(1, 10))))


def path(parents: dict[str, str], one: str, other: str) -> list[str]:
    """From the one to the other, without the first."""

    def up(name: str) -> list[str]:
        return [name, *up(parents[name])] if name else []

    a, b = up(one), up(other)
    while len(a) > 1 and len(b) > 1 and a[-2] == b[-2]:
        a.pop(), b.pop()
    return [*a, *reversed(b[:-1])][1:]


def decided(relocation: RelocationSettings, ordered: bool, strategy: str, seed: int, soft: bool) -> object:
    parents, subscribers, links = tree(Random(seed))
    world = World(relocation, ordered, parents, subscribers, "B0")
    choices = world.judged("B0")
    world.link(strategy, links if soft else ())
    world.publish(12)
    verdicts = [verdict.name for verdict in world.relocation_at("B0").verdicts.values()]
    if relocation.algorithm == "pop":
        return verdicts, world.profiles()
    return verdicts, [loads(choice) for choice in choices[:1]]


@pytest.mark.parametrize(("ordered", "strategy"), [(True, "SD"), (False, "S1"), (False, "S2")])
@pytest.mark.parametrize("algorithm", ["pop", "grape"])
@pytest.mark.parametrize("seed", range(3))
def test_random_trees(algorithm: str, ordered: bool, strategy: str, seed: int) -> None:
    every = 4 * 12  # publications: all of them are traced, so that chance does not choose
    relocation = replace(settings(algorithm), threshold=every, traces_max=10**9)
    plain = decided(relocation, ordered, strategy, seed, soft=False)
    assert decided(relocation, ordered, strategy, seed, soft=True) == plain
