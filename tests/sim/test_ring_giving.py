"""Topics that are given to a newcomer while publications are on their way."""

from __future__ import annotations

from grapevine.wire.chord import ArcGive, ArcTaken
from grapevine.wire.identity import identify
from overlay.chord.planes import Planes
from overlay.chord.ring import owns
from overlay.chord.topics import key_of
from tests.sim.test_ring_leaving import LeavingStory, arc, core_of
from tools.simulator.broker import BrokerHost
from tools.simulator.ring import not_ideal, part
from tools.simulator.watcher import Aim


class GivingStory(LeavingStory):
    """A topic that will be the newcomer's, and a subscriber whom its root reaches by a hop and, when that one
    is lost, by another."""

    def __init__(self, newcomer: str = "", later: tuple[str, ...] = ()) -> None:
        super().__init__(newcomer=newcomer, later=later)
        arc = identify(self.before.name), identify(self.newcomer.name)
        self.topic = next(f"t{n}" for n in range(1000) if owns(*arc, key_of(f"'t{n}'")))
        others = [one for one in self.brokers if one not in (self.newcomer, self.behind, self.following)]
        self.home = next(one for one in others if self.hop(one) is not one)
        self.reader = self.client("reader", self.home.index)
        wanted = self.subscribe(self.reader, f"topic = '{self.topic}'")
        self.sender = self.publisher("sender", self.behind.index, filter="exists topic")
        self.wait(lambda: wanted.confirmed)

    def hop(self, target: BrokerHost) -> BrokerHost:
        """Of the root towards this one."""
        node = part(core_of(self.behind), Planes).membership.hop_to(identify(target.name))
        return next(one for one in self.brokers if node is not None and one.name == node.name)

    @property
    def following(self) -> BrokerHost:
        """Who has the copies of `behind`, and is the root after it."""
        ring = self.in_order()
        return ring[(ring.index(self.behind) + 1) % len(ring)]

    def publish(self, x: int) -> None:
        self.sender.publish({"topic": self.topic, "x": x})


def test_what_went_on_by_another_hop_is_settled_before_its_topic_is_given() -> None:
    """It was taken for settled because nothing was left on the way to the hop that was lost. What the new
    root sent came first, and what was on its way was taken for a duplicate."""
    story = GivingStory()
    lost = story.hop(story.home)
    story.crash(lost)
    story.publish(1)
    story.newcomer.start()
    story.wait(lambda: story.roots(story.behind).giving is not None)
    story.wait(lambda: story.hop(story.home) is not lost)
    story.hop(story.home).pause(2.0)
    story.run_for(1.5)
    giving = story.roots(story.behind).giving
    assert giving is not None and not giving.ready and not story.received(story.reader)
    story.publish(2)
    story.wait(lambda: not not_ideal(story.cores()) and story.sender.idle, 20.0)
    assert story.received(story.reader) == [1, 2]
    assert not story.oracle.violations


def test_a_part_that_was_being_given_is_known_to_who_has_the_copy_of_its_next_root() -> None:
    """Its root dies before the newcomer has it, and the next one, which had the copy, gives it instead. It
    had told those behind it where its arc begins now, not who wants the topics: when it died too, the
    newcomer got nothing, and took it for granted that nobody wants anything."""
    story = GivingStory()
    sender = story.publisher("other sender", story.before.index, filter="exists topic")
    gave: list[BrokerHost] = []

    def die(broker: BrokerHost, aim: Aim) -> bool:
        gave.append(broker)
        story.watcher.aim = Aim(ArcGive.kind, True, 1) if len(gave) == 1 else None
        story.crash(broker)
        return True

    story.watcher.aim = Aim(ArcGive.kind, True, 1)
    story.watcher.on_aim = die
    story.newcomer.start()
    story.wait(lambda: len(gave) == 2 and not not_ideal(story.cores()), 30.0)
    assert gave == [story.behind, story.following]
    sender.publish({"topic": story.topic, "x": 1})
    story.wait(lambda: sender.idle)
    assert story.received(story.reader) == [1]
    assert not story.oracle.violations


def test_who_was_giving_a_part_away_is_not_its_root_again_in_its_next_life() -> None:
    """The newcomer has it, and its root dies before it hears so. Back at once, behind another one that had
    come meanwhile, it asks who has its copy: it was told that all of that is its own again."""
    story = GivingStory("b5", ("b7",))
    root, later = story.behind, story.following
    assert (root.name, later.name) == ("b6", "b7")
    died: list[BrokerHost] = []

    def die(broker: BrokerHost, aim: Aim) -> bool:
        died.append(broker)
        story.crash(broker)
        story.world.after(0.001, lambda _: broker.start(), None)
        return True

    story.newcomer.start()
    story.wait(lambda: (giving := story.roots(root).giving) is not None and giving.ready)
    story.watcher.aim = Aim(ArcTaken.kind, False, 1)
    story.watcher.on_aim = die
    for other in (story.newcomer, story.in_order()[0]):
        story.network.clog(story.link(root.index, other.index), story.world.now + 1.2)
    later.start()
    story.wait(lambda: bool(died) and not not_ideal(story.cores()), 30.0)
    assert died == [root]
    story.wait(lambda: all(story.roots(broker).begin is not None for broker in story.brokers))
    assert sum(arc(story.roots(broker)) for broker in story.brokers) == 1 << 64
    assert not any(story.roots(broker).rebuilding.times for broker in story.brokers)
    assert not story.oracle.violations


def test_a_part_that_is_not_sent_yet_goes_with_what_a_dead_root_before_it_had() -> None:
    """The giver has the copy of the root before the newcomer's part, and learns that it died while it waits
    until what it has sent is settled and copied. It took nothing over while it gave: when it had given, what
    it could have taken lay behind another's part, and that one had no copy."""
    story = GivingStory()
    dead, held = story.before, story.hop(story.home)
    assert held not in (dead, story.behind)
    behind = story.roots(story.behind)
    node = next(node for node in behind.copies if node.name == dead.name)
    held.pause(3.5)
    story.publish(1)
    story.run_for(0.3)
    story.newcomer.start()
    story.wait(lambda: behind.giving is not None)
    story.crash(dead)
    held.pause(3.5)
    story.run_for(3.2)
    story.following.pause(4.4)
    story.wait(lambda: behind.contacts.dead(node))
    assert behind.giving is not None and not behind.giving.ready
    story.wait(lambda: not not_ideal(story.cores()) and story.sender.idle, 30.0)
    roots = [story.roots(broker) for broker in story.brokers if broker is not dead]
    story.wait(lambda: behind.giving is None and all(one.begin is not None for one in roots), 5.0)
    assert sum(map(arc, roots)) == 1 << 64 and not any(one.rebuilding.active for one in roots)
    assert story.received(story.reader) == [1]
    assert not story.oracle.violations
