"""Brokers that leave a ring while others come onto it."""

from __future__ import annotations

from msgspec.structs import replace

from grapevine.wire.identity import identify
from overlay.chord.planes import Planes
from overlay.chord.roots import Roots
from overlay.core import Core
from tests.sim.stories import Story
from tools.simulator.broker import BrokerHost
from tools.simulator.ring import not_ideal, part
from tools.simulator.scenario import Brokers, Clients, Faults, find
from tools.simulator.simulation import Simulation

COUNT, SEEDS = 8, 4


class LeavingStory(Story):
    """Eight brokers, one of them not yet on the ring: `newcomer`, which is no seed. `before` and `behind` are
    where it will be. Those `later` are not there either."""

    def __init__(self, successors: int = 4, newcomer: str = "", later: tuple[str, ...] = ()) -> None:
        calm = find("chord-calm")
        scenario = replace(
            calm,
            brokers=Brokers(overlay="chord", count=COUNT, seeds=SEEDS),
            clients=Clients(publishers=0, subscribers=0),
            faults=Faults(),
            chord=replace(calm.chord, successors=successors),
        )
        Simulation.__init__(self, scenario, 0)
        ring = sorted(self.brokers, key=lambda broker: identify(broker.name))
        place = next(n for n, broker in enumerate(ring) if broker.index >= SEEDS and newcomer in broker.name)
        self.before, self.newcomer, self.behind = ring[place - 1], ring[place], ring[(place + 1) % COUNT]
        for broker in self.brokers:
            if broker is not self.newcomer and broker.name not in later:
                broker.start()
        self.wait(lambda: not not_ideal(self.cores()) and all(core.ready for core in self.cores()))

    def in_order(self) -> list[BrokerHost]:
        """Those of the ring, by their places, without the newcomer."""
        return sorted(set(self.brokers) - {self.newcomer}, key=lambda broker: identify(broker.name))

    def roots(self, broker: BrokerHost) -> Roots:
        return part(core_of(broker), Planes).roots


def core_of(broker: BrokerHost) -> Core:
    assert broker.core is not None
    return broker.core


def test_who_leaves_is_found_by_those_before_it_while_it_is_on_the_ring() -> None:
    """A client that does not answer keeps it. Who came before it meanwhile was refused, gave it up and passed
    it by: nobody heard of the newcomer, and no answer of a root reached the leaver."""
    story = LeavingStory()
    staying = story.client("staying", story.behind.index)
    story.wait(lambda: bool(core_of(story.behind).clients))
    staying.pause(12.0)
    story.behind.leave()
    story.newcomer.start()
    story.wait(lambda: core_of(story.newcomer).ready and not not_ideal(story.cores()), 6.0)
    assert not story.behind.left
    story.wait(lambda: story.behind.left and not not_ideal(story.cores()), 30.0)
    assert not story.oracle.violations


def test_a_root_that_gives_a_part_of_its_arc_takes_no_other_meanwhile() -> None:
    """It gives the newcomer its part. Who is before that one leaves, knows nothing of it, and gives what it
    has to the same root: that went with the part that was given, and nobody was the root there."""
    story = LeavingStory()
    story.newcomer.start()
    story.wait(lambda: story.newcomer.core is not None and story.roots(story.behind).giving is not None)
    story.wall(story.newcomer, seconds=1.0)
    story.before.leave()
    story.wait(lambda: story.before.left and not not_ideal(story.cores()), 10.0)
    assert sum(arc(story.roots(broker)) for broker in story.brokers if broker.core) == 1 << 64
    assert not any(story.roots(broker).rebuilding.active for broker in story.brokers if broker.core)
    assert not story.oracle.violations


def test_who_leaves_gives_its_topics_on_when_the_part_that_it_is_giving_is_taken() -> None:
    """The newcomer has been sent its part and has not answered yet. All of it was given to the successor as
    well, and both were the root of that part."""
    story = LeavingStory()
    story.newcomer.start()
    story.wait(lambda: (giving := story.roots(story.behind).giving) is not None and giving.ready)
    story.behind.leave()
    story.wait(lambda: story.behind.left and not not_ideal(story.cores()), 10.0)
    assert sum(arc(story.roots(broker)) for broker in story.brokers if broker.core) == 1 << 64
    assert not story.oracle.violations


def test_who_leaves_takes_what_the_root_before_it_was_if_that_one_dies_meanwhile() -> None:
    """Its successor is dead, and does not take its topics; then the root before it dies, whose copy no other
    live one has. It was not looked at any more, since the leaver had begun to give."""
    story = LeavingStory()
    before, leaver, behind = story.in_order()[2:5]
    story.crash(behind)
    leaver.leave()
    story.run_for(0.5)
    story.crash(before)
    story.wait(lambda: leaver.left and not not_ideal(story.cores()), 20.0)
    assert sum(arc(story.roots(broker)) for broker in story.brokers if broker.core) == 1 << 64
    assert not any(story.roots(broker).rebuilding.active for broker in story.brokers if broker.core)


def test_who_leaves_waits_until_somebody_before_it_counts_on_it() -> None:
    """The broker before it dies, and the leaver gives it up first. Others' lists end with the leaver until
    they have done so too: it left at once, and a list before it led nowhere."""
    story = LeavingStory(successors=2)
    before, leaver = story.in_order()[2:4]
    story.crash(before)
    core = core_of(leaver)
    core.lose(core.peers[identify(before.name)], leaver.clock())
    leaver.leave()
    story.wait(lambda: leaver.left and not not_ideal(story.cores()), 30.0)
    assert not story.oracle.violations


def test_who_leaves_goes_when_the_roots_whose_copies_it_has_have_other_holders() -> None:
    """One of them has just died, and nobody knows it yet. The leaver took the copy with it, and who had the
    other one died before it knew."""
    story = LeavingStory()
    before, leaver, behind = story.in_order()[2:5]
    story.wall(before, seconds=1.2)
    story.crash(before)
    leaver.leave()
    story.run_for(1.0)
    story.crash(behind)
    story.wait(lambda: leaver.left and not not_ideal(story.cores()), 30.0)
    assert sum(arc(story.roots(broker)) for broker in story.brokers if broker.core) == 1 << 64
    assert not any(story.roots(broker).rebuilding.active for broker in story.brokers if broker.core)


def arc(roots: Roots) -> int:
    assert roots.begin is not None
    return (roots.here - roots.begin) % (1 << 64)
